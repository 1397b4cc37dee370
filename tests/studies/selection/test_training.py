"""Trainings of the sweeps: those of the chain to the last bit, and the keys of an arm."""

import pytest
import torch
from small_points import a_point, train_arms

from rarefeat.model.activation_moments import batch_moments
from rarefeat.model.bias import BiasContext
from rarefeat.model.neurons import feature_share
from rarefeat.model.simulators import make_simulator
from rarefeat.studies.selection.config import Intervention
from rarefeat.studies.selection.training import (
    apply_stop,
    bias_after_step,
    latents,
    ratio,
    reinitialise_neurons,
)
from rarefeat.training.pretraining import pretrain
from rarefeat.workflow.config.model import Arm as ChainArm

SAME_ARMS = [
    (Intervention(), ChainArm(arm="dense")),
    (
        Intervention(mask="norm", alpha=0.25, onset=10),
        ChainArm(arm="pruned_neuron", alpha=0.25, onset=10),
    ),
    (Intervention(mask="random", alpha=0.25), ChainArm(arm="random_neuron", alpha=0.25)),
    (
        Intervention(mask="largest", alpha=0.25, onset=3),
        ChainArm(arm="largest_neuron", alpha=0.25, onset=3),
    ),
    (Intervention(mask="oracle_all", onset=25), ChainArm(arm="oracle_all", onset=25)),
    (Intervention(mask="oracle_gated", onset=25), ChainArm(arm="oracle_gated", onset=25)),
]


@pytest.mark.parametrize("sigma_0", [0.01, 0.1])
def test_arms_of_the_chain_are_bit_identical(sigma_0):
    at, seeds = a_point(sigma_0=sigma_0), [4, 5]
    pairs = latents("selection tests", at, seeds)
    own = train_arms(at, *(arm for arm, _ in SAME_ARMS), seeds=seeds)
    for arm, other in SAME_ARMS:
        encoders, _ = pretrain(
            "selection tests", "reduced", at.data, at.training, [other], at.sigma, seeds, pairs
        )
        encoder = encoders[other.label]
        assert torch.equal(own[arm.label].state.weights, encoder.weights), arm.label
        assert torch.equal(own[arm.label].state.bias, encoder.bias), arm.label
        assert torch.equal(own[arm.label].state.T1, encoder.T1), arm.label
        assert torch.equal(own[arm.label].loss, encoder.loss), arm.label


EVERY = [
    Intervention(),
    Intervention(mask="effective_rate", onset=5),
    Intervention(mask="residual", onset=5, stop=True),
    Intervention(mask="growth", renewed=7),
    Intervention(mask="paired_rate", source="batch"),
    Intervention(mask="random", schedule="rising", alpha=0.5),
    Intervention(threshold="rate"),
    Intervention(threshold="norm_and_rate"),
    Intervention(delay=5),
    Intervention(reopened=True),
    Intervention(revived=True),
    Intervention(mask="norm", masked_keys=True),
]
LARGE_BIAS = {"share": 1.4, "T1": 5}
"""A bias under which neurons fall silent soon."""


def test_replica_is_independent_of_arms_and_seeds():
    at = a_point(bias=LARGE_BIAS)
    together = train_arms(at, *EVERY, seeds=[0, 1, 2])
    for arm in EVERY:
        alone = train_arms(
            at, *([Intervention(), arm] if arm != Intervention() else [arm]), seeds=[1]
        )[arm.label]
        for name in ("chosen", "idle", "revivals", "loss"):
            assert torch.equal(getattr(together[arm.label], name)[1], getattr(alone, name)[0]), (
                arm.label,
                name,
            )
        for one, other in zip(together[arm.label].state, alone.state, strict=True):
            assert torch.equal(one[1], other[0]), arm.label


def test_every_intervention_changes_the_weights():
    open_gates = train_arms(a_point(sigma_0=0.1, bias={"T1": 10}), *EVERY)
    shut = train_arms(a_point(bias=LARGE_BIAS), *EVERY)
    for arm in EVERY[1:]:
        found = shut if arm.reopened or arm.revived else open_gates
        own, dense = (found[label].state.weights for label in (arm.label, "dense"))
        assert not torch.equal(own, dense), arm.label


def test_scored_steps_do_not_affect_training():
    at = a_point()
    plain, scored = train_arms(at, Intervention()), train_arms(at, Intervention(), scored=[10, 40])
    assert torch.equal(plain["dense"].state.weights, scored["dense"].state.weights)


def test_masked_keys_leave_pruned_neurons_only_decay():
    """The contrast branch has the logits of eq. (5); its gradient leaves pruned neurons out."""
    at = a_point(T=1, sigma=0.0)
    start = train_arms(a_point(T=1, eta=1e-9, sigma=0.0), Intervention())["dense"].state.weights
    arms = [
        Intervention(mask="random", alpha=0.5, masked_keys=masked_keys)
        for masked_keys in (True, False)
    ]
    found = train_arms(at, *arms)
    masked, dense = (found[arm.label].state.weights for arm in arms)
    chosen, d = found[arms[0].label].chosen, at.data.d
    decay, close = 1 - at.training.eta * at.training.lambda_, {"rtol": 1e-5, "atol": 1e-9}
    shrunk = decay * start[chosen][:, :d]
    torch.testing.assert_close(masked[chosen][:, :d], shrunk, **close)
    torch.testing.assert_close(masked[~chosen], dense[~chosen])
    assert not torch.allclose(dense[chosen][:, :d], shrunk, **close)


def test_apply_stop_releases_large_neurons():
    chosen = torch.tensor([[True, True, False, False]])
    norms = torch.tensor([[0.5, 2.5, 1.0, 3.0]])
    stopped = apply_stop(Intervention(mask="random", stop=True), chosen, norms)
    assert stopped.tolist() == [[True, False, False, False]]
    assert torch.equal(apply_stop(Intervention(mask="random"), chosen, norms), chosen)


def test_ratio_follows_schedule():
    at = a_point(T=110)
    rising, falling = (
        Intervention(mask="norm", alpha=0.4, onset=10, schedule=name)
        for name in ("rising", "falling")
    )
    assert [ratio(rising, at, step) for step in (10, 60, 110)] == pytest.approx([0.0, 0.2, 0.4])
    assert [ratio(falling, at, step) for step in (10, 60, 110)] == pytest.approx([0.4, 0.2, 0.0])
    assert ratio(Intervention(mask="norm"), at, 0) == 1 / at.data.d


def test_bias_by_rate_keeps_the_mean_and_waits_for_delay():
    at, norms = a_point(), torch.tensor([[1.0, 2.0, 3.0]])
    s = torch.zeros(1, 8, 3)
    s[0, :4, 0], s[0, :2, 1], s[0, :2, 2] = 1.0, 5.0, 7.0
    mean = batch_moments(s, s, s, torch.zeros(1, 8), norms, norms)
    T1 = torch.tensor([10])

    def bias(arm, T1, step):
        return bias_after_step(arm, at, mean, BiasContext(None, None, norms, T1, step, None))

    plain = bias(Intervention(), T1, 10)
    torch.testing.assert_close(plain, at.threshold * norms)
    rate = bias(Intervention(threshold="rate"), T1, 10)
    torch.testing.assert_close(rate, plain.mean() * torch.tensor([[1.5, 0.75, 0.75]]))
    both = bias(Intervention(threshold="norm_and_rate"), T1, 10)
    torch.testing.assert_close(both, plain.sum() * torch.tensor([[0.5, 0.5, 0.75]]) / 1.75)
    assert not bias(Intervention(delay=3), T1, 12).any()
    assert bias(Intervention(delay=3), T1, 13).all()
    assert not bias(Intervention(), torch.tensor([-1]), 13).any()


@pytest.mark.parametrize("d1", [14, 80])
def test_reinitialised_neurons_have_initial_distribution(d1):
    d, m, sigma_0, S = 6, 5, 0.3, 600
    space = make_simulator("reduced", "selection tests", d, d1, m, list(range(S)))
    streams = [torch.Generator().manual_seed(seed) for seed in range(S)]
    weights = space.initial_weights(1.0, streams)
    which = torch.zeros(S, m, dtype=torch.bool)
    which[:, 2] = True
    found = reinitialise_neurons(space, weights, which, sigma_0, streams)
    others = [0, 1, 3, 4]
    gram = lambda w: w @ w.mT  # noqa: E731
    torch.testing.assert_close(
        gram(found)[:, others][..., others],
        gram(weights)[:, others][..., others],
        rtol=1e-4,
        atol=1e-3,
    )
    torch.testing.assert_close(found[:, others, :d], weights[:, others, :d])
    squares = found[:, 2].square().sum(-1)
    mean, error = sigma_0**2 * d1, sigma_0**2 * (2 * d1 / S) ** 0.5
    assert abs(squares.mean() - mean) < 4 * error
    across = gram(found)[:, 2, 0] / (sigma_0 * weights[:, 0].norm(dim=-1))
    assert abs(across.mean()) < 4 / S**0.5
    assert abs(across.var() - 1) < 4 * (2 / S) ** 0.5
    untouched = reinitialise_neurons(space, weights, torch.zeros_like(which), sigma_0, streams)
    assert torch.equal(untouched, weights)


def test_revived_neuron_has_no_bias_until_eq_34_holds():
    at = a_point(bias=LARGE_BIAS, T=60)
    found = train_arms(at, Intervention(), Intervention(revived=True))["dense-revived"]
    assert found.revivals.sum() > 0
    space = make_simulator(
        "reduced", "selection tests", at.data.d, at.data.d1, at.training.m, [0, 1]
    )
    share = feature_share(found.state.weights, space.dictionary)
    assert ((found.state.bias == 0) == found.young).all()
    assert (share[found.young] < 0.5).all()
