"""Views of positive pairs: RandomMask, correlated noise, colour; and the learned bias."""

import pytest
import torch
from conftest import pretrain_arm, seeded, tiny_data, tiny_training

from rarefeat.errors import RarefeatError
from rarefeat.model.contrastive import (
    infonce,
    probabilities,
    weight_gradient_coefficients,
)
from rarefeat.model.encoder import embed, pre_activations
from rarefeat.model.positive_pairs import PairSampler
from rarefeat.model.simulators import make_simulator
from rarefeat.stages.synthesise import synthesise
from rarefeat.workflow.config.model import Arm, Data, Views

D, D1, K, SIGMA = 6, 200, 400, 0.3


def views_of(seed=1, signal=1, **changes):
    """Both views of K pairs with one token each, (K, d1) twice, their signal, and the Pairs."""
    space = make_simulator("direct", "views", D, D1, 1, [seed])
    pairs = PairSampler(Views(**changes), space, "direct", "views", [seed])
    z = signal * torch.randint(-1, 2, (1, K, 1, D), generator=seeded(3)).float()
    x, y = pairs.sample_pair_tokens(torch.cat([z, z], 1), SIGMA, [seeded(4)])[0, :, 0].split(K)
    return x, y, z[0, :, 0] @ space.dictionary[0].T, pairs


def correlation(a, b):
    return ((a * b).mean() / (a.square().mean() * b.square().mean()).sqrt()).item()


def test_mask_splits_coordinates_and_keeps_mean():
    x, y, _, _ = views_of(mask=0.25)
    plain = views_of()[0]
    given = x != 0
    torch.testing.assert_close(x[given], 4 * plain[given])
    torch.testing.assert_close(y[~given], plain[~given] / 0.75)
    assert (y[given] == 0).all()
    assert given.float().mean().item() == pytest.approx(0.25, abs=0.01)


def test_mask_decorrelates_noise_and_keeps_signal():
    """Wen & Li, Lemma B.3: along a dense direction both views share the signal, not the noise."""
    x, y, _, pairs = views_of(mask=0.5)
    M = pairs.simulator.dictionary[0]
    assert correlation(x @ M, y @ M) > 0.5
    x, y, _, _ = views_of(mask=0.5, signal=0)
    assert abs(correlation(x @ M, y @ M)) < 0.05
    assert (x * y == 0).all()


@pytest.mark.parametrize("rho", [0.0, 0.4, 1.0])
def test_view_noise_has_correlation_rho(rho):
    x, y, signal, _ = views_of(rho=rho)
    assert correlation(x - signal, y - signal) == pytest.approx(rho, abs=0.02)
    assert (y - signal).std().item() == pytest.approx(SIGMA, rel=0.02)
    if rho == 1:
        torch.testing.assert_close(x, y)


@pytest.mark.parametrize("redrawn", [False, True])
def test_colour_is_shared_unless_redrawn(redrawn):
    x, y, signal, pairs = views_of(colour=3, colour_sigma=2.0, colour_redrawn=redrawn)
    C = pairs.directions[0]
    torch.testing.assert_close(C.T @ C, torch.eye(3), atol=1e-5, rtol=0)
    torch.testing.assert_close(
        pairs.simulator.dictionary[0].T @ C, torch.zeros(D, 3), atol=1e-5, rtol=0
    )
    seen = correlation((x - signal) @ C, (y - signal) @ C)
    assert seen == pytest.approx(0.0 if redrawn else 4 / (4 + SIGMA**2), abs=0.08)
    assert ((x - signal) @ C).std().item() == pytest.approx((4 + SIGMA**2) ** 0.5, rel=0.06)


def test_default_views_equal_simulator_tokens():
    space = make_simulator("direct", "views", D, D1, 1, [1])
    z = torch.randint(-1, 2, (1, 8, 2, D), generator=seeded(3)).float()
    pairs = PairSampler(Views(), space, "direct", "views", [1])
    assert torch.equal(
        pairs.sample_pair_tokens(z, SIGMA, [seeded(4)]), space.sample_tokens(z, SIGMA, [seeded(4)])
    )


def test_views_do_not_depend_on_seed_block():
    config = Views(mask=0.5, colour=2, colour_sigma=1.0, colour_redrawn=True)
    z = torch.randint(-1, 2, (2, 8, 1, D), generator=seeded(3)).float()

    def tokens(seeds, latents):
        space = make_simulator("direct", "views", D, D1, 1, seeds)
        return PairSampler(config, space, "direct", "views", seeds).sample_pair_tokens(
            latents, SIGMA, [seeded(seed) for seed in seeds]
        )

    together = tokens([5, 6], z)
    torch.testing.assert_close(together[1:], tokens([6], z[1:]))


def test_impossible_views_are_rejected():
    space = make_simulator("reduced", "views", D, D1, 1, [1])
    with pytest.raises(RarefeatError, match="got simulator: reduced"):
        PairSampler(Views(mask=0.5), space, "reduced", "views", [1])
    for changes in ({"mask": 0.5, "rho": 0.5}, {"colour": 2}, {"colour_redrawn": True}):
        with pytest.raises(ValueError, match=r"rho|colour"):
            Views(**changes)
    for views, L in (({"mask": 0.5}, 3), ({"colour": 9, "colour_sigma": 1.0}, 1)):
        with pytest.raises(ValueError, match=r"views\.(mask needs L = 1|colour must be at most)"):
            Data(**tiny_data().model_dump() | {"views": views, "L": L})


def test_gradient_rule_moves_bias_from_first_step():
    data = tiny_data(L=1, d1=24)
    training = tiny_training(T=3, history=True, bias={"rule": "gradient"})
    latents = synthesise("views", data, 0.5, [1, 2])["train"]
    encoder = pretrain_arm(
        "views", "direct", data, training, Arm(arm="dense"), 0.3, [1, 2], latents
    )[0]
    assert (encoder.bias != 0).any()
    assert (encoder.history[:, 1, :, -1] != 0).any()


def test_history_holds_colour_directions_after_features():
    data = tiny_data(L=1, d1=24, views={"colour": 2, "colour_sigma": 1.0})
    latents, training = synthesise("views", data, 0.5, [1])["train"], tiny_training(history=True)
    at = "views", "direct", data, training, Arm(arm="dense"), 0.3, [1], latents
    encoder, _ = pretrain_arm(*at)
    space = make_simulator("direct", "views", data.d, data.d1, 8, [1])
    C = PairSampler(data.views, space, "direct", "views", [1]).directions[0]
    seen = encoder.history[0, -1, :, data.d : data.d + 2]
    torch.testing.assert_close(seen, encoder.weights[0] @ C)


def test_clean_negatives_in_loss_and_gradient():
    """Wen & Li, Remark 2.4: the negatives of an anchor are the other samples themselves."""
    space = make_simulator("direct", "views", D, D1, 1, [1])
    z = torch.randint(-1, 2, (1, 8, 1, D), generator=seeded(3)).float()
    tokens = [
        PairSampler(
            Views(mask=0.5, clean_negatives=clean), space, "direct", "views", [1]
        ).sample_pair_tokens(torch.cat([z, z], 1), SIGMA, [seeded(4)])
        for clean in (False, True)
    ]
    assert torch.equal(tokens[0], tokens[1][:, :16])
    x, y, sample = tokens[1].split(8, 1)
    assert torch.equal(sample, space.sample_tokens(z, SIGMA, [seeded(4)]))
    weights = torch.randn(1, 5, D1, generator=seeded(5)).mul(0.3).requires_grad_()
    bias, tau = torch.full((1, 5), 0.1), 0.5
    f_x = embed(pre_activations(x, weights), bias)
    f_y, negatives = (embed(pre_activations(part, weights), bias).detach() for part in (y, sample))
    scores = torch.stack(
        [
            torch.stack([f_x[0, p] @ (f_y if p == s else negatives)[0, s] for s in range(8)])
            for p in range(8)
        ]
    )
    loss = torch.nn.functional.cross_entropy(scores / tau, torch.arange(8))
    torch.testing.assert_close(infonce(f_x, f_y, tau, negatives)[0], loss)
    loss.backward()
    with torch.no_grad():
        p = probabilities(f_x, f_y, tau, negatives)
        c = weight_gradient_coefficients(pre_activations(x, weights), bias, f_y, p, tau, negatives)
        torch.testing.assert_close(torch.einsum("sklm,sklp->smp", c, x), weights.grad)
