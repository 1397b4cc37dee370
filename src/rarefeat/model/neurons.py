"""Alignment of neurons with the features, and the sets of Definition B.1.

Axes: S replicas, m neurons, p coordinates of a weight, d features, the minority ones last.
Definitions are those of imbalance_and_pruning.
"""

import math

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from rarefeat.model.batch_invariant import matmul
from rarefeat.model.thresholds import ALIGNED_COSINE, GAMMA, PURE_COSINE


def absolute_cosines(
    weights: Float[Tensor, "S m p"], dictionary: Float[Tensor, "S p d"]
) -> Float[Tensor, "S m d"]:
    """Compute |<w_i, M_j>| / ||w_i||."""
    norms = weights.norm(dim=-1, keepdim=True)
    return matmul(weights, dictionary).abs() / norms.clamp_min(torch.finfo(weights.dtype).tiny)


def feature_share(
    weights: Float[Tensor, "S m p"], dictionary: Float[Tensor, "S p d"]
) -> Float[Tensor, "S m"]:
    """Compute ||M^T w_i||^2 / ||w_i||^2, the fraction of a neuron in span(M) of eq. (34)."""
    return absolute_cosines(weights, dictionary).square().sum(-1)


def ordinary_neurons(
    weights: Float[Tensor, "S m p"],
    dictionary: Float[Tensor, "S p d"],
    ratio: float,
    gamma: float = GAMMA,
) -> Bool[Tensor, "S m d"]:
    """Return the ordinary neurons of each feature, M_j of eq. (26)."""
    return _squared_fraction(weights, dictionary) >= 2 * ratio**2 * (1 - gamma) * _log_d_over_d(
        dictionary
    )


def lucky_neurons(
    weights: Float[Tensor, "S m p"],
    dictionary: Float[Tensor, "S p d"],
    ratio: float,
    gamma: float = GAMMA,
) -> Bool[Tensor, "S m d"]:
    """Return the lucky neurons of each feature, M_j^* of eq. (27).

    A lucky neuron is above c1 log d / d in feature j and at most c2 log d / d in every other one.
    """
    fraction = _squared_fraction(weights, dictionary)
    above = fraction >= 2 / ratio**2 * (1 + gamma) * _log_d_over_d(dictionary)
    ordinary_elsewhere = fraction > 2 * ratio**2 * (1 - gamma) * _log_d_over_d(dictionary)
    others = ordinary_elsewhere.sum(-1, keepdim=True) - ordinary_elsewhere.long()
    return above & (others == 0)


def _squared_fraction(
    weights: Float[Tensor, "S m p"], dictionary: Float[Tensor, "S p d"]
) -> Float[Tensor, "S m d"]:
    """Compute <w_i, M_j>^2 / ||M^T w_i||^2."""
    squared = matmul(weights, dictionary).square()
    return squared / squared.sum(-1, keepdim=True)


def _log_d_over_d(dictionary: Float[Tensor, "S p d"]) -> float:
    d = dictionary.shape[-1]
    return math.log(d) / d


def alignment_metrics(
    weights: Float[Tensor, "S m p"], dictionary: Float[Tensor, "S p d"], n_minority: int
) -> dict[str, Float[Tensor, " S"]]:
    """Compute the metrics of alignment with the features."""
    cosines = absolute_cosines(weights, dictionary).double()
    rare = cosines[..., -n_minority:]
    energy = matmul(weights, dictionary).double().square().sum(1)
    frequent_energy = energy[:, :-n_minority].mean(-1)
    return {
        "aligned_neurons": (rare >= ALIGNED_COSINE).sum(1).double().mean(-1),
        "max_alignment": rare.amax(1).mean(-1),
        "majority_alignment": cosines[..., :-n_minority].amax(1).mean(-1),
        "pure_neurons": (cosines > PURE_COSINE).any(-1).sum(-1).double(),
        "pure_minority_neurons": (rare > PURE_COSINE).any(-1).sum(-1).double(),
        "feature_share": cosines.square().sum(-1).mean(-1),
        "energy_ratio": energy[:, -n_minority:].mean(-1) / frequent_energy,
    }


def minority_overlap(
    mask: Bool[Tensor, "S m"] | Bool[Tensor, "S m p"],
    weights: Float[Tensor, "S m p"],
    dictionary: Float[Tensor, "S p d"],
    n_minority: int,
) -> Float[Tensor, " S"]:
    """Compute the fraction of a mask that lies in neurons aligned with a minority feature."""
    aligned = (absolute_cosines(weights, dictionary)[..., -n_minority:] >= ALIGNED_COSINE).any(-1)
    pruned = (mask if mask.dim() == 2 else mask.sum(-1)).double()
    return (pruned * aligned).sum(-1) / pruned.sum(-1)
