"""Estimates with standard errors: means over seeds, differences, and exponents.

An exponent may be that of times that some replicas do not reach.
"""

from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy.optimize import minimize
from scipy.special import log_ndtr, stdtrit

MAX_CENSORED = 0.5
"""Largest fraction of replicas without the time at one x; beyond it no median is known."""


class Estimate(NamedTuple):
    """A number with its standard error and the degrees of freedom of that."""

    value: float
    error: float
    dof: int
    n: int

    def interval(self) -> tuple[float, float]:
        """Return the 95 % Student interval; NaN without degrees of freedom."""
        half = stdtrit(self.dof, 0.975) * self.error if self.dof > 0 else np.nan
        return self.value - half, self.value + half


def estimate_mean(values: np.ndarray) -> Estimate:
    """Estimate the mean over seeds; values that are not finite are left out."""
    values = np.asarray(values, dtype=float)
    values = values[np.isfinite(values)]
    n = len(values)
    # The computed spread of equal numbers is a rounding error.
    spread = 0.0 if n and np.ptp(values) == 0 else values.std(ddof=1) if n > 1 else np.nan
    return Estimate(
        values.mean() if n else np.nan, spread / np.sqrt(n) if n > 1 else np.nan, n - 1, n
    )


def estimate_from_interval(value: float, low: float, high: float, n: int) -> Estimate:
    """Recover the estimate of a line's slope from its 95 % interval."""
    return Estimate(value, (high - low) / (2 * stdtrit(n - 2, 0.975)), n - 2, n)


def difference(changed: pd.Series, base: pd.Series) -> Estimate:
    """Estimate `changed` less `base`, paired by seed, as replicas of one seed share their draws."""
    return estimate_mean((changed - base).to_numpy())


def exponent(x: np.ndarray, curves: np.ndarray) -> np.ndarray:
    """Fit the slope of log y in log x by least squares, one for each column of curves."""
    with np.errstate(divide="ignore", invalid="ignore"):
        log_x, log_y = np.log(x) - np.log(x).mean(), np.log(curves)
    slopes = log_x @ log_y / (log_x @ log_x)
    return np.where(np.isfinite(slopes), slopes, np.nan)


def censored_exponent(x: np.ndarray, times: np.ndarray, horizon: np.ndarray) -> Estimate:
    """Estimate the exponent of a time in x where some replicas end before they reach it.

    log time = a + exponent log x + spread * normal, fitted by maximum likelihood to every replica:
    one that does not reach the time says that it is longer than its horizon (Tobit). The standard
    error is the jackknife's over seeds, as points share their seeds. Without censoring this is the
    mean over seeds of each seed's slope, with its standard error. Times and horizons have a row for
    each x and a column for each seed (Klein & Moeschberger, Survival Analysis, chapter 12).
    """
    reached = np.isfinite(times)
    n_seeds = times.shape[1]
    if n_seeds < 3 or (reached.mean(1) < 1 - MAX_CENSORED).any():
        return Estimate(np.nan, np.nan, n_seeds - 1, n_seeds)
    log_x = np.log(x) - np.log(x).mean()
    log_y = np.log(np.where(reached, times, horizon))
    value = _tobit(log_x, log_y, reached)
    others = ~np.eye(n_seeds, dtype=bool)
    replicates = np.array([_tobit(log_x, log_y[:, keep], reached[:, keep]) for keep in others])
    error = np.sqrt((n_seeds - 1) / n_seeds * ((replicates - replicates.mean()) ** 2).sum())
    return Estimate(value, float(error), n_seeds - 1, n_seeds)


def _tobit(log_x: np.ndarray, log_y: np.ndarray, reached: np.ndarray) -> float:
    """Fit the slope of log_y in log_x; where it is not reached, log_y is a lower bound."""
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
