"""The three-stage bias schedule: zero until T1, then one of the two rules (Wen & Li 2021, section 2.2; Theorem D.1 (b))."""

import math
from collections.abc import Callable
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from rarefeat.core import user_functions


class BiasContext(NamedTuple):
    """What a bias rule may know of S replicas after the weights have moved."""

    bias: Tensor
    """b_i before the step, (S, m)."""
    weights: Tensor
    """w_i before it, (S, m, p)."""
    norms: Tensor
    """||w_i|| after it, (S, m)."""
    T1: Tensor
    """The step that ended stage 1, (S,); -1 for none yet."""
    step: int
    """How many steps have been taken, with this one."""
    gradient: Callable[[], Tensor]
    """d loss / d b_i, (S, m)."""


BiasRule = Callable[[BiasContext], Tensor]
"""The bias after a step, (S, m)."""


class BiasSchedule(Protocol):
    """`training.bias` of the config (config/encoder.py)."""

    rule: str
    """follow, grow, gradient, or a rule of a user's own (core/user_functions.py)."""
    share: float
    cap: float


def is_stage_one_over(feature_share: Tensor) -> Tensor:
    """Eq. (34): from here on every neuron has at least half of ||w||^2 in span(M), (S, m) -> bool (S,)."""
    return (feature_share >= 0.5).all(-1)


def follow(norms: Tensor, d: int, share: float) -> Tensor:
    """The bias at T1, and ever after under the rule `follow`: share * sqrt(2 log d / d) * ||w_i||, (S, m) -> (S, m)."""
    return share * math.sqrt(2 * math.log(d) / d) * norms


def grow(bias: Tensor, norms: Tensor, next_norms: Tensor, eta: float, d: int, cap: float) -> Tensor:
    """b <- max(b (1 + eta / d), b ||w'|| / ||w||), up to cap / sqrt(d) (Wen & Li's polylog(d) / sqrt(d)), (S, m) -> (S, m)."""
    factor = torch.clamp(
        next_norms / norms.clamp_min(torch.finfo(norms.dtype).tiny), min=1 + eta / d
    )
    return torch.clamp(bias * factor, max=cap / math.sqrt(d))


def make_bias_rule(schedule: BiasSchedule, d: int, eta: float) -> BiasRule:
    """The rule that a schedule names."""

    def gradient(moved: BiasContext) -> Tensor:
        return moved.bias - eta * moved.gradient()

    def scheduled(moved: BiasContext) -> Tensor:
        found = follow(moved.norms, d, schedule.share)
        if schedule.rule == "grow":
            grown = grow(moved.bias, moved.weights.norm(dim=-1), moved.norms, eta, d, schedule.cap)
            found = torch.where((moved.step > moved.T1)[:, None], grown, found)
        return torch.where((moved.T1 >= 0)[:, None], found, moved.bias)

    known = {"follow": scheduled, "grow": scheduled, "gradient": gradient}
    return known.get(schedule.rule) or user_functions.make_user_bias_rule(schedule.rule)
