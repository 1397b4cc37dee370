"""Parts of a training step: groups of arms, pruning rules, masks and matrix products."""

from types import SimpleNamespace

import pytest
import torch
from conftest import pretrain_arm, seeded, tiny_data, tiny_training

from rarefeat.model.arms import ARMS, PruningContext
from rarefeat.model.batch_invariant import align_replicas, matmul
from rarefeat.model.randomness import standard_gamma
from rarefeat.stages import pretrain as stage
from rarefeat.stages.synthesise import synthesise
from rarefeat.training import loop
from rarefeat.training.step import apply_mask, forward, initial_state, loss_gradient
from rarefeat.workflow.config.model import Arm

POINT = "training tests", "reduced", tiny_data(d1=60), tiny_training(T=8, history=True)


def together(arms, T=8):
    latents = synthesise(POINT[0], POINT[2], 0.5, [1, 2])["train"]
    return stage.pretrain(*POINT[:3], tiny_training(T=T, history=True), arms, 0.1, [1, 2], latents)


def test_arms_share_training_until_masks_differ(monkeypatch):
    steps = []
    monkeypatch.setattr(
        loop,
        "apply_step",
        lambda *args, update=loop.apply_step: steps.append(args) or update(*args),
    )
    arms = [
        Arm(arm="dense"),
        Arm(arm="oracle_all", onset=7),
        Arm(arm="pruned_neuron", alpha=0.25, onset=3),
    ]
    encoders, rows = together(arms)
    assert len(steps) == 3 * 1 + 4 * 2 + len(
        {encoder.weights.numpy().tobytes() for encoder in encoders.values()}
    )
    for arm in arms:
        latents = synthesise(POINT[0], POINT[2], 0.5, [1, 2])["train"]
        alone, own = pretrain_arm(*POINT, arm, 0.1, [1, 2], latents)
        for one, other in zip(encoders[arm.label], alone, strict=True):
            torch.testing.assert_close(one, other, rtol=0, atol=0, equal_nan=True)
        assert repr([row for row in rows if row.items() >= arm.model_dump().items()]) == repr(
            own
        )  # NaN is NaN


def test_moments_of_small_weights():
    latents = synthesise(POINT[0], POINT[2], 0.5, [1, 2])["train"]
    source = loop.PairSource(*POINT, 0.1, [1, 2], latents)
    group = loop.Group([SimpleNamespace(reads_moments=True)], initial_state(1e-5 * source.weights))
    moments = loop.look(source, source.draw(), group, POINT[3], 0, 100)[0].batch_moments
    torch.testing.assert_close(moments.residual, torch.full((2, 8), 1 - 1 / 6))  # 1 - 1 / K
    torch.testing.assert_close(moments.norm, group.state.weights.square().sum(-1).sqrt())


@pytest.mark.parametrize("kind", ["reduced", "direct"])
def test_attention_scale_is_a_number_or_a_name(kind):
    latents = synthesise(POINT[0], POINT[2], 0.5, [1, 2])["train"]

    def train(scale):
        point = POINT[0], kind, POINT[2], tiny_training(T=8, attention_scale=scale)
        return pretrain_arm(*point, Arm(arm="dense"), 0.1, [1, 2], latents)[0].weights

    by_name = train("1/sqrt(d1)")
    assert torch.equal(by_name, train(1 / POINT[2].d1 ** 0.5))
    assert not torch.allclose(by_name, train(1.0), rtol=1e-4)


@pytest.mark.parametrize("name", [name for name, arm in ARMS.items() if arm.rule])
def test_rules_mask_each_replica_on_its_own(name):
    weights, draw = (
        torch.randn(3, 8, 12, generator=seeded(0)),
        torch.rand(3, 8, generator=seeded(1)),
    )
    # Four neurons along the minority feature, so that oracles mask some, and one along another.
    weights[:, :4] = (
        torch.tensor([1.0, 2.0, 3.0])[:, None, None]
        * torch.linspace(0.5, 6.5, 4)[:, None]
        * torch.eye(12)[3]
    )
    weights[:, 4] = torch.tensor([[2.0], [3.0], [9.0]]) * torch.eye(12)[0]
    seen = PruningContext(weights, torch.eye(12, 4).expand(3, -1, -1), 1, 0.25, draw)
    mask = ARMS[name].rule(seen)
    assert mask.dtype == torch.bool
    assert mask.any(-1).all() or ARMS[name].single_weights
    assert mask.shape == (weights.shape if ARMS[name].single_weights else draw.shape)
    for s in range(3):
        own = seen._replace(
            weights=weights[s : s + 1], dictionary=seen.dictionary[:1], draw=draw[s : s + 1]
        )
        assert torch.equal(ARMS[name].rule(own)[0], mask[s])
    if ARMS[name].ratio:
        assert mask.flatten(1).sum(-1).tolist() == [mask[0].numel() // 4] * 3


def test_apply_mask_neurons_equals_weights():
    weights, tokens = (
        torch.randn(2, 8, 12, generator=seeded(0)),
        torch.randn(2, 6, 3, 12, generator=seeded(1)),
    )
    state = initial_state(weights)._replace(bias=torch.full((2, 8), 0.1))
    whole, neurons = forward(tokens, state), torch.arange(8).expand(2, -1) < 3
    by_neuron = apply_mask(whole, neurons, tokens, state, "straight_through")
    by_weight = apply_mask(whole, neurons[..., None].expand_as(weights), tokens, state)
    for one, other in zip(by_neuron, by_weight, strict=True):
        torch.testing.assert_close(one, other)
    assert not by_neuron.f[..., :3].any()


@pytest.mark.parametrize("gradient", ["unmasked", "masked_keys", "straight_through"])
def test_pruned_neuron_gradient_nonzero_only_unmasked(gradient):
    weights, tokens = (
        torch.randn(2, 8, 12, generator=seeded(0)),
        torch.randn(2, 6, 3, 12, generator=seeded(1)),
    )
    state, settings = (
        initial_state(weights)._replace(bias=torch.full((2, 8), 0.1)),
        tiny_training(K=3),
    )
    mask = torch.arange(8).expand(2, -1) < 3
    whole = forward(tokens, state)
    found = loss_gradient(
        whole, apply_mask(whole, mask, tokens, state, gradient), state.bias, settings, gradient
    ).coefficients
    assert found[..., :3].any() == (gradient == "unmasked")
    assert found[..., 3:].any()


SHAPES = [  # those of a step at the paper's size, small ones, and lengths that are odd
    (1024, 40, 30), (128, 30, 128), (128, 128, 30), (30, 512, 40), (30, 31, 30), (30, 40, 9),
    (512, 16, 7), (7, 24, 7), (9, 24, 9), (6, 4, 6), (33, 50, 33), (12, 40, 16), (17, 40, 10),
    (1, 5, 48), (256, 500, 30), (11, 24, 9),
]  # fmt: skip


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("transposed", [False, True])
def test_matmul_bits_do_not_depend_on_batch(shape, dtype, transposed):
    p, q, r = shape
    a, b = (
        torch.randn(14, p, q, generator=seeded(0), dtype=dtype),
        torch.randn(14, q, r, generator=seeded(1), dtype=dtype),
    )
    if transposed:
        a, b = a.mT.contiguous().mT, b.mT.contiguous().mT
    whole = matmul(a, b)
    torch.testing.assert_close(
        whole,
        torch.stack([x @ y for x, y in zip(align_replicas(a), align_replicas(b), strict=True)]),
    )
    for part in (slice(0, 1), slice(3, 4), slice(2, 5), slice(7, 14)):
        assert torch.equal(whole[part], matmul(a[part], b[part]))


def test_standard_gamma_values_are_unchanged():
    """torch's private function: other values would move every number of the reduced simulator."""
    values = standard_gamma(torch.tensor([0.5, 1.0, 3.5, 200.0]), seeded(7))
    assert values.tolist() == pytest.approx([0.45486847, 3.911741, 4.0279431, 189.8445], rel=1e-6)
