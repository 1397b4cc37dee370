"""Closed forms of the study, in float64 numpy. Derivations: docs/method/fine_labels.md."""

from functools import lru_cache

import numpy as np
from scipy.interpolate import BSpline
from scipy.special import lambertw
from scipy.stats import binom, norm

from rarefeat.studies.fine_labels.config import Detectors, EasyData, HierarchicalData, Learner


def expected_detectors(detectors: Detectors, iota: float) -> float:
    """E |S(v)|: each of m neurons is switched on by the strongest v-patches by itself (Proposition 1 without asymptotics)."""
    return detectors.m * norm.sf(detectors.threshold / np.sqrt(1 + iota))


def first_step_ratio(k: int, classes: str) -> float:
    """Subclass over common growth in the first step, in expectation: 1/k (Theorem D.1), or 2 - 1/k with fine labels."""
    return {"coarse": 1 / k, "fine": 2 - 1 / k}[classes]


def coarse_growth(t: np.ndarray, data: EasyData, learner: Learner, detectors: float) -> np.ndarray:
    """A_+(t) of coarse training where every sample has exactly s* patches of either kind and every feature as many detectors.

    The margin F = s* |S| (1 - 1/kappa_b) (1 + 1/k) A_+ then obeys F' = C / (1 + e^F), whose solution is
    F = x - W(e^x), x = C t + 1: linear at first, log(C t) in the end (Lemma E.4, with its C replaced).
    """
    gain = data.s_star * detectors * (1 - 1 / learner.kappa_b) * (1 + 1 / data.k)
    x = gain * learner.eta * data.s_star / (2 * data.P) * np.asarray(t, dtype=float) + 1
    # W(e^x), beyond what exp can hold by Newton's steps on w + log w = x.
    w = np.where(x < 500, lambertw(np.exp(np.minimum(x, 500))).real, x - np.log(x))
    for _ in range(3):
        w *= (1 + x - np.log(w)) / (1 + w)
    return (x - w) / gain


def patch_numbers(P: int, s_star: float, s_dag: float) -> np.ndarray:
    """Pr(n_sub, n_dag), (P + 1, P + 1): subclass and distracting patches of a hard sample (B.1, 5 (b) and 6 (b)).

    n_com ~ Bin(P, s*/P), n_sub ~ Bin(P - n_com, s*/(P - n_com)), n_dag ~ Bin(P - n_sub, s_dag/(P - n_sub)).
    """
    n = np.arange(P + 1)

    def rate(s: float, left: np.ndarray) -> np.ndarray:
        return np.minimum(s / np.maximum(left, 1), 1)

    common = binom.pmf(n, P, s_star / P)
    subclass = (common[:, None] * binom.pmf(n, P - n[:, None], rate(s_star, P - n[:, None]))).sum(0)
    return subclass[:, None] * binom.pmf(n, P - n[:, None], rate(s_dag, P - n[:, None]))


@lru_cache
def irwin_hall(n: int) -> BSpline:
    """Distribution function of a sum of n >= 1 uniforms on [0, 1], within [0, n]: the integral of the cardinal B-spline."""
    return BSpline.basis_element(np.arange(n + 1), extrapolate=False).antiderivative()


def sum_reaches(n: int, low: float, high: float, bound: np.ndarray) -> np.ndarray:
    """Pr(the sum of n uniforms on [low, high] >= bound)."""
    bound = np.asarray(bound, dtype=float)
    if n == 0 or high == low:
        return (n * low >= bound).astype(float)
    at = np.clip((bound - n * low) / (high - low), 0, n)
    # irwin_hall(1) is a step's integral, whose right end B-splines leave out.
    return np.clip(1 - (at if n == 1 else irwin_hall(n)(at)), 0, 1)


def hard_error(
    data: HierarchicalData, subclass: np.ndarray, distractor: np.ndarray, tau: np.ndarray
) -> np.ndarray:
    """Pr(the distractor wins) on a hard sample: the sum over the law of (n_sub, n_dag), alpha_dag integrated; ties are errors.

    A subclass patch (of amplitude 1) is answered by `subclass` in the sample's own superclass, a distractor of amplitude a by
    `distractor` (a - tau)^+ in the other one; what zeta* and the other groups answer is left out.

    Args:
        subclass, distractor, tau: arrays of one shape (...).

    Returns:
        (...), the share of errors.
    """
    subclass, distractor, tau = np.broadcast_arrays(
        *(np.asarray(x, dtype=float) for x in (subclass, distractor, tau))
    )
    out = np.empty(subclass.shape)
    low, high = data.alpha_dag
    for at in np.ndindex(subclass.shape):
        # Only distractors above tau count: a binomial thinned by their share is a binomial.
        least = min(max(low, tau[at]), high)
        heard = (high - least) / (high - low) if high > low else float(low > tau[at])
        law = patch_numbers(data.P, data.s_star, data.s_dag * heard)
        answer = np.arange(data.P + 1) * max(subclass[at], 0.0)
        error = 0.0
        for n_dag in range(data.P + 1):
            if distractor[at] > 0:
                wins = sum_reaches(n_dag, least, high, answer / distractor[at] + n_dag * tau[at])
            else:
                wins = (answer <= 0).astype(float)
            # Without a subclass patch, and where its detectors are silent, nothing is reached: a tie at least.
            error += (law[:, n_dag] * np.where(answer <= 0, 1.0, wins)).sum()
        out[at] = error
    return out


def coarse_hard_error(data: HierarchicalData, kappa_b: float) -> float:
    """`hard_error` of a coarse network with equal detectors whose subclass ones have 1/k of the common ones' displacement."""
    return float(hard_error(data, (1 - 1 / kappa_b) / data.k, 1.0, 1 / kappa_b))


def fine_floor(P: int, s_star: float) -> float:
    """E[(1 - s*/(P - n_com))^(P - n_com)], the share of hard samples without a subclass patch: no labels can help there."""
    return float(patch_numbers(P, s_star, 0.0)[0].sum())


def distraction(data: HierarchicalData, kappa_b: float) -> float:
    """R = k s_dag (E alpha_dag - 1/kappa_b) / (s* (1 - 1/kappa_b)): distractors over subclass patches in a coarse network."""
    return (
        data.k
        * data.s_dag
        * (np.mean(data.alpha_dag) - 1 / kappa_b)
        / (data.s_star * (1 - 1 / kappa_b))
    )
