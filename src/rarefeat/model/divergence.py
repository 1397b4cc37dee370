"""Criterion for a diverged training, which must not be interpreted.

Axes: S replicas.
"""

import math

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from rarefeat.model.thresholds import DIVERGED_LOSS_RATIO


def diverged(
    loss: Float[Tensor, " S"], candidates: int, weights: Float[Tensor, "S ..."] | None = None
) -> Bool[Tensor, " S"]:
    """Return which replicas have diverged: not finite, or with a loss above twice log K.

    log K is the loss of an encoder that maps everything to one embedding, a network that has
    learned nothing. The loss is that of the dense network without the l2 term, eq. (1) of
    imbalance_and_pruning.
    """
    lost = ~(loss <= DIVERGED_LOSS_RATIO * math.log(candidates))  # also true for NaN
    if weights is not None:
        lost = lost | ~torch.isfinite(weights).reshape(len(weights), -1).all(1)
    return lost
