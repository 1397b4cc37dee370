"""Fit of a logistic curve with two constants to outcomes of 0 or 1."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Shaped
from scipy.optimize import minimize
from scipy.special import expit


class LogisticFit(NamedTuple):
    """Fitted constants of the probability 1 / (1 + exp(-steepness (margin - centre)))."""

    centre: float
    """log kappa, the margin at which half of the replicas learn the feature."""
    steepness: float
    """Slope of the log-odds in the margin."""


def fit_logistic(x: Float[np.ndarray, " n"], learned: Shaped[np.ndarray, " n"]) -> LogisticFit:
    """Fit a logistic curve by maximum likelihood, with a weak prior on its steepness.

    The prior keeps the steepness finite where the outcomes are separable: its logarithm is normal
    around a steepness of 4 per standard deviation of x, with a factor of ten as standard
    deviation.
    """
    x, learned = np.asarray(x, dtype=float), np.asarray(learned, dtype=float)
    scale, middle = max(x.std(), 1e-6), x.mean()
    u, sign = (x - middle) / scale, np.where(learned > 0.5, 1.0, -1.0)

    def loss(parameters: np.ndarray) -> tuple[float, np.ndarray]:
        centre, log_steepness = parameters
        steepness, off = np.exp(log_steepness), log_steepness - np.log(4)
        z = steepness * (u - centre)
        slope = -sign * expit(-sign * z)
        value = np.logaddexp(0, -sign * z).sum() + off**2 / (2 * np.log(10) ** 2)
        return value, np.array(
            [-steepness * slope.sum(), (slope * z).sum() + off / np.log(10) ** 2]
        )

    centre, log_steepness = minimize(loss, np.array([0.0, np.log(4)]), jac=True, method="BFGS").x
    return LogisticFit(float(middle + scale * centre), float(np.exp(log_steepness) / scale))
