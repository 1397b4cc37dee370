"""Closed forms of the study of fine labels, in float64 numpy.

Derivations: docs/method/fine_labels.md. Theorems and equations are those of
hong_fine_grained_labels.
"""

from functools import lru_cache

import numpy as np
from scipy.interpolate import BSpline
from scipy.stats import binom

from rarefeat.studies.fine_labels.config import HierarchicalData


def first_step_ratio(k: int, classes: str) -> float:
    """Compute the expected ratio of subclass to common growth in the first step (Theorem D.1)."""
    return {"coarse": 1 / k, "fine": 2 - 1 / k}[classes]


def patch_numbers(P: int, s_star: float, s_dag: float) -> np.ndarray:
    """Compute Pr(n_sub, n_dag) of the subclass and distracting patches of a hard sample.

    n_com ~ Bin(P, s*/P), n_sub ~ Bin(P - n_com, s*/(P - n_com)), n_dag ~ Bin(P - n_sub,
    s_dag/(P - n_sub)); B.1, 5 (b) and 6 (b); of shape (P + 1, P + 1).
    """
    n = np.arange(P + 1)

    def given(s: float) -> np.ndarray:
        left = P - n[:, None]
        return binom.pmf(n, left, np.minimum(s / np.maximum(left, 1), 1))

    subclass = (binom.pmf(n, P, s_star / P)[:, None] * given(s_star)).sum(0)
    return subclass[:, None] * given(s_dag)


@lru_cache
def irwin_hall(n: int) -> BSpline:
    """Return the distribution function of a sum of n >= 1 uniforms: the integral of a B-spline."""
    return BSpline.basis_element(np.arange(n + 1), extrapolate=False).antiderivative()


def sum_reaches(n: int, low: float, high: float, bound: np.ndarray) -> np.ndarray:
    """Compute Pr(the sum of n uniforms on [low, high] >= bound)."""
    bound = np.asarray(bound, dtype=float)
    if n == 0 or high == low:
        return (n * low >= bound).astype(float)
    x = np.clip((bound - n * low) / (high - low), 0, n)
    # irwin_hall(1) integrates a step, at whose right end B-splines are not defined.
    return np.clip(1 - (x if n == 1 else irwin_hall(n)(x)), 0, 1)


def hard_error(
    data: HierarchicalData, subclass: np.ndarray, distractor: np.ndarray, tau: np.ndarray
) -> np.ndarray:
    """Compute the probability of an error on a hard sample, without zeta*; ties are errors."""
    parts = np.broadcast_arrays(*(np.asarray(x, dtype=float) for x in (subclass, distractor, tau)))
    cases = zip(*(part.flat for part in parts), strict=True)
    return np.array([one_hard_error(data, *case) for case in cases]).reshape(parts[0].shape)


def one_hard_error(data: HierarchicalData, subclass: float, distractor: float, tau: float) -> float:
    """Compute it for one response to a subclass patch, slope and threshold of distractors."""
    low, high = data.alpha_dag
    # Only distractors above tau count: a binomial thinned by their fraction is a binomial.
    lowest = min(max(low, tau), high)
    fraction = (high - lowest) / (high - low) if high > low else float(low > tau)
    probability = patch_numbers(data.P, data.s_star, data.s_dag * fraction)
    response = np.arange(data.P + 1) * max(subclass, 0.0)
    error = 0.0
    for n_dag in range(data.P + 1):
        wins = 0.0
        if distractor > 0:
            wins = sum_reaches(n_dag, lowest, high, response / distractor + n_dag * tau)
        # Without a response the sample is an error, a tie at least.
        error += (probability[:, n_dag] * np.where(response <= 0, 1.0, wins)).sum()
    return error


def fine_floor(P: int, s_star: float) -> float:
    """Compute the fraction of hard samples without a subclass patch, which no labels can tell."""
    return float(patch_numbers(P, s_star, 0.0)[0].sum())


def distraction(data: HierarchicalData, kappa_b: float) -> float:
    """Compute R, the response to distractors over that to subclass patches, coarse labels."""
    gap = np.mean(data.alpha_dag) - 1 / kappa_b
    return data.k * data.s_dag * gap / (data.s_star * (1 - 1 / kappa_b))
