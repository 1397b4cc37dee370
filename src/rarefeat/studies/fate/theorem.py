"""Quantities of the theorem on late learning (docs/method/fate.md, with its proof).

Below its gate beta the cosine of neuron i obeys x' = eta ((A_i - g) x + k_i). A push k_i beyond the
threshold carries it through the gate, on either side; in a sample of N pairs k_i has the variance
v / N, so that reuse lets the feature in below a critical N. `rate` is A_i - g.
"""

from statistics import NormalDist

import numpy as np

Numbers = np.ndarray | float


def threshold(rate: Numbers, gate: Numbers) -> Numbers:
    """Compute the push beyond which |x| reaches the gate: beta (g - A), and 0 where A exceeds g."""
    return gate * np.maximum(-rate, 0)


def crossing_time(start: float, rate: float, push: float, gate: float, eta: float) -> float:
    """Compute when |x| first reaches the gate from |start| < gate; infinite if it never does."""
    times = []
    for side in (1, -1):
        x, k = side * start, side * push
        if rate == 0:
            times.append((gate - x) / (eta * k) if k > 0 else np.inf)
        elif rate * x + k > 0 and rate * gate + k > 0:
            times.append(np.log((rate * gate + k) / (rate * x + k)) / (eta * rate))
    return float(min(times, default=np.inf))


def share_learned(size: Numbers, limit: Numbers, m: int) -> Numbers:
    """Compute the probability that the largest of m |k_i|, normal of a size, exceeds a limit."""
    inside = np.vectorize(lambda t: 2 * NormalDist().cdf(t) - 1)
    with np.errstate(divide="ignore"):
        return 1 - inside(np.divide(limit, size)) ** m


def largest_normal(m: int) -> float:
    """Compute the median of the largest of m absolute values of standard normal numbers."""
    return NormalDist().inv_cdf((1 + 0.5 ** (1 / m)) / 2)


def critical_sample(variance: Numbers, limit: Numbers, largest: Numbers) -> Numbers:
    """Compute the N below which, of runs with N pairs, more than half have such a push.

    `variance` is N times that of a neuron's push by N pairs, `largest` that of `largest_normal`.
    """
    with np.errstate(divide="ignore"):
        return variance * np.divide(largest, limit) ** 2
