"""Masks of the smallest magnitudes, on which all pruning rules build.

Axes: S replicas, n neurons or single weights.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jaxtyping import Bool, Float
    from torch import Tensor


def n_pruned(n: int, alpha: float) -> int:
    """Return floor(alpha n), how many of n a pruning ratio prunes.

    Rounding errors of alpha do not count: 0.1 of 30 is 3.
    """
    return int(alpha * n + 1e-9)


def mask_smallest(magnitude: Float[Tensor, "S n"], alpha: float) -> Bool[Tensor, "S n"]:
    """Return a mask of the floor(alpha n) smallest magnitudes of each row.

    Parameters
    ----------
    magnitude : Tensor of shape (S, n)
        Magnitude or any other score; the smallest are pruned.
    alpha : float
        Pruning ratio in [0, 1].

    Returns
    -------
    bool Tensor of shape (S, n)
        True where pruned. Of equal magnitudes, the one with the lower index is pruned first.
    """
    order = magnitude.argsort(dim=-1, stable=True)
    chosen = order[:, : n_pruned(magnitude.shape[-1], alpha)]
    return magnitude.new_zeros(magnitude.shape).bool().scatter_(-1, chosen, True)
