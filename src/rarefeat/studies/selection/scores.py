"""Scores by which rules choose neurons to prune, without knowledge of the dictionary.

They are computed from moments of one batch of embeddings, or from running means of moments over
steps. A rule prunes the lowest scores first. Definitions and reasons: docs/method/selection.md.
Axes: S replicas, m neurons.
"""

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from rarefeat.model.activation_moments import Moments
from rarefeat.model.theory_metrics import auc_of_smaller_norm

SILENT_LAST = torch.finfo(torch.float32).max
"""Score of a silent neuron under rules that are not defined for it."""


def effective_rate(
    mean: Float[Tensor, "S m"], mean_of_square: Float[Tensor, "S m"]
) -> Float[Tensor, "S m"]:
    """Compute (E a)^2 / E a^2, the frequency of an `a` of one value; SILENT_LAST if it is 0."""
    return torch.where(mean_of_square > 0, mean.square() / mean_of_square, SILENT_LAST)


def compute_score(
    name: str, moments: Moments, draw: Float[Tensor, "S m"] | None
) -> Float[Tensor, "S m"]:
    """Compute a score of every neuron; `draw` are the uniform draws of the score `random`."""
    match name:
        case "norm":
            return moments.norm
        case "firing_rate":
            return moments.fires
        case "contribution":
            return moments.agreement
        case "residual":
            # Negative: the samples that the loss separates least come first.
            return torch.where(moments.fires > 0, -moments.residual / moments.fires, SILENT_LAST)
        case "growth":
            # Negative: the neurons that grow most come first.
            return -moments.growth
        case "effective_rate":
            return effective_rate(moments.second, moments.fourth)
        case "hoyer_rate":
            return effective_rate(moments.first, moments.second)
        case "paired_rate":
            return effective_rate(moments.agreement, moments.agreement_squared)
        case "random":
            return draw
    raise ValueError(f"unknown score {name!r}")


def evaluate_score(
    values: Float[Tensor, " m"], is_target: Bool[Tensor, " m"]
) -> tuple[float, float]:
    """Return AUC and precision at their number of the lowest scores for the target neurons."""
    auc = auc_of_smaller_norm(values, is_target)
    if auc != auc:
        return auc, auc
    first = values.argsort(stable=True)[: int(is_target.sum())]
    return auc, is_target[first].double().mean().item()
