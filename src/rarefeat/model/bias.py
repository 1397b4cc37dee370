"""Bias schedule in three stages: zero until T1, then one of two rules.

Wen & Li 2021, section 2.2; imbalance_and_pruning, Theorem D.1 (b) and eq. (34). A bias that is
learned by gradient descent from the start, or a rule of the user, can replace the schedule.
Axes: S replicas, m neurons, p coordinates of a weight.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from rarefeat.model.own_code import OwnRule, check_bias


class BiasContext(NamedTuple):
    """Training state of S replicas that a bias rule receives after the weights of a step."""

    bias: Float[Tensor, "S m"]
    """b_i before the step, of shape (S, m)."""
    weights: Float[Tensor, "S m p"]
    """w_i before the step, of shape (S, m, p)."""
    norms: Float[Tensor, "S m"]
    """||w_i|| after the step, of shape (S, m)."""
    T1: Int64[Tensor, " S"]
    """Step that ended stage 1, of shape (S,); -1 while stage 1 lasts."""
    step: int
    """Number of steps taken, including this one."""
    gradient: Callable[[], Float[Tensor, "S m"]]
    """Computes d loss / d b_i, of shape (S, m)."""


BiasRule = Callable[[BiasContext], Tensor]
"""Maps the state of a step to the bias after it, of shape (S, m)."""


def is_stage_one_over(feature_share: Float[Tensor, "S m"]) -> Bool[Tensor, " S"]:
    """Return whether every neuron has at least half of ||w||^2 in span(M), eq. (34)."""
    return (feature_share >= 0.5).all(-1)


def follow(norms: Float[Tensor, "*S m"], d: int, scale: float) -> Float[Tensor, "*S m"]:
    """Return the bias of the rule `follow`, scale * sqrt(2 log d / d) * ||w_i||.

    The bias at T1 has this value under the rule `grow` as well.
    """
    return scale * math.sqrt(2 * math.log(d) / d) * norms


def grow(
    bias: Float[Tensor, "*S m"],
    norms: Float[Tensor, "*S m"],
    next_norms: Float[Tensor, "*S m"],
    eta: float,
    d: int,
    cap: float,
) -> Float[Tensor, "*S m"]:
    """Return min(max(b (1 + eta / d), b ||w'|| / ||w||), cap / sqrt(d)), the rule `grow`.

    Wen & Li 2021, section 2.2, with polylog(d) / sqrt(d) as cap; eq. (70) of Liao et al. has none.
    """
    factor = torch.clamp(
        next_norms / norms.clamp_min(torch.finfo(norms.dtype).tiny), min=1 + eta / d
    )
    return torch.clamp(bias * factor, max=cap / math.sqrt(d))


def make_bias_rule(schedule: Any, d: int, eta: float) -> BiasRule:
    """Make the bias rule that a schedule names, the section `training.bias` of the config."""

    def gradient(context: BiasContext) -> Float[Tensor, "S m"]:
        return context.bias - eta * context.gradient()

    def scheduled(context: BiasContext) -> Float[Tensor, "S m"]:
        bias = follow(context.norms, d, schedule.share)
        if schedule.rule == "grow":
            norms = context.weights.norm(dim=-1)
            grown = grow(context.bias, norms, context.norms, eta, d, schedule.cap)
            bias = torch.where((context.step > context.T1)[:, None], grown, bias)
        return torch.where((context.T1 >= 0)[:, None], bias, context.bias)

    rules = {"follow": scheduled, "grow": scheduled, "gradient": gradient}
    return rules.get(schedule.rule) or OwnRule(schedule.rule, check_bias)
