"""Figures of claims from published verdicts."""

import math
from types import SimpleNamespace

import pytest

from rarefeat.claims.estimate import Estimate
from rarefeat.claims.verdict import PAIRED, confidence_bounds
from rarefeat.report.figures_from_published import standard_error_from_interval


@pytest.mark.parametrize(
    ("total", "differing", "n"),
    [(0, 0, 24), (0, 6, 24), (18, 18, 24), (-4, 10, 24), (-22, 22, 24), (2, 14, 16)],
)
def test_standard_error_from_paired_interval(total, differing, n):
    """The number of seeds that differ is recovered."""
    error = math.sqrt((differing - total**2 / n) / (n * (n - 1)))
    low, high = confidence_bounds(Estimate(total / n, error, n - 1, n), 0.025, PAIRED)
    rounded = {"estimate": total / n, "ci_low": low, "ci_high": high}
    row = SimpleNamespace(n=n, **{name: float(f"{value:.6g}") for name, value in rounded.items()})
    assert standard_error_from_interval(row, PAIRED) == pytest.approx(error, rel=1e-12, abs=1e-12)


def test_standard_error_without_estimate_is_nan():
    row = SimpleNamespace(estimate=math.nan, ci_low=math.nan, ci_high=math.nan, n=0)
    assert math.isnan(standard_error_from_interval(row, PAIRED))
