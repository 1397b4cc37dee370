"""Closed forms of the theory, with which measurements are compared.

Axes: d features. Functions of `eps` take and return an array of numpy or a tensor.
"""

import math
from typing import TypeVar

Values = TypeVar("Values")
"""An array of numpy or a tensor, of shape (d,)."""


def activation_probability(eps: Values, C: float) -> Values:
    """Compute the probability that a feature is active in a sample, eps_j C loglog(d) / d.

    The order of the rate in a token is that of imbalance_and_pruning, Definition 3.1; the law of a
    whole sample is a choice (docs/method/model.md).
    """
    d = len(eps)
    return eps * C * math.log(math.log(d)) / d


def attended_count(L: int, nsr: float, scale: float = 1.0, threshold: float = 0.0) -> float:
    """Compute E[sum_r (a_r - threshold)_+] of the attended coordinates a_r of one active feature.

    The other features are silent. A feature kept by c of L tokens gives such a token the logits
    1 + NSR to itself, 1 to the c - 1 others and 0 to the rest, and a token without it NSR to itself
    and 0 elsewhere, all times `scale`; c - 1 is Binomial(L - 1, 1/2). The inner products of
    different noise tokens, of order sigma^2 sqrt(d1), are neglected.
    """
    total = 0.0
    for c in range(1, L + 1):
        to_itself, to_others = math.exp(scale * (1 + nsr)), (c - 1) * math.exp(scale)
        with_feature = (to_itself + to_others) / (to_itself + to_others + L - c)
        without = c / (c + L - c - 1 + math.exp(scale * nsr)) if c < L else 0.0
        passed = c * max(with_feature - threshold, 0) + (L - c) * max(without - threshold, 0)
        total += math.comb(L - 1, c - 1) / 2 ** (L - 1) * passed
    return total


def pruning_time(d: int, eta: float, C_z: float, alpha: float, eps_min: float) -> float:
    """Compute the steps in which a pruned minority feature catches up: T5 - T4.

    (1 / eps_min - 1) d / (eta alpha eps_min^2 C_z loglog d) with eps_max = 1, where
    T4 = d^1.99 / eta; imbalance_and_pruning, Theorem 3.2 (c) and F.4.
    """
    return (1 / eps_min - 1) * d / (eta * alpha * eps_min**2 * C_z * math.log(math.log(d)))


def stage1_growth(
    eps: Values,
    C: float,
    L: int,
    nsr: float,
    K: int,
    tau: float,
    eta: float,
    lambda_: float,
    scale: float = 1.0,
) -> Values:
    """Compute the factor by which <w_i, M_j> grows in one step of stage 1.

    While ||w|| is small, the softmax weights are all 1/K and BReLU_0 is the identity, so that the
    step is linear, 1 - eta lambda + (eta / tau) (1 - 1/K) p_j E[n]^2, with p_j the activation
    probability and n the attended count. The two views keep their tokens independently, hence the
    square of the mean. Exact when features do not overlap in a sample; imbalance_and_pruning,
    Lemma 3.1, eq. (7).
    """
    signal = activation_probability(eps, C) * attended_count(L, nsr, scale) ** 2
    return 1 - eta * lambda_ + eta / tau * (1 - 1 / K) * signal
