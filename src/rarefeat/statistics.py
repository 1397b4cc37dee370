"""Confidence intervals of means over seeds, and corrections for multiple tests."""

import numpy as np
from scipy.special import betaincinv, stdtrit
from scipy.stats import binomtest


def holm(p_values: np.ndarray) -> np.ndarray:
    """Adjust p-values for multiple tests by Holm's step-down rule.

    p_values (n,) -> (n,).
    """
    p_values = np.asarray(p_values, dtype=float)
    order = np.argsort(p_values, kind="stable")
    adjusted = np.minimum(
        np.maximum.accumulate(p_values[order] * np.arange(len(order), 0, -1)), 1.0
    )
    return adjusted[np.argsort(order, kind="stable")]


UNBOUNDED = (-np.inf, np.inf)


def student_interval(
    values: np.ndarray, level: float = 0.95, inside: tuple[float, float] = UNBOUNDED
) -> tuple[float, float, float, float, int]:
    """Compute the Student confidence interval of the mean of the values that are not NaN."""
    values = np.asarray(values, dtype=float)
    values = values[~np.isnan(values)]
    n = len(values)
    mean = values.mean() if n else np.nan
    sd = values.std(ddof=1) if n > 1 else np.nan
    half = stdtrit(n - 1, (1 + level) / 2) * sd / np.sqrt(n) if n > 1 else np.nan
    return mean, sd, np.clip(mean - half, *inside), np.clip(mean + half, *inside), n


def fraction_interval(values: np.ndarray) -> tuple[float, float]:
    """Compute the exact 95 % confidence interval of the mean of values that are 0 or 1."""
    values = np.asarray(values, dtype=float)
    values = values[~np.isnan(values)]
    return exact_bounds(values.sum(), len(values), 0.025) if len(values) else (np.nan, np.nan)


def exact_bounds(ones: float, n: int, tail: float) -> tuple[float, float]:
    """Compute the fractions that `ones` of n exclude on neither side at a level of `tail`.

    Clopper & Pearson (1934).
    """
    low = betaincinv(ones, n - ones + 1, tail) if ones else 0.0
    high = betaincinv(ones + 1, n - ones, 1 - tail) if ones < n else 1.0
    return float(low), float(high)


def sign_test(changes: np.ndarray) -> tuple[int, int, float]:
    """Count the positive and the negative changes, and compute the two-sided exact p-value.

    Changes of 0 are left out. Of paired outcomes of 0 or 1 it is McNemar's test.
    """
    more, fewer = int((changes > 0).sum()), int((changes < 0).sum())
    return more, fewer, float(binomtest(more, more + fewer).pvalue) if more + fewer else 1.0
