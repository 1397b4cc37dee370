"""Numbers with their uncertainty: means over seeds, fitted lines, differences, and exponents of times not always reached."""

from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy.optimize import minimize
from scipy.special import log_ndtr, stdtrit

MOST_CENSORED = 0.5
"""Beyond this share of replicas without the time at one point, not even the median is known there."""


class Estimate(NamedTuple):
    """A number with its standard error and the degrees of freedom of that."""

    value: float
    error: float
    dof: int
    n: int

    def interval(self) -> tuple[float, float]:
        """95 %, Student, for itself alone."""
        half = stdtrit(self.dof, 0.975) * self.error if self.dof > 0 else np.nan
        return self.value - half, self.value + half


def estimate_mean(values: np.ndarray) -> Estimate:
    """The mean over seeds, (n,); a replica without a value is left out."""
    values = np.asarray(values, dtype=float)
    values = values[np.isfinite(values)]
    n = len(values)
    # Equal numbers have a spread of rounding.
    spread = 0.0 if n and np.ptp(values) == 0 else values.std(ddof=1) if n > 1 else np.nan
    return Estimate(
        values.mean() if n else np.nan, spread / np.sqrt(n) if n > 1 else np.nan, n - 1, n
    )


def estimate_from_interval(value: float, low: float, high: float, n: int) -> Estimate:
    """The slope of a line through n points, from its 95 % interval."""
    return Estimate(value, (high - low) / (2 * stdtrit(n - 2, 0.975)), n - 2, n)


def difference(changed: pd.Series, base: pd.Series) -> Estimate:
    """`changed` less `base`, values by seed, paired, as replicas of one seed share their draws; seeds of both count."""
    return estimate_mean((changed - base).to_numpy())


def exponent(x: np.ndarray, curves: np.ndarray) -> np.ndarray:
    """Slope of log y in log x, seed by seed, (n,), (n, seeds) -> (seeds,); NaN where a value is not positive."""
    with np.errstate(divide="ignore", invalid="ignore"):
        log_x, log_y = np.log(x) - np.log(x).mean(), np.log(curves)
    slopes = log_x @ log_y / (log_x @ log_x)
    return np.where(np.isfinite(slopes), slopes, np.nan)


def censored_exponent(x: np.ndarray, times: np.ndarray, horizon: np.ndarray) -> Estimate:
    """The exponent of a time in x where some replicas end before they reach it.

    log time = a + exponent log x + spread * normal, fitted by maximum likelihood to every replica: one that does not reach the
    time says that it is longer than what it was watched for (Tobit; Klein & Moeschberger, Survival Analysis, chapter 12). The
    standard error is the jackknife's over seeds, as points share their seeds. Without censoring this is the mean over seeds of
    each seed's own slope, with its standard error.

    Args:
        x: (n,), positive. times: (n, seeds), NaN where the time is not reached. horizon: (n, seeds), how long each was watched.

    Returns:
        The estimate over seeds; NaN where more than half of the replicas at one x do not reach the time.
    """
    reached = np.isfinite(times)
    seeds = times.shape[1]
    if seeds < 3 or (reached.mean(1) < 1 - MOST_CENSORED).any():
        return Estimate(np.nan, np.nan, seeds - 1, seeds)
    log_x = np.log(x) - np.log(x).mean()
    log_y = np.log(np.where(reached, times, horizon))
    value = _tobit(log_x, log_y, reached)
    others = ~np.eye(seeds, dtype=bool)
    parts = np.array([_tobit(log_x, log_y[:, keep], reached[:, keep]) for keep in others])
    error = np.sqrt((seeds - 1) / seeds * ((parts - parts.mean()) ** 2).sum())
    return Estimate(value, float(error), seeds - 1, seeds)


def _tobit(log_x: np.ndarray, log_y: np.ndarray, reached: np.ndarray) -> float:
    """Slope of log_y in log_x, (n,), (n, seeds), where log_y is a lower bound unless `reached`."""
    slope, intercept = np.polyfit(np.repeat(log_x, log_y.shape[1]), log_y.ravel(), 1)
    if reached.all():
        return float(slope)
    residual = log_y - intercept - slope * log_x[:, None]
    start = np.array([intercept, slope, np.log(residual.std() + 1e-6)])

    def loss(parameters: np.ndarray) -> float:
        a, k, log_spread = parameters
        z = (log_y - a - k * log_x[:, None]) * np.exp(-log_spread)
        return -np.where(reached, -0.5 * z**2 - log_spread, log_ndtr(-z)).sum()

    return float(minimize(loss, start, method="BFGS", options={"gtol": 1e-4}).x[1])
