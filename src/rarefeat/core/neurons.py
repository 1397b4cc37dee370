"""What the neurons have learned: alignment with the features, and the sets of Definition B.1."""

import math

import torch
from torch import Tensor

from rarefeat.core.batch_invariant import matmul
from rarefeat.core.thresholds import ALIGNED_COSINE, GAMMA, PURE_COSINE


def absolute_cosines(weights: Tensor, dictionary: Tensor) -> Tensor:
    """|<w_i, M_j>| / ||w_i||, (S, m, d1), (S, d1, d) -> (S, m, d); 0 for a neuron of norm 0."""
    norms = weights.norm(dim=-1, keepdim=True)
    return matmul(weights, dictionary).abs() / norms.clamp_min(torch.finfo(weights.dtype).tiny)


def feature_share(weights: Tensor, dictionary: Tensor) -> Tensor:
    """||M^T w_i||^2 / ||w_i||^2, (S, m): the share of eq. (34)."""
    return absolute_cosines(weights, dictionary).square().sum(-1)


def ordinary_neurons(
    weights: Tensor, dictionary: Tensor, ratio: float, gamma: float = GAMMA
) -> Tensor:
    """M_j of eq. (26), bool (S, m, d), from the initial weights; ratio = eps_min / eps_max."""
    return _squared_share(weights, dictionary) >= 2 * ratio**2 * (1 - gamma) * _log_d_over_d(
        dictionary
    )


def lucky_neurons(
    weights: Tensor, dictionary: Tensor, ratio: float, gamma: float = GAMMA
) -> Tensor:
    """M_j^* of eq. (27), bool (S, m, d): above c1 log d / d in feature j, and at most c2 log d / d in every other one."""
    share = _squared_share(weights, dictionary)
    above = share >= 2 / ratio**2 * (1 + gamma) * _log_d_over_d(dictionary)
    ordinary_elsewhere = share > 2 * ratio**2 * (1 - gamma) * _log_d_over_d(dictionary)
    others = ordinary_elsewhere.sum(-1, keepdim=True) - ordinary_elsewhere.long()
    return above & (others == 0)


def _squared_share(weights: Tensor, dictionary: Tensor) -> Tensor:
    squared = matmul(weights, dictionary).square()
    return squared / squared.sum(-1, keepdim=True)


def _log_d_over_d(dictionary: Tensor) -> float:
    d = dictionary.shape[-1]
    return math.log(d) / d


def alignment_metrics(weights: Tensor, dictionary: Tensor, minority: int) -> dict[str, Tensor]:
    """Metrics per replica, each (S,); the minority features are the last `minority` columns of the dictionary.

    aligned_neurons and max_alignment are those of Figures 1 and 2 for one minority feature, and their mean over the minority
    features where there are several. majority_alignment is the mean over majority features of the largest cosine.
    """
    cosines = absolute_cosines(weights, dictionary).double()
    rare = cosines[..., -minority:]
    return {
        "aligned_neurons": (rare >= ALIGNED_COSINE).sum(1).double().mean(-1),
        "max_alignment": rare.amax(1).mean(-1),
        "majority_alignment": cosines[..., :-minority].amax(1).mean(-1),
        "pure_neurons": (cosines > PURE_COSINE).any(-1).sum(-1).double(),
        "pure_minority_neurons": (rare > PURE_COSINE).any(-1).sum(-1).double(),
        "feature_share": cosines.square().sum(-1).mean(-1),
    }


def minority_overlap(mask: Tensor, weights: Tensor, dictionary: Tensor, minority: int) -> Tensor:
    """Share of what is pruned, bool (S, m) or (S, m, p), that lies in neurons aligned (|cos| >= 0.3) with a minority feature.

    (S,); NaN where nothing is pruned.
    """
    aligned = (absolute_cosines(weights, dictionary)[..., -minority:] >= ALIGNED_COSINE).any(-1)
    pruned = (mask if mask.dim() == 2 else mask.sum(-1)).double()
    return (pruned * aligned).sum(-1) / pruned.sum(-1)
