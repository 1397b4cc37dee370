"""The three-stage bias schedule: zero until T1, then one of the two rules (Wen & Li 2021, section 3; Theorem D.1 (b))."""

import math

import torch
from torch import Tensor


def stage_one_over(feature_share: Tensor) -> Tensor:
    """Eq. (34): from here on every neuron has at least half of ||w||^2 in span(M), (S, m) -> bool (S,)."""
    return (feature_share >= 0.5).all(-1)


def follow(norms: Tensor, d: int, share: float) -> Tensor:
    """The bias at T1, and ever after under the rule `follow`: share * sqrt(2 log d / d) * ||w_i||, (S, m) -> (S, m)."""
    return share * math.sqrt(2 * math.log(d) / d) * norms


def grow(bias: Tensor, norms: Tensor, next_norms: Tensor, eta: float, d: int, cap: float) -> Tensor:
    """b <- max(b (1 + eta / d), b ||w'|| / ||w||), up to cap / sqrt(d) (Wen & Li's polylog(d) / sqrt(d)), (S, m) -> (S, m)."""
    factor = torch.clamp(next_norms / norms.clamp_min(torch.finfo(norms.dtype).tiny), min=1 + eta / d)
    return torch.clamp(bias * factor, max=cap / math.sqrt(d))
