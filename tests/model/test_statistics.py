"""Intervals against scipy and by coverage; Holm's correction."""

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from rarefeat.statistics import fraction_interval, holm, student_interval
from staged_protocol import minimum_detectable_mean, required_sample_size


@pytest.mark.parametrize(("ones", "n"), [(0, 6), (1, 6), (3, 6), (6, 6), (0, 1), (17, 100)])
def test_fraction_interval_equals_scipy(ones, n):
    values = np.append(np.repeat([1.0, 0.0], [ones, n - ones]), np.nan)
    expected = scipy.stats.binomtest(ones, n).proportion_ci(method="exact")
    assert fraction_interval(values) == pytest.approx((expected.low, expected.high), rel=1e-12)
    assert np.isnan(fraction_interval(values[-1:])).all()


def test_student_interval_equals_scipy():
    values = np.random.default_rng(1).normal(size=7)
    mean, sd, low, high, n = student_interval(np.append(values, np.nan))
    expected = scipy.stats.t.interval(0.95, 6, values.mean(), scipy.stats.sem(values))
    assert (mean, sd, n) == (values.mean(), values.std(ddof=1), 7)
    np.testing.assert_allclose((low, high), expected)
    assert np.isnan(student_interval(np.array([1.0]))[2])
    assert student_interval(np.array([np.nan]))[4] == 0


@given(st.lists(st.floats(0, 1), min_size=2, max_size=9), st.sampled_from([0.9, 0.95, 0.99]))
def test_student_interval_is_clipped_to_range(values, level):
    whole, inside = (
        student_interval(np.array(values), level, ends) for ends in ((-np.inf, np.inf), (0.0, 1.0))
    )
    assert whole[:2] + whole[4:] == inside[:2] + inside[4:]
    assert inside[2:4] == (min(max(whole[2], 0.0), 1.0), min(max(whole[3], 0.0), 1.0))
    assert np.isnan(student_interval(np.array([0.5]), inside=(0.0, 1.0))[2])


def test_holm_by_hand():
    # Sorted 0.01, 0.02, 0.03, 0.04 times 4, 3, 2, 1 and never falling: Holm 1979.
    assert holm(np.array([0.01, 0.04, 0.03, 0.02])) == pytest.approx([0.04, 0.06, 0.06, 0.06])
    assert holm(np.array([0.5, 0.9])) == pytest.approx([1.0, 1.0])


@given(st.lists(st.floats(0, 1), min_size=1, max_size=20))
def test_holm_is_between_p_value_and_bonferroni(values):
    p_values = np.array(values)
    adjusted = holm(p_values)
    assert (adjusted >= p_values - 1e-12).all()
    assert (adjusted <= np.minimum(len(p_values) * p_values, 1) + 1e-12).all()
    assert (np.diff(adjusted[np.argsort(p_values, kind="stable")]) >= 0).all()


@pytest.mark.parametrize("n", [2, 5, 9])
def test_minimum_detectable_mean_has_its_power(n):
    """By draws: intervals of n values around it lie above zero in 80 %."""
    mean = minimum_detectable_mean(2.0, n)
    draws = np.random.default_rng(n).normal(mean, 2.0, size=(6000, n))
    half = scipy.stats.t.ppf(0.975, n - 1) * draws.std(1, ddof=1) / np.sqrt(n)
    assert abs(np.mean(draws.mean(1) > half) - 0.8) < 4 * np.sqrt(0.8 * 0.2 / 6000)
    assert minimum_detectable_mean(2.0, n, power=0.9) > mean > minimum_detectable_mean(1.0, n)
    assert np.isnan(minimum_detectable_mean(2.0, 1))


def test_required_sample_size_is_smallest():
    n = required_sample_size(2.0, 3.0)
    assert minimum_detectable_mean(2.0, n) <= 3 < minimum_detectable_mean(2.0, n - 1)
