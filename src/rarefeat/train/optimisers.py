"""Optimisers of torch, by name; one steps the parameters of all replicas at once.

They compute each entry by itself, so that replicas stay apart; one of the user's must, too. It is
built by `NAME(parameters, lr=..., weight_decay=..., ...)`.
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
