"""Closed forms that measurements are held against."""

import math
from typing import TypeVar

Values = TypeVar("Values")
"""An array of numpy or a tensor."""


def activation_probability(eps: Values, C: float) -> Values:
    """Pr(feature j is active in a sample) = eps_j C loglog(d) / d, (d,)."""
    d = len(eps)
    return eps * C * math.log(math.log(d)) / d


def attended_count(L: int, nsr: float) -> float:
    """E[sum_r of the attended coordinate of one active feature], the other features being silent.

    A feature kept by c of L tokens gives such a token the logits 1 + NSR to itself, 1 to the c - 1 others and 0 to the rest,
    and a token without it NSR to itself and 0 elsewhere; c - 1 is Binomial(L - 1, 1/2). NSR = sigma^2 d1 is the mean of
    ||xi||^2; the inner products of different noise tokens, of order sigma^2 sqrt(d1), are left out.
    """
    total = 0.0
    for c in range(1, L + 1):
        own, other = math.exp(1 + nsr), (c - 1) * math.e
        with_feature = (own + other) / (own + other + L - c)
        without = c / (c + L - c - 1 + math.exp(nsr)) if c < L else 0.0
        total += math.comb(L - 1, c - 1) / 2 ** (L - 1) * (c * with_feature + (L - c) * without)
    return total


def pruning_time(d: int, eta: float, C_z: float, alpha: float, eps_min: float) -> float:
    """Steps that Theorem 3.2 (c) gives a pruned minority feature to catch up (imbalance_and_pruning, F.4).

    T = (1 / eps_min - 1) d / (eta alpha eps_min^2 C_z loglog d) with eps_max = 1: T5 is T4 = d^1.99 / eta plus this.
    """
    return (1 / eps_min - 1) * d / (eta * alpha * eps_min**2 * C_z * math.log(math.log(d)))


def stage1_growth(
    eps: Values, C: float, L: int, nsr: float, K: int, tau: float, eta: float, lambda_: float
) -> Values:
    """Factor by which <w_i, M_j> grows in one step of stage 1, (d,): the closed form behind eq. (7).

    While ||w|| is small the logits are all 1/K and BReLU_0 is the identity, so that the step is linear,
    1 - eta lambda + (eta / tau) (1 - 1/K) p_j E[n]^2, with p_j the activation probability and n the attended count; the two
    views keep their tokens independently, hence the square of the mean. Exact when features do not overlap in a sample.
    """
    signal = activation_probability(eps, C) * attended_count(L, nsr) ** 2
    return 1 - eta * lambda_ + eta / tau * (1 - 1 / K) * signal
