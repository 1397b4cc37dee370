import math

import pytest
import torch
from conftest import dictionaries, pretrain_arm, tiny_data, tiny_training

from rarefeat.model.bias import follow, grow, is_stage_one_over
from rarefeat.model.neurons import feature_share
from rarefeat.stages.synthesise import synthesise
from rarefeat.workflow.config.model import Arm

STUDY, SIGMA = "bias", 0.1


def run(T, seeds=(5,), arm=Arm(arm="dense"), data=tiny_data(), **bias):  # noqa: B008
    """Weights (S, m, d1), bias (S, m), T1 (S,), dictionary and trajectory after T steps."""
    seeds = list(seeds)
    # A training that ends before a fixed T1 is refused by the config.
    longest = max(T, bias["T1"]) if isinstance(bias.get("T1"), int) else T
    training = tiny_training(T=longest, K=12, eta=0.2, sigma_0=0.05, bias=bias).model_copy(
        update={"T": T}
    )
    latents = synthesise(STUDY, data, 0.5, seeds)
    encoder, trajectory = pretrain_arm(
        STUDY, "direct", data, training, arm, SIGMA, seeds, latents["train"]
    )
    return encoder.weights, encoder.bias, encoder.T1, dictionaries(STUDY, data, seeds), trajectory


def test_follow_scales_threshold_of_definition_b_1():
    norms = torch.tensor([[1.0, 2.0], [0.0, 3.0]])
    torch.testing.assert_close(follow(norms, 9, 0.3), 0.3 * math.sqrt(2 * math.log(9) / 9) * norms)
    assert not follow(norms, 9, 0.0).any()


@pytest.mark.parametrize(
    ("bias", "norm", "next_norm", "expected"),
    [
        (0.1, 1.0, 1.0, 0.1 * 1.02),  # the norm stands still: 1 + eta / d
        (0.1, 1.0, 0.5, 0.1 * 1.02),  # it shrinks: the bias grows all the same
        (0.1, 1.0, 1.5, 0.15),  # it grows faster than 1 + eta / d
        (0.1, 2.0, 2.02, 0.1 * 1.02),  # it grows more slowly
        (0.6, 1.0, 1.5, 0.7),  # up to the cap, 2.1 / sqrt(9)
        (0.7, 1.0, 1.0, 0.7),
        (0.0, 1.0, 1.5, 0.0),
    ],
)
def test_grow_uses_larger_factor_and_cap(bias, norm, next_norm, expected):
    bias, norm, next_norm = (torch.tensor([[value]]) for value in (bias, norm, next_norm))
    assert grow(bias, norm, next_norm, eta=0.18, d=9, cap=2.1).item() == pytest.approx(
        expected, rel=1e-6
    )


def test_grow_is_finite_for_norm_zero():
    later = grow(
        torch.tensor([[0.1, 0.0]]), torch.zeros(1, 2), torch.ones(1, 2), eta=0.1, d=9, cap=2.1
    )
    assert torch.isfinite(later).all()


def test_stage_one_ends_with_half_of_every_norm_in_features():
    share = torch.tensor([[0.5, 0.9, 1.0], [0.49, 0.9, 1.0], [0.1, 0.2, 0.3]])
    assert is_stage_one_over(share).tolist() == [True, False, False]


@pytest.mark.parametrize("rule", ["follow", "grow"])
def test_bias_is_zero_until_fixed_t1(rule):
    T1 = 4
    for T in (1, T1 - 1):
        _, bias, reached, _, _ = run(T, rule=rule, share=0.3, T1=T1)
        assert not bias.any()
        assert reached.tolist() == [-1]
    for T in (T1, 9) if rule == "follow" else (T1,):
        weights, bias, reached, _, _ = run(T, rule=rule, share=0.3, T1=T1)
        torch.testing.assert_close(bias, follow(weights.norm(dim=-1), 4, 0.3))
        assert reached.tolist() == [T1]


@pytest.mark.parametrize(("T", "cap"), [(4, 2.2), (9, 0.05)])
def test_grow_in_training_takes_one_step_of_rule(T, cap):
    changes = {"rule": "grow", "share": 0.3, "T1": 4, "cap": cap}
    before, bias, *_ = run(T, **changes)
    after, later, *_ = run(T + 1, **changes)
    assert (bias > 0).all()
    torch.testing.assert_close(
        later, grow(bias, before.norm(dim=-1), after.norm(dim=-1), 0.2, 4, cap)
    )


def test_t1_is_first_step_of_eq_34_for_every_neuron():
    seeds = (3, 4, 5, 6)
    eq34 = {"rule": "follow", "share": 0.3, "T1": "eq34"}
    _, _, T1, _, trajectory = run(120, seeds, **eq34)
    T1 = T1.tolist()
    assert all(1 < t < 120 for t in T1)
    assert len(set(T1)) > 1
    recorded = {row["seed"]: row["value"] for row in trajectory if row["metric"] == "T1"}
    assert recorded == dict(zip(seeds, T1, strict=True))
    for seed, last in zip(seeds, T1, strict=True):
        for T in (1, last // 2, last - 1, last):
            weights, bias, reached, M, _ = run(T, (seed,), **eq34)
            assert bool(is_stage_one_over(feature_share(weights, M))) == (last == T)
            assert reached.item() == (last if last == T else -1)
            assert bool(bias.any()) == (last == T)
    # Each replica of a block has a T1 of its own, and a bias from there on.
    middle = (min(T1) + max(T1)) // 2
    assert run(middle, seeds, **eq34)[1].any(-1).tolist() == [t <= middle for t in T1]


def test_trajectory_bias_share_is_bias_over_norm():
    *_, trajectory = run(10, rule="follow", share=0.3, T1=4)
    share = {row["step"]: row["value"] for row in trajectory if row["metric"] == "bias_share"}
    for step, value in share.items():
        expected = 0.3 * math.sqrt(2 * math.log(4) / 4) if step >= 4 else 0.0
        assert value == pytest.approx(expected, rel=1e-5)
    assert {0, 3, 4, 10} <= set(share)
