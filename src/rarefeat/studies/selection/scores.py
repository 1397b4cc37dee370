"""Scores of neurons that know no dictionary: from one batch of embeddings, or a running mean over steps of what they average.

A rule prunes the lowest scores first. Definitions and reasons: docs/method/selection.md.
"""

import torch
from torch import Tensor

from rarefeat.core.activation_moments import Moments
from rarefeat.core.theory_metrics import auc_of_smaller_norm

SILENT_LAST = torch.finfo(torch.float32).max
"""A rate or a residual of a silent neuron, of which neither says anything."""


def effective_rate(mean: Tensor, mean_of_square: Tensor) -> Tensor:
    """(E a)^2 / E a^2, (S, m): the frequency of an `a` that is one value or else 0; SILENT_LAST where it is always 0."""
    return torch.where(mean_of_square > 0, mean.square() / mean_of_square, SILENT_LAST)


def compute_score(name: str, of: Moments, draw: Tensor) -> Tensor:
    """A score of every neuron, (S, m).

    A silent neuron, of which a rate or a residual says nothing, comes last.

    Args:
        draw: (S, m), uniform, one for each training, for `random`.
    """
    match name:
        case "norm":
            return of.norm
        case "firing_rate":
            return of.fires
        case "contribution":
            return of.agreement
        case "residual":
            # The largest first: what is not yet told apart.
            return torch.where(of.fires > 0, -of.residual / of.fires, SILENT_LAST)
        case "growth":
            # The largest first: what still grows.
            return -of.growth
        case "effective_rate":
            return effective_rate(of.second, of.fourth)
        case "hoyer_rate":
            return effective_rate(of.first, of.second)
        case "paired_rate":
            return effective_rate(of.agreement, of.agreement_squared)
        case "random":
            return draw
    raise ValueError(f"no score {name!r}")


def evaluate_score(values: Tensor, wanted: Tensor) -> tuple[float, float]:
    """How a score of one replica finds the wanted neurons, (m,), bool (m,): AUC, and precision at their number.

    Both NaN where no neuron, or every one, is wanted. Ties go to the lower index in the precision, and count half in the AUC.
    """
    auc = auc_of_smaller_norm(values, wanted)
    if auc != auc:
        return auc, auc
    return auc, wanted[values.argsort(stable=True)[: int(wanted.sum())]].double().mean().item()
