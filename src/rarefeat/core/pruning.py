"""Masks over the first layer (Algorithm 1): True where a weight is pruned.

A mask has shape (S, m, 1), whole neurons, or (S, m, d1), single weights.
"""

import torch
from torch import Tensor

from rarefeat.core.neurons import absolute_cosines


def smallest(magnitude: Tensor, alpha: float) -> Tensor:
    """The floor(alpha n) smallest of n magnitudes in each row, (S, n) -> bool (S, n); ties go to the lower index."""
    count = int(alpha * magnitude.shape[-1] + 1e-9)
    order = torch.argsort(magnitude, dim=-1, stable=True)
    return torch.zeros_like(magnitude, dtype=torch.bool).scatter_(-1, order[:, :count], True)


def neuron_mask(weights: Tensor, alpha: float) -> Tensor:
    """The share alpha of neurons with the smallest norm, (S, m, d1) -> (S, m, 1)."""
    return smallest(weights.norm(dim=-1), alpha)[..., None]


def weight_mask(weights: Tensor, alpha: float) -> Tensor:
    """The share alpha of single weights with the smallest magnitude in the layer, (S, m, d1) -> (S, m, d1)."""
    return smallest(weights.abs().flatten(1), alpha).view_as(weights)


def oracle_mask(weights: Tensor, dictionary: Tensor, minority: int, threshold: float = 0.5) -> Tensor:
    """The set that Theorem 3.2 assumes, (S, m, 1).

    Neurons whose largest absolute cosine is to one of the `minority` last features and above `threshold`.
    """
    cosines = absolute_cosines(weights, dictionary)
    largest, feature = cosines.max(-1)
    return ((largest > threshold) & (feature >= cosines.shape[-1] - minority))[..., None]


def mask_of(arm: str, alpha: float, weights: Tensor, dictionary: Tensor, minority: int) -> Tensor | None:
    """What an arm prunes at these weights: True where pruned, (S, m, 1) or (S, m, p); None for an arm without a mask."""
    match arm:
        case "pruned_neuron":
            return neuron_mask(weights, alpha)
        case "pruned_weight":
            return weight_mask(weights, alpha)
        case "oracle":
            return oracle_mask(weights, dictionary, minority)
    return None
