"""Quantities of the theorem on late learning (docs/method/fate.md, with its proof).

Below its gate the cosine of neuron i obeys x' = eta ((A_i - g) x + k_i). A_i is the mean of N
bounded contributions of pairs, of which a fraction q is not 0. Where its mean is below g by a
margin, A_i exceeds g in none of m neurons once N is beyond `critical_sample`.
"""

import numpy as np

from rarefeat.model.theory import activation_probability
from rarefeat.workflow.config.model import Data


def bennett(u: np.ndarray | float) -> np.ndarray | float:
    """Compute h(u) = (1 + u) log(1 + u) - u of Bennett's inequality."""
    return (1 + u) * np.log1p(u) - u


def exceedance_bound(
    N: np.ndarray | float, q: float, largest: float, margin: float
) -> np.ndarray | float:
    """Bound the probability that a mean of N contributions exceeds its expectation by a margin."""
    return np.exp(-N * q * bennett(margin / (q * largest)))


def critical_sample(
    m: int, q: float, largest: float, margin: np.ndarray | float
) -> np.ndarray | float:
    """Compute the N from which on the bound over all m neurons is below 1."""
    u = np.maximum(margin, 1e-12) / (q * largest)
    return np.where(np.asarray(margin) > 0, np.log(m) / (q * bennett(u)), np.inf)


def cooccurrence(data: Data, eps_min: np.ndarray | float) -> np.ndarray | float:
    """Compute the probability that a pair holds the rare feature and one given other, eps p^2."""
    probability = float(activation_probability(np.ones(data.d), data.C)[0])
    return eps_min * probability**2


def crossing_time(start: float, rate: float, kick: float, gate: float, eta: float) -> float:
    """Compute when x' = eta (rate x + kick) reaches the gate; infinite if it never does."""
    if rate == 0:
        return (gate - start) / (eta * kick) if kick else np.inf
    ratio = (gate + kick / rate) / (start + kick / rate) if start + kick / rate else np.inf
    time = np.log(ratio) / (eta * rate) if ratio > 0 else np.inf
    return time if time >= 0 else np.inf


def memory(K: int, eta: float, rate: float) -> float:
    """Compute the fresh pairs whose fixed mean would move x as far as fresh pairs do."""
    return 2 * K / (eta * rate)


def waiting_time(eta: float, rate: float, spread: float, gate: float) -> float:
    """Compute the mean time in which fresh pairs first carry |x| to the gate.

    Kramers (1940), for an Ornstein-Uhlenbeck process and both signs.
    """
    scale = spread / gate
    return np.sqrt(np.pi / 2) / (eta * rate) * scale * np.exp(1 / (2 * scale**2))
