"""Scores of planted neurons, whose moments are known in closed form."""

import math

import pytest
import torch

from rarefeat.model.activation_moments import batch_moments, update_running_moments
from rarefeat.model.randomness import generator
from rarefeat.model.sparse_coding import frequencies, latent_pairs
from rarefeat.model.theory import activation_probability
from rarefeat.studies.selection.config import SCORES
from rarefeat.studies.selection.scores import SILENT_LAST, compute_score, evaluate_score

S, K, M = 2, 4000, 5
DRAW = torch.rand(S, M, generator=torch.Generator().manual_seed(3))


def moments(f_x, f_y=None, residual=None, norms=None, before=None):
    """Return the moments of planted activations; what is not given does not matter."""
    norms = torch.ones(f_x.shape[0], f_x.shape[-1]) if norms is None else norms
    residual = torch.zeros(f_x.shape[:2]) if residual is None else residual
    before = norms if before is None else before
    return batch_moments(f_x, f_x if f_y is None else f_y, f_x, residual, norms, before)


def active(chance, n=K, seed=0):
    """Return a feature of some probability in n samples: -1, 0 or 1."""
    random = torch.Generator().manual_seed(seed)
    return (torch.rand(n, generator=random) < chance) * (
        1.0 - 2 * torch.randint(2, (n,), generator=random)
    )


@pytest.mark.parametrize("name", ["effective_rate", "hoyer_rate", "paired_rate", "firing_rate"])
@pytest.mark.parametrize("size", [1e-3, 1.0, 30.0])
def test_rate_of_a_pure_neuron_is_the_frequency(name, size):
    z = torch.stack([active(chance, seed=i) for i, chance in enumerate((0.02, 0.1, 0.5))], -1)
    values = compute_score(name, moments(size * z[None]), None)[0]
    torch.testing.assert_close(values, (z != 0).float().mean(0), rtol=1e-5, atol=0)


def test_effective_rate_is_the_activation_probability():
    """With one token and no noise an activation has one size: eps_j C loglog(d) / d."""
    chance = activation_probability(frequencies(9, [1.0], 0.3), 1.0)
    z = latent_pairs(200_000, 1, chance, generator("selection tests", 0, "rate"))[:, :, 0].float()
    values = compute_score("effective_rate", moments(z[None, :, 0], z[None, :, 1]), None)[
        0
    ].double()
    spread = (chance * (1 - chance) / len(z)).sqrt()
    assert ((values - chance).abs() < 4 * spread).all()


def test_effective_rate_of_several_tokens():
    """With n of L tokens active, the rate is p (E n^2)^2 / E n^4."""
    p, L = 0.2, 3
    chance = torch.full((3,), p, dtype=torch.float64)
    pairs = latent_pairs(400_000, L, chance, generator("selection tests", 1, "rate"))
    z = pairs[:, 0].sum(1).float()
    weights = {n: math.comb(L - 1, n - 1) / 2 ** (L - 1) for n in range(1, L + 1)}
    second, fourth = (sum(w * n**k for n, w in weights.items()) for k in (2, 4))
    values = compute_score("effective_rate", moments(z[None]), None)[0]
    torch.testing.assert_close(values, torch.full((3,), p * second**2 / fourth), rtol=0.02, atol=0)


def test_paired_rate_alone_is_robust_to_noise():
    z, random = active(0.05), torch.Generator().manual_seed(5)
    view = [(z + 0.3 * torch.randn(K, generator=random))[None, :, None] for _ in range(2)]
    noisy = moments(*view)
    share = (z != 0).float().mean().item()
    assert abs(compute_score("paired_rate", noisy, None).item() - share) < 0.3 * share
    assert compute_score("effective_rate", noisy, None).item() > 2 * share


def test_scores_of_planted_neurons():
    """Neuron 0 is 2 for one sample in four, neuron 1 is 1 for every sample, neuron 2 is 0."""
    f = torch.zeros(1, 8, 3)
    f[0, :2, 0], f[0, :, 1] = 2.0, 1.0
    residual = torch.tensor([[0.5, 0.25, *[0.1] * 6]])
    norms, before = torch.tensor([[3.0, 1.0, 2.0]]), torch.tensor([[3.0, 2.0, 1.0]])
    found = moments(f, residual=residual, norms=norms, before=before)
    expected = {
        "norm": [3, 1, 2],
        "firing_rate": [0.25, 1, 0],
        "contribution": [1, 1, 0],
        "residual": [-0.375, -(0.75 + 0.6) / 8, SILENT_LAST],
        "growth": [0, math.log(2), -math.log(2)],
        "effective_rate": [0.25, 1, SILENT_LAST],
        "hoyer_rate": [0.25, 1, SILENT_LAST],
        "paired_rate": [0.25, 1, SILENT_LAST],
    }
    for name, values in expected.items():
        planted = torch.tensor(values, dtype=torch.float32)
        torch.testing.assert_close(compute_score(name, found, None)[0], planted)
    assert set(SCORES) == {*expected, "random"}
    assert torch.equal(compute_score("random", found, DRAW), DRAW)
    with pytest.raises(ValueError, match="unknown score"):
        compute_score("size", found, DRAW)


def test_rates_and_residual_are_scale_invariant():
    f = torch.randn(1, 100, M, generator=torch.Generator().manual_seed(1)).relu()
    for name in ("firing_rate", "effective_rate", "hoyer_rate", "paired_rate", "residual"):
        plain, scaled = (
            compute_score(name, moments(k * f, residual=torch.ones(1, 100)), None)
            for k in (1.0, 16.0)
        )
        torch.testing.assert_close(plain, scaled)


def test_running_mean_forgets_beyond_its_memory():
    batches = [moments(torch.full((1, 4, 1), float(value))) for value in (1, 2, 3, 10)]
    mean = None
    for step, batch in enumerate(batches[:3]):
        mean = update_running_moments(mean, batch, step, 3)
    torch.testing.assert_close(mean.first, torch.tensor([[2.0]]))
    torch.testing.assert_close(
        update_running_moments(mean, batches[3], 3, 3).first, torch.tensor([[2 + (10 - 2) / 3]])
    )


def test_evaluate_score():
    wanted = torch.tensor([True, False, False, True])
    assert evaluate_score(torch.tensor([0.0, 2.0, 3.0, 1.0]), wanted) == (1.0, 1.0)
    assert evaluate_score(torch.tensor([9.0, 2.0, 3.0, 8.0]), wanted) == (0.0, 0.0)
    assert evaluate_score(torch.ones(4), wanted) == (0.5, 0.5)
    auc, precision = evaluate_score(torch.tensor([0.0, 1.0, 2.0, 3.0]), wanted)
    assert (auc, precision) == (0.5, 0.5)
    for none in (torch.zeros(4, dtype=torch.bool), torch.ones(4, dtype=torch.bool)):
        assert all(math.isnan(value) for value in evaluate_score(torch.rand(4), none))


def test_silent_neurons_come_last_and_tie():
    values = torch.tensor([SILENT_LAST, SILENT_LAST, 0.5, -0.5])
    assert evaluate_score(values, torch.tensor([False, True, False, False]))[0] == pytest.approx(
        1 / 6
    )


def test_scores_are_at_chance_for_equal_frequencies():
    """By symmetry the AUC is a half, for pure neurons of random size over many draws of data."""
    random, chance = torch.Generator().manual_seed(11), torch.full((6,), 0.3, dtype=torch.float64)
    is_last = torch.arange(6) == 5
    found = {name: [] for name in SCORES}
    for seed in range(400):
        pairs = latent_pairs(60, 2, chance, generator("selection tests", seed, "symmetry"))
        size = 0.5 + torch.rand(6, generator=random)
        f_x, f_y = (size * pairs.sum(2).float())[None].unbind(2)
        residual, before = 1 / (1 + f_x.abs().sum(-1)), torch.rand(1, 6, generator=random)
        part = moments(f_x, f_y, residual=residual, norms=size[None], before=before)
        draw = torch.rand(1, 6, generator=random)
        for name, aucs in found.items():
            aucs.append(evaluate_score(compute_score(name, part, draw)[0], is_last)[0])
    for name, aucs in found.items():
        values = torch.tensor(aucs)
        error = values.std() / len(values) ** 0.5
        assert abs(values.mean() - 0.5) < 3.5 * error, name
        assert error < 0.03


def test_rare_feature_is_found_by_rate_not_by_norm():
    chance = torch.tensor([0.3] * 5 + [0.1], dtype=torch.float64)
    z = latent_pairs(400, 1, chance, generator("selection tests", 3, "rare"))[:, :, 0].float()
    size = torch.tensor([1.0, 1.1, 0.9, 1.0, 1.2, 1.5])
    part = moments((size * z[:, 0])[None], (size * z[:, 1])[None], norms=size[None])
    wanted = torch.arange(6) == 5
    assert evaluate_score(compute_score("effective_rate", part, None)[0], wanted)[0] == 1.0
    assert evaluate_score(compute_score("norm", part, None)[0], wanted)[0] == 0.0
