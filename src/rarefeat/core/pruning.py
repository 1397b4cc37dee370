"""What magnitude pruning counts: the smallest of some numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor


def n_pruned(n: int, alpha: float) -> int:
    """floor(alpha n), how many of n a ratio prunes; 0.1 of 30 is 3, whatever the last bit of 0.1 says."""
    return int(alpha * n + 1e-9)


def mask_smallest(magnitude: Tensor, alpha: float) -> Tensor:
    """The floor(alpha n) smallest of n magnitudes in each row, (S, n) -> bool (S, n); ties go to the lower index."""
    order = magnitude.argsort(dim=-1, stable=True)
    chosen = order[:, : n_pruned(magnitude.shape[-1], alpha)]
    return magnitude.new_zeros(magnitude.shape).bool().scatter_(-1, chosen, True)
