"""Means over seeds with their intervals, and many tests at once."""

import itertools

import numpy as np
from scipy.special import nctdtrinc, stdtrit


def holm(p_values: np.ndarray) -> np.ndarray:
    """p-values adjusted for their number by Holm's step-down rule, in the order given."""
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
    """Mean, standard deviation, both ends of the interval of the mean, and n, of the values that are not NaN.

    The interval needs two values, and the mean one; what cannot be had is NaN.

    Args:
        inside: the quantity's range. What of the interval lies outside of it is left out, which covers the mean as often.
    """
    values = np.asarray(values, dtype=float)
    values = values[~np.isnan(values)]
    n = len(values)
    mean = values.mean() if n else np.nan
    sd = values.std(ddof=1) if n > 1 else np.nan
    half = stdtrit(n - 1, (1 + level) / 2) * sd / np.sqrt(n) if n > 1 else np.nan
    return mean, sd, np.clip(mean - half, *inside), np.clip(mean + half, *inside), n


def minimum_detectable_mean(sd: float, n: int, power: float = 0.8, level: float = 0.95) -> float:
    """The smallest mean that the interval of n values of this standard deviation would part from 0 with so much power.

    From the noncentral t distribution of a two-sided test; NaN below two values.
    """
    if n < 2:
        return np.nan
    return float(nctdtrinc(n - 1, 1 - power, stdtrit(n - 1, (1 + level) / 2)) * sd / np.sqrt(n))


def required_sample_size(sd: float, mean: float, power: float = 0.8, level: float = 0.95) -> int:
    """How many values of this standard deviation part this mean from 0 with so much power."""
    return next(
        n for n in itertools.count(2) if minimum_detectable_mean(sd, n, power, level) <= mean
    )
