"""The scalar simulator against the direct one, and mistakes that the comparison must find."""

import math

import pytest
import torch
from common import DETECTORS, both, draws, hierarchy, learner, network, stream, with_noise

from rarefeat.errors import RarefeatError
from rarefeat.studies.fine_labels import data as D
from rarefeat.studies.fine_labels import direct_simulator, metrics, scalar_simulator
from rarefeat.studies.fine_labels.config import COARSE, Detectors, Labels, fine

# Relative tolerance of A and B of the detectors of a class, mean over features; of the
# largest score of a test sample; and of the loss. The simulators differ in neurons of two features,
# in detectors that some of the first patches switch on, and in the noise.
TOLERANCE = 0.03
ROUNDING = 1e-9


def pure(labels, data, learner):
    """Return a network for which the scalar simulator is exact.

    Every neuron detects one feature at most, and is then on for each of its patches.
    """
    net = network(labels, data, learner)
    margin = net.weights[:, : data.features] + net.bias[:, None]
    first = margin.argmax(-1, keepdim=True)
    others = torch.ones_like(margin, dtype=torch.bool).scatter_(1, first, False)
    margin[others & (margin > 0)] *= -1
    # Nor does an amplitude within one per cent decide.
    margin += 0.5e-4 * margin.sign() * (margin > -0.5e-4)
    weights = net.weights.clone()
    weights[:, : data.features] = margin - net.bias[:, None]
    return net._replace(weights=weights)


def difference(initial, trained, state, data, own):
    """Return the largest relative difference of A and B, of common and subclass detectors."""
    summary = scalar_simulator.summarise(initial, trained, data)
    ends = (summary.displacement, state.displacement), (summary.decrement, state.decrement)
    return max(
        ((x - y).abs() / y.abs())[n > 0].mean().item()
        for both in ends
        for x, y, n in zip(
            *(metrics.on_diagonal(part, own) for part in (*both, state.detectors)), strict=True
        )
    )


@pytest.mark.parametrize(
    "labels", [COARSE, fine(2), Labels(kind="subclass", ids=4)], ids=lambda labels: labels.label
)
@pytest.mark.parametrize("iota", [0.0, 0.02])
def test_simulators_are_equal_where_scalar_is_exact(labels, iota):
    """Also with random amplitudes, as long as they do not decide which detectors are on."""
    data = hierarchy(sigma_zeta=0.0, iota=iota)
    initial, trained, diagnostics, state, history = both(
        labels, data, learner(), 12, pure(labels, data, learner())
    )
    found = scalar_simulator.summarise(initial, trained, data)
    exact = {"rtol": ROUNDING, "atol": ROUNDING}
    scale = state.displacement.abs().amax()
    for name in ("displacement", "decrement"):
        ends = (getattr(one, name) / scale for one in (found, state))
        torch.testing.assert_close(*ends, **exact)
    torch.testing.assert_close(diagnostics.loss, history.loss[:, 0], rtol=ROUNDING, atol=0)
    samples = D.draw_hard(data, 40, draws("tests"))._replace(loud=None)
    x = D.add_noise(data, samples, draws("test noise"), torch.float64)[0]
    F = direct_simulator.scores(trained, direct_simulator.activations(trained, x))
    torch.testing.assert_close(F, scalar_simulator.scores(state, samples)[0], **exact)


@pytest.mark.parametrize("labels", [COARSE, fine(2)], ids=lambda labels: labels.label)
def test_trainings_agree_within_the_tolerance(labels):
    data = hierarchy()
    initial, trained, diagnostics, state, history = both(labels, data, learner(), 40)
    superclass = D.superclasses(labels, data.k, 64)
    assert difference(initial, trained, state, data, D.own_features(labels, 2, 64)) < TOLERANCE
    assert abs(math.log(diagnostics.loss[-1] / history.loss[-1, 0])) < TOLERANCE
    samples = D.draw_hard(data, 400, draws("tests"))
    x = D.add_noise(data, samples, draws("test noise"), torch.float64)[0]
    network = trained.select(direct_simulator.can_activate(initial, data))
    F = direct_simulator.scores(network, direct_simulator.activations(network, x))[None]
    theirs = scalar_simulator.scores(state, samples)
    assert (F - theirs).abs().max() < TOLERANCE * theirs.max()
    errors = [metrics.superclass_error(scores, superclass, data.k) for scores in (F, theirs)]
    assert abs(errors[0] - errors[1]) < TOLERANCE


def test_fine_tuning_agrees():
    data, labels = hierarchy(), fine(2)
    superclass, own = D.superclasses(labels, 2, 64), D.own_features(labels, 2, 64)
    initial, trained, _, state, _ = both(labels, data, learner(), 20)
    batches = list(stream(labels, data, learner(), 10, 7, superclass))
    noisy = with_noise(batches, data, 7)
    tuned, _ = direct_simulator.train(trained, data, learner(), noisy, superclass)
    after, _ = scalar_simulator.train(state, data, learner(), batches, [0], superclass)
    assert difference(initial, tuned, after, data, own) < TOLERANCE
    grown = metrics.on_diagonal(after.displacement - state.displacement, own)
    assert all((part >= 0).all() and part.max() > 0 for part in grown)


def test_initial_state_has_the_gaussian_distribution():
    """Means and spreads of |S(v)| and of projections are those of the direct simulator."""
    data, own = hierarchy(iota=0.05), DETECTORS
    seeds = range(60)
    drawn = scalar_simulator.initialise(2, data, own, 1e-4, draws("scalar init", seeds))
    nets = [
        direct_simulator.initialise(2, data.d, own, 1e-4, draws("init", [seed])[0])
        for seed in seeds
    ]
    found = [scalar_simulator.summarise(net, net, data) for net in nets]
    for name in ("detectors", "initial"):
        a, b = getattr(drawn, name), torch.cat([getattr(state, name) for state in found])
        spread = (a.var() + b.var()).sqrt() / a.numel() ** 0.5
        assert abs(a.mean() - b.mean()) < 5 * spread
        assert 0.8 < a.std() / b.std() < 1.25


def flipped_gradient(monkeypatch):
    original = scalar_simulator.cross_entropy
    monkeypatch.setattr(
        scalar_simulator, "cross_entropy", lambda *args: (original(*args)[0], -original(*args)[1])
    )


def forgotten_bias(monkeypatch):
    original = scalar_simulator.step

    def step(state, *args):
        after, *rest = original(state, *args)
        return (after._replace(decrement=state.decrement), *rest)

    monkeypatch.setattr(scalar_simulator, "step", step)


def transposed_sums(monkeypatch):
    original = scalar_simulator.per_feature
    monkeypatch.setattr(scalar_simulator, "per_feature", lambda x: original(x.flip(2)))


def forgotten_silence(monkeypatch):
    monkeypatch.setattr(
        scalar_simulator.DetectorState,
        "net_response",
        property(lambda self: torch.ones_like(self.initial)),
    )


@pytest.mark.parametrize(
    "mistake", [flipped_gradient, forgotten_bias, transposed_sums, forgotten_silence]
)
@pytest.mark.parametrize("labels", [COARSE, fine(2)], ids=lambda labels: labels.label)
def test_planted_mistakes_are_detected(monkeypatch, mistake, labels):
    data = hierarchy()
    mistake(monkeypatch)
    initial, trained, _, state, _ = both(labels, data, learner(), 40)
    off = metrics.off_diagonal_growth(state, D.own_features(labels, 2, 64))
    assert (
        difference(initial, trained, state, data, D.own_features(labels, 2, 64)) > TOLERANCE
        or off > 1e-3
    )


def test_wrong_class_balance_is_detected():
    """Samples of the first superclass called the second now and then."""
    data = hierarchy()
    own = learner()
    net = network(COARSE, data, own)
    batches = list(stream(COARSE, data, own, 20))
    wrong = [(p, c.clone().index_fill_(1, torch.arange(8), 1)) for p, c in batches]
    start = scalar_simulator.summarise(net, net, data)
    right, _ = scalar_simulator.train(start, data, own, batches, [0])
    other, _ = scalar_simulator.train(start, data, own, wrong, [0])
    assert ((right.displacement - other.displacement).abs() / right.displacement.abs())[
        start.detectors > 0
    ].max() > TOLERANCE


def test_replicas_are_independent_of_their_block():
    data, own, labels = hierarchy(), learner(), fine(2)

    def run(seeds):
        state = scalar_simulator.initialise(4, data, DETECTORS, own.sigma_0, draws("init", seeds))
        batches = D.batches(
            data, labels, own.N, 25, draws("batches", seeds), draws("labels", seeds)
        )
        return scalar_simulator.train(state, data, own, batches, [0, 24])[0]

    together, alone = run([3, 4, 5]), run([4])
    for a, b in zip(together[:4], alone[:4], strict=True):
        assert torch.equal(a[1:2], b)


def test_divergence_is_reported():
    data = hierarchy()
    own = learner().model_copy(update={"eta": 1.7e308})
    state = scalar_simulator.initialise(2, data, DETECTORS, own.sigma_0, draws("init"))
    with pytest.raises(RarefeatError, match="diverged"):
        scalar_simulator.train(state, data, own, stream(COARSE, data, own, 5), list(range(5)))


def test_invariances_of_the_direct_simulator():
    """Q7: noise activates no neuron, none outside every S(v) changes or grows off-diagonal."""
    data, labels = hierarchy(), fine(2)
    initial, trained, diagnostics, state, _ = both(labels, data, learner(), 30)
    assert diagnostics.on_noise.sum() == 0
    outside = ~direct_simulator.can_activate(initial, data)
    assert torch.equal(initial.weights[outside], trained.weights[outside])
    assert (
        metrics.off_diagonal_growth(
            scalar_simulator.summarise(initial, trained, data), D.own_features(labels, 2, 64)
        )
        <= 0
    )
    assert metrics.off_diagonal_growth(state, D.own_features(labels, 2, 64)) <= 0


def test_neurons_that_cannot_activate_never_change():
    data, labels = hierarchy(), fine(2)
    net = network(labels, data, learner(), detectors=Detectors(m=500, threshold=2.0, T=1))
    whole = partial = net
    for batch in with_noise(stream(labels, data, learner(), 15), data):
        whole, _ = direct_simulator.step(whole, learner(), *batch)
        partial, _ = direct_simulator.train(partial, data, learner(), [batch])
    torch.testing.assert_close(whole.weights, partial.weights, rtol=1e-9, atol=1e-15)
    torch.testing.assert_close(whole.bias, partial.bias, rtol=1e-9, atol=1e-15)
