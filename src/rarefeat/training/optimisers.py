"""Optimisers of torch, by name; a built-in one steps the parameters of all replicas at once.

An optimiser of your own is a `torch.optim.Optimizer` that is built with these parameters, and
options of its own.

Parameters
----------
parameters : list of Tensor
    Parameters of the encoder of one replica.
lr : float
    Learning rate of the config.
weight_decay : float
    Weight decay of the config.
"""

from collections.abc import Iterable

import torch
from torch import Tensor
from torch.optim import SGD, Adam, AdamW


def momentum(
    parameters: Iterable[Tensor], lr: float, weight_decay: float, momentum: float = 0.9
) -> torch.optim.Optimizer:
    """Build SGD with momentum."""
    return SGD(parameters, lr=lr, weight_decay=weight_decay, momentum=momentum)


OPTIMISERS = {"sgd": SGD, "momentum": momentum, "adam": Adam, "adamw": AdamW}
"""Optimisers by name."""
