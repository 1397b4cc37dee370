"""NT-Xent on two views, and the gradients that pruning gives it."""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional

from rarefeat.config.images import ImageArm
from rarefeat.core.pruning import mask_smallest

Weights = dict[str, Tensor]


def similarities(x: Tensor, y: Tensor, tau: float) -> Tensor:
    """Cosines over tau of all 2 B projections with one another, (B, D), (B, D) -> (2 B, 2 B)."""
    z = functional.normalize(torch.cat([x, y]).float(), dim=-1)
    return z @ z.T / tau


def nt_xent(logits: Tensor, weights: Tensor | None = None) -> Tensor:
    """NT-Xent (Chen et al. 2020) of `similarities`: the mean over views of the cross-entropy of the other view of the image.

    With `weights`, softmax weights of another network's similarities, the value is not a loss, but its gradient is that of
    imbalance_and_pruning, eq. (5): sum_s (weights_s - [s is the positive]) d logits_s, the weights held fixed.
    """
    views = len(logits)
    own = torch.eye(views, dtype=torch.bool, device=logits.device)
    positive = torch.arange(views, device=logits.device).roll(views // 2)
    if weights is None:
        return functional.cross_entropy(logits.masked_fill(own, -torch.inf), positive)
    attracted = logits.gather(1, positive[:, None])[:, 0]
    return ((weights * logits).sum(1) - attracted).mean()


def softmax_weights(logits: Tensor) -> Tensor:
    """The weights of the other views in the softmax of each, 0 for a view itself, (2 B, 2 B), without a gradient."""
    own = torch.eye(len(logits), dtype=torch.bool, device=logits.device)
    return logits.detach().masked_fill(own, -torch.inf).softmax(-1)


def convolution_weights(weights: Weights) -> Weights:
    """The convolutions' weights, which masks are made of, by name."""
    return {name: weight.detach() for name, weight in weights.items() if weight.ndim == 4}


def compute_masks(weights: Weights, arm: ImageArm, scores: Weights | None = None) -> Weights:
    """What the arm prunes of the convolutions' weights: True for the share alpha of smallest magnitude, of all or by layer.

    Args:
        scores: numbers that know nothing of the weights, in their shapes, by which `threshold: random` takes as many weights of
            each layer as `global` would by magnitude. It says whether the magnitude matters, at the same share of each layer.
    """
    if arm.arm == "dense":
        return {}
    convolutions = {name: weight.abs() for name, weight in convolution_weights(weights).items()}
    if arm.threshold == "per_layer":
        return {
            name: mask_smallest(weight.reshape(1, -1), arm.alpha).view_as(weight)
            for name, weight in convolutions.items()
        }
    flat = mask_smallest(
        torch.cat([weight.flatten() for weight in convolutions.values()])[None], arm.alpha
    )[0]
    parts = flat.split([weight.numel() for weight in convolutions.values()])
    masks = {
        name: part.view_as(convolutions[name])
        for name, part in zip(convolutions, parts, strict=True)
    }
    if arm.threshold == "global":
        return masks
    ranks = {
        name: score.flatten().argsort().argsort().view_as(score) for name, score in scores.items()
    }
    return {name: ranks[name] < mask.sum() for name, mask in masks.items()}


def masked_weights(weights: Weights, masks: Weights, straight_through: bool = False) -> Weights:
    """The convolutions of the masked network. Pruned weights get no gradient, or with `straight_through` that of the rest."""
    masked = {name: weights[name].masked_fill(mask, 0.0) for name, mask in masks.items()}
    if not straight_through:
        return masked
    return {
        name: weights[name] + (weight - weights[name]).detach() for name, weight in masked.items()
    }


def arm_loss(
    project: Callable[[Weights, Tensor, int], Tensor],
    weights: Weights,
    masks: Weights,
    arm: ImageArm,
    x: Tensor,
    y: Tensor,
    tau: float,
) -> Tensor:
    """What an arm descends on a batch of two views.

    Args:
        project: projections of images under the network with some weights replaced and the batch norms of a branch.
        weights: those of the convolutions at least, by name. masks: of `compute_masks`. x, y: the views, (B, 3, H, W) each.

    Both views go through the network as one batch, but for self_damaging (Jiang et al. 2021), where the first view meets the
    dense and the second the pruned weights, each with norms of its own.
    """
    if arm.arm == "self_damaging":
        return nt_xent(
            similarities(project({}, x, 0), project(masked_weights(weights, masks), y, 1), tau)
        )
    both = torch.cat([x, y])
    if arm.arm == "dense":
        return nt_xent(similarities(*project({}, both, 0).chunk(2), tau))
    if arm.pruned_update == "straight_through":
        return nt_xent(
            similarities(
                *project(masked_weights(weights, masks, straight_through=True), both, 0).chunk(2),
                tau,
            )
        )
    with torch.no_grad():
        masked = similarities(*project(masked_weights(weights, masks), both, 0).chunk(2), tau)
    return nt_xent(similarities(*project({}, both, 0).chunk(2), tau), softmax_weights(masked))
