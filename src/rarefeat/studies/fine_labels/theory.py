"""Closed forms of the study of fine labels, in float64 numpy.

Derivations: docs/method/fine_labels.md. Theorems and equations are those of
hong_fine_grained_labels.
"""

from functools import lru_cache

import numpy as np
from scipy.interpolate import BSpline
from scipy.special import lambertw
from scipy.stats import binom, norm

from rarefeat.studies.fine_labels.config import Detectors, EasyData, HierarchicalData, Learner


def expected_detectors(detectors: Detectors, iota: float) -> float:
    """Compute E |S(v)|, the neurons that the strongest v-patches switch on by themselves:
    Proposition 1 without asymptotics.
    """
    return detectors.m * norm.sf(detectors.threshold / np.sqrt(1 + iota))


def first_step_ratio(k: int, classes: str) -> float:
    """Compute subclass over common growth in the first step, in expectation.

    It is 1/k with coarse labels (Theorem D.1), and 2 - 1/k with fine labels.
    """
    return {"coarse": 1 / k, "fine": 2 - 1 / k}[classes]


def coarse_growth(t: np.ndarray, data: EasyData, learner: Learner, detectors: float) -> np.ndarray:
    """Compute A_+(t) of coarse training with constant numbers of patches and detectors.

    Every sample has exactly s* patches of either kind, and every feature as many detectors. The
    margin F = s* |S| (1 - 1/kappa_b) (1 + 1/k) A_+ then obeys F' = C / (1 + e^F), whose solution is
    F = x - W(e^x), x = C t + 1: linear at first, log(C t) in the end (Lemma E.4, with its C
    replaced).
    """
    gain = data.s_star * detectors * (1 - 1 / learner.kappa_b) * (1 + 1 / data.k)
    x = gain * learner.eta * data.s_star / (2 * data.P) * np.asarray(t, dtype=float) + 1
    # exp overflows for large x: there W(e^x) is found by Newton's steps on w + log w = x.
    w = np.where(x < 500, lambertw(np.exp(np.minimum(x, 500))).real, x - np.log(x))
    for _ in range(3):
        w *= (1 + x - np.log(w)) / (1 + w)
    return (x - w) / gain


def patch_numbers(P: int, s_star: float, s_dag: float) -> np.ndarray:
    """Compute Pr(n_sub, n_dag) of the subclass and distracting patches of a hard sample.

    n_com ~ Bin(P, s*/P), n_sub ~ Bin(P - n_com, s*/(P - n_com)), n_dag ~ Bin(P - n_sub,
    s_dag/(P - n_sub)); B.1, 5 (b) and 6 (b).

    -> (P + 1, P + 1).
    """
    n = np.arange(P + 1)

    def rate(s: float, left: np.ndarray) -> np.ndarray:
        return np.minimum(s / np.maximum(left, 1), 1)

    common = binom.pmf(n, P, s_star / P)
    subclass = (common[:, None] * binom.pmf(n, P - n[:, None], rate(s_star, P - n[:, None]))).sum(0)
    return subclass[:, None] * binom.pmf(n, P - n[:, None], rate(s_dag, P - n[:, None]))


@lru_cache
def irwin_hall(n: int) -> BSpline:
    """Return the distribution function of a sum of n >= 1 uniforms on [0, 1], within [0, n].

    It is the integral of the cardinal B-spline.
    """
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
    """Compute the probability of an error on a hard sample; ties are errors.

    It is a sum over the distribution of (n_sub, n_dag), with alpha_dag integrated. The loud patch
    zeta* and the other groups of detectors are left out.
    """
    subclass, distractor, tau = np.broadcast_arrays(
        *(np.asarray(x, dtype=float) for x in (subclass, distractor, tau))
    )
    errors = np.empty(subclass.shape)
    low, high = data.alpha_dag
    for index in np.ndindex(subclass.shape):
        # Only distractors above tau count: a binomial thinned by their fraction is a binomial.
        lowest = min(max(low, tau[index]), high)
        fraction = (high - lowest) / (high - low) if high > low else float(low > tau[index])
        probability = patch_numbers(data.P, data.s_star, data.s_dag * fraction)
        response = np.arange(data.P + 1) * max(subclass[index], 0.0)
        error = 0.0
        for n_dag in range(data.P + 1):
            if distractor[index] > 0:
                bound = response / distractor[index] + n_dag * tau[index]
                wins = sum_reaches(n_dag, lowest, high, bound)
            else:
                wins = (response <= 0).astype(float)
            # Without a response the sample is an error, a tie at least.
            error += (probability[:, n_dag] * np.where(response <= 0, 1.0, wins)).sum()
        errors[index] = error
    return errors


def coarse_hard_error(data: HierarchicalData, kappa_b: float) -> float:
    """Compute `hard_error` of a coarse network with equal detectors.

    The displacement of subclass detectors is 1/k of that of common ones.
    """
    return float(hard_error(data, (1 - 1 / kappa_b) / data.k, 1.0, 1 / kappa_b))


def fine_floor(P: int, s_star: float) -> float:
    """Compute the fraction of hard samples without a subclass patch, where no labels can help.

    It is E[(1 - s*/(P - n_com))^(P - n_com)].
    """
    return float(patch_numbers(P, s_star, 0.0)[0].sum())


def distraction(data: HierarchicalData, kappa_b: float) -> float:
    """Compute R = k s_dag (E alpha_dag - 1/kappa_b) / (s* (1 - 1/kappa_b)), coarse labels.

    R is the response to distractors over that to subclass patches.
    """
    return (
        data.k
        * data.s_dag
        * (np.mean(data.alpha_dag) - 1 / kappa_b)
        / (data.s_star * (1 - 1 / kappa_b))
    )
