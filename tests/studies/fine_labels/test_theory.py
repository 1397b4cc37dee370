"""Closed forms against Monte Carlo and trainings, and the properties that they have."""

import numpy as np
import pytest
import torch
from common import DETECTORS, draws, hierarchy, learner, stream
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import lambertw
from scipy.stats import norm

from rarefeat.model import linear_probe
from rarefeat.studies.fine_labels import data as D
from rarefeat.studies.fine_labels import metrics, scalar_simulator, theory
from rarefeat.studies.fine_labels.config import COARSE, fine


def binomial_error(p, n):
    p = np.clip(p, 0, 1)
    return 5 * np.sqrt(p * (1 - p) / n) + 1e-9


def equal_detectors(labels, data, own, seeds=(0,), number=25.0):
    """As many detectors of every class and feature, all just above their threshold."""
    state = scalar_simulator.initialise(
        labels.classes(data.k, own.N), data, DETECTORS, own.sigma_0, draws("init", seeds)
    )
    return state._replace(
        detectors=torch.full_like(state.detectors, number),
        initial=torch.full_like(state.initial, 1e-6),
    )


def first_step(data, learner, classes) -> tuple[float, float]:
    """Return the expected first displacement of common and of subclass detectors.

    Theorem D.1, Lemma G.2 at t = 0: logits are 1/2 or 1/2k; an expected s* patches of a sample hold
    either feature.
    """
    iota = data.iota
    amplitude = ((1 + iota) ** 1.5 - (1 - iota) ** 1.5) / (3 * iota)  # E alpha
    patch = learner.eta * data.s_star / data.P * amplitude
    common = patch / 4 if classes == "coarse" else patch / (4 * data.k)
    return common, common * theory.first_step_ratio(data.k, classes)


@pytest.mark.parametrize(("low", "high"), [(0.25, 0.35), (0.0, 1.0), (0.3, 0.3)])
@pytest.mark.parametrize("n", [0, 1, 2, 7])
def test_sums_of_uniforms(n, low, high):
    draws = np.random.default_rng(1).uniform(low, high, (20_000, n)).sum(1)
    bounds = np.linspace(n * low - 0.1, n * high + 0.1, 9) + 1e-9
    found = theory.sum_reaches(n, low, high, bounds)
    expected = (draws[:, None] >= bounds).mean(0)
    assert (np.abs(found - expected) <= binomial_error(found, 20_000)).all()


@pytest.mark.parametrize(
    ("subclass", "distractor", "tau"),
    [(0.2, 1.0, 0.1), (0.1, 1.3, 0.3), (0.05, 0.9, 0.4), (0.0, 1.0, 0.1)],
)
def test_hard_error_is_that_of_samples(subclass, distractor, tau):
    """Also where the bias silences some of the distractors, or all."""
    data = hierarchy(P=24, s_star=6, s_dag=6)
    n = 40_000
    samples = D.draw_hard(data, n, draws("mc"))
    own = samples.feature >= 2
    answer = subclass * ((samples.amplitude > 0) & own).sum(-1)
    against = distractor * (((samples.amplitude - tau).clamp(min=0)) * ~own).sum(-1)
    found = (answer <= against).double().mean().item()
    expected = theory.hard_error(data, subclass, distractor, tau)
    assert abs(found - expected) < binomial_error(expected, n)


def test_fine_floor_counts_samples_without_subclass_patch():
    data = hierarchy(s_star=2)
    n = 40_000
    samples = D.draw_hard(data, n, draws("mc"))
    found = (~((samples.amplitude > 0) & (samples.feature >= 2)).any(-1)).double().mean().item()
    floor = theory.fine_floor(data.P, data.s_star)
    assert abs(found - floor) < binomial_error(floor, n)
    assert theory.hard_error(data, 1e6, 1.0, 0.1) == pytest.approx(floor)
    left = data.P - np.arange(data.P + 1)
    pmf = theory.binom.pmf(np.arange(data.P + 1), data.P, data.s_star / data.P)
    assert floor == pytest.approx(
        (pmf * np.maximum(1 - data.s_star / np.maximum(left, 1), 0) ** left).sum()
    )


@settings(max_examples=30)
@given(
    subclass=st.floats(0.01, 1),
    more=st.floats(0, 1),
    tau=st.floats(0, 0.5),
    s_dag=st.just(0.0) | st.floats(1e-6, 4),
    scale=st.floats(0.1, 10),
)
def test_hard_error_is_monotone(subclass, more, tau, s_dag, scale):
    """It falls with subclass response and bias, rises with distractors; only a ratio counts."""
    data, other = hierarchy(s_dag=s_dag), hierarchy(s_dag=s_dag + 1)
    error = theory.hard_error(data, subclass, 1.0, tau)
    slack = 1e-9
    assert theory.fine_floor(data.P, data.s_star) - slack <= error <= 1 + slack
    assert theory.hard_error(data, subclass + more, 1.0, tau) <= error + slack
    assert theory.hard_error(data, subclass, 1.0, tau + 0.1) <= error + slack
    assert theory.hard_error(other, subclass, 1.0, tau) >= error - slack
    scaled = theory.hard_error(data, scale * subclass, scale, tau)
    assert scaled == pytest.approx(float(error), abs=1e-6)


def test_R_is_the_ratio_of_mean_responses():
    """Where every feature has as many detectors and the ratio of displacements is 1/k."""
    data = hierarchy(k=4, iota=0.0, P=24, s_star=6, s_dag=6)
    samples = D.draw_hard(data, 40_000, draws("mc"))
    own = samples.feature >= 2
    subclass = ((samples.amplitude > 0) & own).sum(-1) * (1 - 0.1) / 4
    distractor = ((samples.amplitude - 0.1).clamp(min=0) * ~own).sum(-1)
    ratio = (distractor.mean() / subclass.mean()).item()
    assert theory.distraction(data, 10) == pytest.approx(ratio, rel=0.02)


@pytest.mark.parametrize("k", [2, 4])
@pytest.mark.parametrize("kind", ["coarse", "fine"])
def test_first_step_has_the_closed_form(kind, k):
    data, own = hierarchy(k=k, d=24), learner(N=16 * k)
    labels = COARSE if kind == "coarse" else fine(k)
    seeds = range(200)
    state = equal_detectors(labels, data, own, seeds)
    # Heads near 0: logits are 1/G.
    state = state._replace(initial=torch.full_like(state.initial, 1e-7))
    batches = D.batches(data, labels, own.N, 1, draws("batches", seeds), draws("labels", seeds))
    after, _ = scalar_simulator.train(state, data, own, batches, [0])
    ends = metrics.on_diagonal(after.displacement, D.own_features(labels, k, own.N))
    first = first_step(data, own, kind)
    for found, expected in zip(ends, first, strict=True):
        per_seed = found.mean(-1)
        error = 5 * per_seed.std() / len(seeds) ** 0.5 + 1e-4 * expected
        assert abs(per_seed.mean() - expected) < error
    assert first[1] / first[0] == pytest.approx(theory.first_step_ratio(k, kind))


def test_wrong_balance_changes_the_first_step():
    """With half the samples of one subclass, its detectors are beyond the closed form's error."""
    data, own = hierarchy(), learner(N=256)
    state = equal_detectors(COARSE, data, own)
    patches, classes = next(iter(stream(COARSE, data, own, 1)))
    missing = ((D.subclasses(2, own.N) == 1) & (torch.arange(own.N) % 2 == 0))[:, None]
    expected = first_step(data, own, "coarse")[1]
    for amplitude, wrong in ((patches.amplitude, False), (patches.amplitude * ~missing, True)):
        batch = patches._replace(amplitude=amplitude), classes
        after, _ = scalar_simulator.train(state, data, own, [batch], [0])
        assert (abs(after.displacement[0, 0, 3] / expected - 1) > 0.2) == wrong


def test_noise_of_patches_lowers_the_bias():
    """The update's noise in the other d - 1 directions adds to its norm in quadrature, eq. (18)."""
    data, own = hierarchy(sigma_zeta=0.5), learner()
    state = equal_detectors(COARSE, data, own)
    patches, classes = next(iter(stream(COARSE, data, own, 1)))
    batch = scalar_simulator.moments(patches, data.k)
    after, _ = scalar_simulator.step(state, data, own, batch, classes)
    # Logits are 1/2, so that each patch of v_+ moves a detector by half its amplitude.
    held = patches.amplitude[0][(patches.feature[0] == 0) & (patches.amplitude[0] > 0)]
    squared = (held.sum() / 2) ** 2 + (data.d - 1) * 0.5**2 * len(held) / 4
    expected = own.eta / (own.N * data.P) * squared.sqrt().item() / own.kappa_b
    assert after.decrement[0, 0, 0].item() == pytest.approx(expected, rel=1e-3)


def test_growth_is_that_of_constant_numbers():
    """With exactly s* patches of either kind the simulator follows a differential equation.

    The margin F = s* |S| (1 - 1/kappa_b) (1 + 1/k) A_+ obeys F' = C / (1 + e^F), whose solution is
    F = x - W(e^x), x = C t + 1: linear at first, log(C t) in the end (Lemma E.4, with its C
    replaced).
    """
    data, own = hierarchy(iota=0.0, sigma_zeta=0.0), learner(eta=0.002)
    y = D.subclasses(2, own.N)[:, None]
    feature = torch.cat([(y // 2).expand(-1, 3), (2 + y).expand(-1, 9)], 1)[None]
    amplitude = (torch.arange(12) < 6).double().expand(1, own.N, 12)
    batch = D.Patches(feature, amplitude), (y // 2).T
    state = equal_detectors(COARSE, data, own)
    trained, _ = scalar_simulator.train(state, data, own, [batch] * 400, [0])
    gain = data.s_star * 25 * (1 - 1 / own.kappa_b) * (1 + 1 / data.k)
    x = gain * own.eta * data.s_star / (2 * data.P) * 400 + 1
    expected = (x - lambertw(np.exp(x)).real) / gain
    assert trained.displacement[0, 0, 0].item() == pytest.approx(expected, rel=0.01)


def test_number_of_detectors():
    """E |S(v)| is m Pr(a standard normal > threshold / sqrt(1 + iota)) (Proposition 1)."""
    data, own = hierarchy(iota=0.1), learner()
    state = scalar_simulator.initialise(2, data, DETECTORS, own.sigma_0, draws("init", range(200)))
    expected = DETECTORS.m * norm.sf(DETECTORS.threshold / np.sqrt(1.1))
    assert abs(state.detectors.mean() - expected) < 5 * (expected / state.detectors.numel()) ** 0.5


def test_predicted_hard_error_of_trained_detectors():
    """For trained detectors the closed form is the error on hard samples without zeta*."""
    data, own = hierarchy(k=2, P=24, s_star=6, s_dag=8), learner()
    for labels in (COARSE, fine(2)):
        state = scalar_simulator.initialise(
            labels.classes(2, own.N), data, DETECTORS, own.sigma_0, draws("init")
        )
        state, _ = scalar_simulator.train(state, data, own, stream(labels, data, own, 40), [0])
        superclass, n = D.superclasses(labels, 2, own.N), 20_000
        samples = D.draw_hard(data, n, draws("tests"))._replace(loud=None)
        scores = scalar_simulator.scores(state, samples)
        found = metrics.superclass_error(scores, superclass, 2).item()
        expected = metrics.predicted_hard_error(state, data, superclass).item()
        assert abs(found - expected) < binomial_error(expected, n) + 0.003


def test_errors_count_ties():
    right = torch.nn.functional.one_hot(D.subclasses(2, 8), 4)[None].double()
    # Ties, the right subclass, another one of the superclass.
    for scores, *expected in ((0 * right, 1, 1), (right, 0, 0), (right[..., [1, 0, 3, 2]], 0, 1)):
        superclass = metrics.superclass_error(scores, torch.tensor([0, 0, 1, 1]), 2)
        assert [superclass, metrics.fine_error(scores, 2)] == expected


@settings(max_examples=15)
@given(
    scale=st.floats(0.01, 100), penalty=st.sampled_from([1e-3, 0.1, 1.0]), seed=st.integers(0, 1000)
)
def test_ridge_heads_are_scale_invariant(scale, penalty, seed):
    x = torch.randn(40, 5, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    x[:, 1] = x[:, 2]
    y = x[:, 0].sign()
    [(head, intercept)] = linear_probe.ridge_heads(x, y, [penalty])
    [(scaled, same)] = linear_probe.ridge_heads(scale * x, y, [penalty])
    torch.testing.assert_close(scale * scaled, head)
    torch.testing.assert_close(same, intercept)
    # The gradient of the objective vanishes.
    residual = x @ head + intercept - y
    variance = x.var(0, correction=0).sum()
    assert (x.T @ residual / 40 + penalty * variance * head).abs().max() < 1e-9


def test_head_inputs_group_equal_neurons():
    data, own = hierarchy(), learner()
    state = equal_detectors(COARSE, data, own, number=3.0)
    state, _ = scalar_simulator.train(state, data, own, stream(COARSE, data, own, 5), [0])
    samples = D.draw_easy(data, 80, draws("x"))
    grouped = scalar_simulator.head_inputs(state, samples)[0]
    answers = next(scalar_simulator.detector_outputs(state, samples)).flatten(1)
    neurons = answers.repeat_interleave(3, 1)
    y = metrics.signs(2, 80)
    [(a, i)], [(b, j)] = (linear_probe.ridge_heads(x, y, [0.1]) for x in (grouped, neurons))
    torch.testing.assert_close(grouped @ a + i, neurons @ b + j)
    scores = scalar_simulator.scores(state, samples)[0]
    torch.testing.assert_close(scores, (answers.unflatten(1, (-1, 2)) * 3).sum(1))


def test_linear_model_on_patch_sums_fails_in_noise():
    data = hierarchy(k=1, P=20_000, s_star=3, s_dag=3, sigma_zeta=0.025, iota=0.0)
    n = 200
    train, test = (
        metrics.patch_sums(data, D.draw_easy(data, n, draws(p)), draws(p + " noise"))[0]
        for p in ("train", "test")
    )
    [head] = linear_probe.ridge_heads(train, metrics.signs(1, n), [1e-2])
    linear = linear_probe.sign_error(head, test, metrics.signs(1, n))
    state = equal_detectors(COARSE, data, learner())
    state = state._replace(displacement=torch.tensor([[[1.0, -1, 1, -1], [-1, 1, -1, 1]]]).double())
    state = state._replace(decrement=state.displacement.abs() / 8)
    few = D.draw_easy(data, 20, draws("few"))
    scores = metrics.scores_in_noise(state, data, few, draws("patch noise"))
    assert linear > 0.15
    assert metrics.superclass_error(scores, torch.arange(2), 1) == 0


def test_probe_errors_cover_penalties_and_shares():
    x = torch.randn(16, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    rows = metrics.probe_errors((x, x + 1), (x, x), 2, [0.0, 1.0], [0.0, 0.5])
    assert len(rows) == 4
    assert ((metrics.mix_samples((x, x + 1), 0.5, 2) - x).any(1)).sum() == 8
    assert metrics.signs(2, 16).sum() == 0


def test_best_linear_model_on_sums():
    """With s* patches of either kind in every sample, the best subclass weights are 1 / k."""
    data, n = hierarchy(k=3, P=900, sigma_zeta=0.1, s_star=3), 60_000
    y, deviation = D.subclasses(3, n), data.sigma_zeta * data.P**0.5
    sums = deviation * D.normal(n, data.features, generator=draws("sums")[0])
    held = torch.stack([y // 3, 2 + y], 1)
    sums.scatter_add_(1, held, torch.full((n, 2), data.s_star, dtype=torch.float64))
    sides = torch.tensor([1.0, -1, 1, 1, 1, -1, -1, -1]).double()

    def error(weight):
        head = sides * torch.tensor([1.0] * 2 + [weight] * 6).double()
        return linear_probe.sign_error((head, torch.tensor(0.0)), sums, metrics.signs(3, n))

    best = error(1 / 3)
    expected = norm.sf(data.s_star / deviation * ((1 + 1 / data.k) / 2) ** 0.5)
    assert best == pytest.approx(expected, abs=3 * (0.25 / n) ** 0.5)
    assert best < min(error(0.0), error(1.0))
