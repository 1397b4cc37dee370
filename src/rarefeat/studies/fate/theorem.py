"""Quantities of the theorem on late learning (docs/method/fate.md, with its proof).

Below its gate beta the cosine of neuron i obeys x' = eta ((A_i - g) x + k_i). A push k_i beyond the
threshold carries it through the gate, on either side; in a sample of N pairs k_i has the variance
v / N, so that reuse lets the feature in below a critical N. The leak A_i alone exceeds g in none of
m neurons once N is beyond `critical_sample_of_leak`. `rate` is A_i - g.
"""

from statistics import NormalDist

import numpy as np

from rarefeat.model.theory import activation_probability
from rarefeat.workflow.config.model import Data

Numbers = np.ndarray | float


def reach(rate: Numbers, time: float) -> Numbers:
    """Compute x(time) / k for x(0) = 0 and eta = 1: (exp(rate time) - 1) / rate."""
    rate = np.asarray(rate, dtype=float)
    small = np.abs(rate * time) < 1e-9
    return np.where(small, time, np.expm1(rate * time) / np.where(small, 1, rate))


def threshold(rate: Numbers, gate: Numbers, time: float = np.inf) -> Numbers:
    """Compute the push beyond which |x| reaches the gate from 0 by a time, in units of 1 / eta."""
    if time == np.inf:
        return gate * np.maximum(-np.asarray(rate, dtype=float), 0)
    return gate / reach(rate, time)


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


def critical_sample(variance: Numbers, limit: Numbers, m: int) -> Numbers:
    """Compute the N below which, of runs with N pairs, more than half have such a push.

    `variance` is N times that of a neuron's push by N pairs.
    """
    with np.errstate(divide="ignore"):
        return variance * (largest_normal(m) / np.asarray(limit, dtype=float)) ** 2


def bennett(u: Numbers) -> Numbers:
    """Compute h(u) = (1 + u) log(1 + u) - u of Bennett's inequality."""
    return (1 + u) * np.log1p(u) - u


def exceedance_bound(N: Numbers, q: float, largest: float, margin: float) -> Numbers:
    """Bound the probability that a mean of N contributions exceeds its expectation by a margin."""
    return np.exp(-N * q * bennett(margin / (q * largest)))


def critical_sample_of_leak(m: int, q: float, largest: float, margin: Numbers) -> Numbers:
    """Compute the N from which on the bound over all m neurons is below 1."""
    u = np.maximum(margin, 1e-12) / (q * largest)
    return np.where(np.asarray(margin) > 0, np.log(m) / (q * bennett(u)), np.inf)


def cooccurrence(data: Data, eps_min: Numbers) -> Numbers:
    """Compute the probability that a pair holds the rare feature and one given other, eps p^2."""
    probability = float(activation_probability(np.ones(data.d), data.C)[0])
    return eps_min * probability**2
