"""Closed forms that the measurements are compared with, as derived in docs/method/two_layer.md."""

import math
from math import comb

import numpy as np
from scipy import integrate, special


def parity_counts(k: int, p_o: float, negatives: float = 0.5) -> tuple[np.ndarray, np.ndarray]:
    """Return probability and label of each number of relevant patterns under D^mix (A.5)."""
    counts = np.arange(k + 1)
    probability = p_o * special.comb(k, counts) / 2**k
    probability[[0, k]] += (1 - p_o) / 2
    labels = np.where(counts % 2 == 1, 1, -1)
    share = np.where(labels > 0, 1 - negatives, negatives)
    # Both classes have probability 1/2 under D^mix: k is odd.
    return probability * 2 * share, labels


def staircase(probability: np.ndarray, labels: np.ndarray, changes: int) -> float:
    """Return the best accuracy of a score of the count with at most `changes` sign changes.

    best[sign][s] is the mass that is right, of scores with this sign at the last count, after s
    changes.
    """
    best = {sign: [0.0] + [-math.inf] * changes for sign in (-1, 1)}
    for p, y in zip(probability, labels, strict=True):
        best = {
            sign: [
                max(best[sign][s], best[-sign][s - 1] if s else -math.inf)
                + (p if y == sign else 0.0)
                for s in range(changes + 1)
            ]
            for sign in (-1, 1)
        }
    return max(max(row) for row in best.values())


def step_one_cosine(n: int, D: int, k: int, gamma: float, beta: float, p_o: float = 0.5) -> float:
    """Return cos(w_i^(1), sum_{j in A} M_j) of a neuron that is on for a share beta of n samples.

    beta = 1 gives step 2, where the live neurons are on for every sample.
    """
    return (1 + (D - k) * p_o * (1 - p_o) / (n * k * beta * gamma**2)) ** -0.5


def initial_cosine(d: int, m: int) -> float:
    """Return the expected largest cosine of m isotropic vectors in R^d to a fixed one."""
    half = (d - 1) / 2
    value, _ = integrate.quad(
        lambda c: 1 - special.betainc(half, half, (1 + c) / 2) ** m,
        -1,
        1,
        points=[0, 3 / d**0.5],
        limit=400,
    )
    return value - 1


def rare_pattern_ratio(k: int, p_o: float, frequency: float) -> float:
    """Return the weight of one rare relevant pattern over that of a full one after step 2.

    It is cov(y, phi~_r) / cov(y, phi~_j) for majority labels over odd k.
    """
    outcomes = []
    for c in range(k):  # of the other k - 1 patterns are there
        uniform = p_o * comb(k - 1, c) / 2 ** (k - 1) / 2
        present = uniform + ((1 - p_o) / 2 if c == k - 1 else 0.0)
        absent = uniform + ((1 - p_o) / 2 if c == 0 else 0.0)
        thinned = (1, present * frequency), (0, absent + present * (1 - frequency))
        outcomes += [(p, 1 if c + r > k / 2 else -1, c / (k - 1), r) for r, p in thinned]
    p, y, often, rare = map(np.array, zip(*outcomes, strict=True))

    def covariance(pattern: np.ndarray) -> float:
        return sum(p * (y * pattern)) - sum(p * y) * sum(p * pattern)

    return covariance(rare) / covariance(often)


def fixed_feature_bound(N: np.ndarray, B: np.ndarray, k: int, p_o: float) -> np.ndarray:
    """Return the bound p_o (1 - sqrt(2 N) B / 2^k) of Theorem 2.2 on the loss for some A."""
    return p_o * (1 - np.sqrt(2 * np.asarray(N)) * B / 2**k)


def fixed_feature_bound_mean(
    N: np.ndarray, B: np.ndarray, D: int, k: int, p_o: float
) -> np.ndarray:
    """Return the lower bound p_o (1 - B sqrt(N / C(D, k))) on the mean hinge loss over all A."""
    return p_o * (1 - np.asarray(B) * np.sqrt(np.asarray(N) / comb(D, k)))


def count_kernel(
    slope: np.ndarray, b: np.ndarray, counts: np.ndarray, probability: np.ndarray
) -> np.ndarray:
    """Return the eigenvalues, over their sum, of the kernel of sigma(slope_i c + b_i) on counts."""
    h = np.clip(np.outer(counts, slope) + b, 0, 1) * np.sqrt(probability)[:, None]
    values = np.linalg.eigvalsh(h @ h.T)[::-1]
    return values / values.sum()
