"""Masks over the first layer (Algorithm 1): True where a weight is pruned.

A mask has shape (S, m, 1), whole neurons, or (S, m, d1), single weights.
"""

import torch
from torch import Tensor

from rarefeat.core.definitions import PURE
from rarefeat.core.neurons import absolute_cosines


def smallest(magnitude: Tensor, alpha: float) -> Tensor:
    """The floor(alpha n) smallest of n magnitudes in each row, (S, n) -> bool (S, n); ties go to the lower index."""
    count = int(alpha * magnitude.shape[-1] + 1e-9)
    order = torch.argsort(magnitude, dim=-1, stable=True)
    return torch.zeros_like(magnitude, dtype=torch.bool).scatter_(-1, order[:, :count], True)


def neuron_mask(weights: Tensor, alpha: float) -> Tensor:
    """The share alpha of neurons with the smallest norm, (S, m, d1) -> (S, m, 1)."""
    return smallest(weights.norm(dim=-1), alpha)[..., None]


def largest_mask(weights: Tensor, alpha: float) -> Tensor:
    """The share alpha of neurons with the largest norm, a control of neuron_mask: (S, m, d1) -> (S, m, 1)."""
    return smallest(-weights.norm(dim=-1), alpha)[..., None]


def random_mask(scores: Tensor, alpha: float) -> Tensor:
    """The share alpha of neurons with the smallest of scores that know nothing of the weights, (S, m) -> (S, m, 1).

    Another control: with one draw of scores for a training, it is the same neurons at every step.
    """
    return smallest(scores, alpha)[..., None]


def weight_mask(weights: Tensor, alpha: float) -> Tensor:
    """The share alpha of single weights with the smallest magnitude in the layer, (S, m, d1) -> (S, m, d1)."""
    return smallest(weights.abs().flatten(1), alpha).view_as(weights)


def oracle_mask(weights: Tensor, dictionary: Tensor, minority: int, threshold: float = 0.5) -> Tensor:
    """Every neuron of the minority, (S, m, 1): the largest set that Theorem 3.2 can mean, at any norm.

    Neurons whose largest absolute cosine is to one of the `minority` last features and above `threshold`.
    """
    cosines = absolute_cosines(weights, dictionary)
    largest, feature = cosines.max(-1)
    return ((largest > threshold) & (feature >= cosines.shape[-1] - minority))[..., None]


def oracle_gated_mask(weights: Tensor, dictionary: Tensor, minority: int) -> Tensor:
    """Of oracle_mask those below the mean norm of the neurons pure in a majority feature, (S, m, 1).

    Theorem 3.2, Remark 1: they grow until their magnitude reaches that of the next feature. Without a pure majority neuron
    there is nothing to grow up to, and nothing is pruned.
    """
    norms = weights.norm(dim=-1)
    cosines = absolute_cosines(weights, dictionary)
    pure = (cosines[..., :-minority] > PURE).any(-1)
    level = (norms * pure).sum(-1, keepdim=True) / pure.sum(-1, keepdim=True)
    return oracle_mask(weights, dictionary, minority) & (norms < level)[..., None]


def oracle_partial_mask(weights: Tensor, dictionary: Tensor, minority: int) -> Tensor:
    """The smaller half, rounded down, of oracle_mask, (S, m, 1).

    Theorem F.1 prunes P, alpha m <= |M_j*| of the minority's neurons; those that are left keep the feature in the logits.
    """
    aligned = oracle_mask(weights, dictionary, minority)[..., 0]
    norms = weights.norm(dim=-1).masked_fill(~aligned, torch.inf)
    rank = norms.argsort(dim=-1, stable=True).argsort(dim=-1, stable=True)
    return (aligned & (rank < aligned.sum(-1, keepdim=True) // 2))[..., None]


def mask_of(
    arm: str, alpha: float, weights: Tensor, dictionary: Tensor, minority: int, scores: Tensor | None = None
) -> Tensor | None:
    """What an arm prunes at these weights: True where pruned, (S, m, 1) or (S, m, p); None for an arm without a mask.

    Args:
        scores: (S, m), one draw for each training, for the arm `random_neuron`.
    """
    match arm:
        case "pruned_neuron":
            return neuron_mask(weights, alpha)
        case "largest_neuron":
            return largest_mask(weights, alpha)
        case "random_neuron":
            return random_mask(scores, alpha)
        case "pruned_weight":
            return weight_mask(weights, alpha)
        case "oracle_all":
            return oracle_mask(weights, dictionary, minority)
        case "oracle_gated":
            return oracle_gated_mask(weights, dictionary, minority)
        case "oracle_partial":
            return oracle_partial_mask(weights, dictionary, minority)
    return None
