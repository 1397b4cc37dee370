"""The critical-frequency model against closed forms and planted replicas; regimes."""

import math

import numpy as np
import pandas as pd
import pytest
import torch
from small_points import a_point, train_arms

from rarefeat.model.logistic_fit import LogisticFit, fit_logistic
from rarefeat.model.theory import attended_count, stage1_growth
from rarefeat.stages import critical_frequency
from rarefeat.studies.selection import measure
from rarefeat.studies.selection.config import Intervention, LatinHypercube
from rarefeat.studies.selection.critical_frequency import (
    ABOVE,
    AMONG,
    BELOW,
    estimate_critical_frequency,
)
from rarefeat.studies.selection.training import training_point
from rarefeat.workflow.config.ranges import Range

HYPERCUBE = LatinHypercube(
    regimes=20,
    seed=5,
    growth=0.06,
    ranges={
        "lambda": Range(low=0.03, high=0.2, log=True),
        "share": Range(low=0.1, high=0.9),
        "d": Range(low=6, high=12),
        "d1": Range(low=60, high=600, log=True),
    },
)


def test_hypercube_has_one_draw_in_each_stratum():
    regimes = pd.DataFrame(HYPERCUBE.values())
    share = (regimes["share"] - 0.1) / 0.8 * 20
    decay = np.log(regimes["lambda"] / 0.03) / math.log(0.2 / 0.03) * 20
    for column in (share, decay):
        assert (np.floor(np.sort(column)) == np.arange(20)).all()
    assert regimes["d"].dtype == int
    assert HYPERCUBE.values() == regimes.to_dict("records")
    assert HYPERCUBE.values() != HYPERCUBE.model_copy(update={"seed": 6}).values()


def test_drawn_regime_has_its_growth_decay_and_scales():
    base = a_point()
    for index, values in enumerate(HYPERCUBE.values()):
        cell = {"regime": index, "eps_min": 0.5}
        drawn = training_point(base.data, base.training, base.sigma, HYPERCUBE, cell)
        training, rate = drawn.training, drawn.growth_rate
        assert training.eta * (rate - training.lambda_) == pytest.approx(0.06)
        assert training.lambda_ / rate == pytest.approx(values["lambda"])
        assert drawn.nsr == pytest.approx(base.nsr)
        strength = base.training.sigma_0**2 * base.data.d1
        assert training.sigma_0**2 * drawn.data.d1 == pytest.approx(strength)
        assert (drawn.data.d, training.bias.share) == (values["d"], values["share"])


def test_growth_rate_is_that_of_stage_1():
    at, equal = a_point(), torch.ones(6, dtype=torch.float64)
    data, training = at.data, at.training
    rates = training.K, training.tau, training.eta, training.lambda_
    growth = stage1_growth(equal, data.C, data.L, at.nsr, *rates)
    expected = 1 + training.eta * (at.growth_rate - training.lambda_)
    assert growth[0].item() == pytest.approx(expected)


def test_mean_response_decreases_with_threshold():
    values = [attended_count(4, 1.25, 1.0, threshold) for threshold in (0, 0.2, 0.5, 0.9, 1.1)]
    assert values == sorted(values, reverse=True)
    assert values[-1] == 0
    assert attended_count(1, 1.25, 1.0, 0.3) == pytest.approx(0.7)


def planted(
    S=3, m=4, d=6, outside=100.0, rare=1.0, common=1.0
) -> critical_frequency.InitialProjections:
    """Return initial projections of identical neurons."""
    projections = torch.full((S, m, d), common, dtype=torch.float64)
    projections[..., -1] = rare
    squares = torch.full((S, m), outside, dtype=torch.float64)
    return critical_frequency.InitialProjections(projections, squares)


def same_in_all(value: float) -> torch.Tensor:
    """Return a value of three replicas."""
    return torch.full((3,), value, dtype=torch.float64)


def test_exponents_end_at_T1_after_saturation():
    """Half of the square lies in the features when 5 e^{2G} = outside; all of G is decay."""
    at, begun = a_point(), planted(m=40, outside=500.0)
    common, rare = critical_frequency.exponents(begun, at)
    assert critical_frequency.saturated_strength(at) < 40
    torch.testing.assert_close(common, same_in_all(math.log(100) / 2))
    torch.testing.assert_close(rare, common / (at.training.lambda_ / at.growth_rate))


def test_strength_has_no_jump_where_decay_is_growth():
    points = (a_point(**{"lambda": share * a_point().growth_rate}) for share in (0.999, 1.001))
    below, above = map(critical_frequency.saturated_strength, points)
    assert below == pytest.approx(above)


def test_exponents_end_at_saturation_after_T1():
    at = a_point()
    common, rare = critical_frequency.exponents(planted(outside=1e-6, common=1e-4), at)
    residual = at.training.lambda_ / at.growth_rate
    expected = math.log(critical_frequency.saturated_strength(at) / (4 * 1e-8)) / 2 / (1 - residual)
    torch.testing.assert_close(common, same_in_all(expected))
    torch.testing.assert_close(rare, common)


def test_log_margin_is_that_of_grown_neurons():
    at, begun = a_point(), planted(outside=1e-12, common=1e-4, rare=3e-4)
    common, _ = critical_frequency.exponents(begun, at)
    G, eps = common[0].item(), 0.6
    own, others = 3e-4 * math.exp(eps * G), math.sqrt(5) * 1e-4 * math.exp(G)
    expected = math.log(own / math.hypot(own, others) / at.threshold)
    margin = critical_frequency.log_margin(begun, at, eps)[0].item()
    assert margin == pytest.approx(expected, abs=1e-6)
    margins = [critical_frequency.log_margin(begun, at, eps)[0].item() for eps in (0.1, 0.5, 1.0)]
    assert margins == sorted(margins)


def test_every_feature_is_learned_without_a_bias():
    at = a_point(bias={"share": 0.0})
    begun = critical_frequency.draw_initial_projections("selection tests", at, [0, 1])
    assert torch.isinf(critical_frequency.log_margin(begun, at)).all()
    assert critical_frequency.critical_frequency(at, LogisticFit(0.0, 5.0), begun) == 0.0


def test_bias_and_small_weights_raise_critical_frequency():
    shares = [{"bias": {"share": share}} for share in (0.1, 0.3, 0.6)]
    starts = [{"sigma_0": sigma_0} for sigma_0 in (0.01, 0.001)]
    for keys in (shares, starts):
        found = [
            critical_frequency.estimate_critical_frequency(
                a_point(**values), LogisticFit(0.1, 5.0), 0.0, 30
            ).eps_min
            for values in keys
        ]
        assert found == sorted(found)
        assert found[0] < found[-1]
    never = LogisticFit(50.0, 5.0)
    assert critical_frequency.estimate_critical_frequency(a_point(), never, 0.0, 5).eps_min == 1.0


def test_initial_projections_are_those_of_the_training():
    at = a_point(T=1, eta=1e-12)
    weights = train_arms(at, Intervention(), seeds=[3])["dense"].state.weights
    begun = critical_frequency.draw_initial_projections("selection tests", at, [3])
    torch.testing.assert_close(begun.projections, weights[..., :6].double())
    squares = begun.outside + begun.projections.square().sum(-1)
    torch.testing.assert_close(squares, weights.double().square().sum(-1))


def test_fit_logistic_recovers_planted_curve():
    random = np.random.default_rng(3)
    x = random.uniform(-2, 3, 4000)
    learned = (random.uniform(size=4000) < 1 / (1 + np.exp(-4 * (x - 0.7)))).astype(float)
    found = fit_logistic(x, learned)
    assert found.centre == pytest.approx(0.7, abs=0.05)
    assert found.steepness == pytest.approx(4, rel=0.1)
    apart = fit_logistic(np.array([0.1, 0.2, 0.6, 0.7]), np.array([0.0, 0.0, 1.0, 1.0]))
    assert 0.2 < apart.centre < 0.6
    assert np.isfinite(apart.steepness)


EPS = np.linspace(0.1, 1, 10)


def estimate(learned):
    """Return the estimate of planted outcomes, a row for each of EPS."""
    return estimate_critical_frequency(pd.DataFrame(learned, EPS).astype(float))


def test_critical_frequency_of_planted_replicas():
    """Where all seeds agree, the interval is the gap; else it is that of the jackknife."""
    found = estimate(EPS[:, None] > np.random.default_rng(1).normal(0.55, 0.1, 40))
    assert found.place == AMONG
    assert found.value == pytest.approx(0.55, abs=0.05)
    low, high = found.interval()
    assert low < 0.55 < high
    assert high - low < 0.15
    assert found.pseudo.mean() == pytest.approx(found.value, abs=0.02)
    agreed = np.repeat(EPS[:, None] > 0.55, 8, axis=1)
    assert estimate(agreed).interval() == pytest.approx((0.5, 0.6))
    agreed[5, 0] = False
    low, high = estimate(agreed).interval()
    assert 0.5 < low < high < 0.75
    assert estimate(np.ones((10, 4))).place == BELOW
    assert estimate(np.zeros((10, 4))).place == ABOVE


def test_interval_is_wide_for_correlated_seeds():
    """Half of the seeds learn above 0.35 and half above 0.75, so that n is the number of seeds."""
    low, high = estimate(EPS[:, None] > np.repeat([0.35, 0.75], 4)).interval()
    assert high - low > 0.2


def test_auc_counts_ties_half():
    learned = np.array([0.0, 0, 1, 1])
    assert measure.auc(np.array([1.0, 2, 3, 4]), learned) == 1
    assert measure.auc(np.ones(4), learned) == 0.5
    assert math.isnan(measure.auc(np.ones(3), np.ones(3)))


def test_fit_constants_leaves_out_unusable_replicas():
    """Unusable are diverged replicas and those without a finite margin."""
    columns = {
        "margin": [-1.0, -0.5, 0.5, 1.0, np.inf, 0.9],
        "learned": [0.0, 0, 1, 1, 1, 0],
        "diverged": [0.0] * 5 + [1],
    }
    usable = np.array([-1, -0.5, 0.5, 1]), np.array([0, 0, 1, 1])
    assert measure.fit_constants(pd.DataFrame(columns)) == fit_logistic(*usable)
