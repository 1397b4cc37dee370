"""A share that rises with one number, as a logistic curve of two constants."""

from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit


class LogisticFit(NamedTuple):
    """What is fitted: a replica learns the feature with probability 1 / (1 + exp(-steepness (margin - centre)))."""

    centre: float
    """log kappa."""
    steepness: float


def fit_logistic(x: np.ndarray, learned: np.ndarray) -> LogisticFit:
    """Maximum likelihood of the two constants; x, learned: (n,), the latter 0 or 1.

    A weak prior on the logarithm of the steepness, around 4 standard deviations of x with a factor of ten to either side, keeps
    it finite where both sides are apart.
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
