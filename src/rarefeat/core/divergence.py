"""When a training is not to be read: its weights or its loss have left what the objective can mean."""

import math

import torch
from torch import Tensor

from rarefeat.core.thresholds import DIVERGED_LOSS_RATIO


def diverged(loss: Tensor, candidates: int, weights: Tensor | None = None) -> Tensor:
    """Whether replicas have diverged, bool (S,): loss or weights not finite, or the loss above twice log K.

    log K is the loss of an encoder that maps everything to the same: a network that has learned nothing. The l2 term, and a
    network under a mask, do not enter: what counts is the loss of the whole network, eq. (1) of imbalance_and_pruning.

    Args:
        loss: (S,), unmasked InfoNCE in nat. candidates: K, the positive and its negatives. weights: (S, ...), if at hand.
    """
    lost = ~(loss <= DIVERGED_LOSS_RATIO * math.log(candidates))  # also true for NaN
    if weights is not None:
        lost = lost | ~torch.isfinite(weights).reshape(len(weights), -1).all(1)
    return lost
