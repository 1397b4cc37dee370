"""NT-Xent on two views, masks of convolutions, and the objective of each arm.

Axes: B images, V = 2 B views, D coordinates of a projection, H x W pixels.
"""

from collections.abc import Callable

import torch
from jaxtyping import Float, Shaped
from torch import Tensor
from torch.nn import functional

from rarefeat.model.pruning import mask_smallest
from rarefeat.workflow.config.images import ImageArm

Weights = dict[str, Shaped[Tensor, "..."]]
"""Tensors by the name of a parameter of the network."""


def similarities(
    x: Float[Tensor, "B D"], y: Float[Tensor, "B D"], tau: float
) -> Float[Tensor, "V V"]:
    """Compute the cosines of all projections with one another, over tau."""
    z = functional.normalize(torch.cat([x, y]).float(), dim=-1)
    return z @ z.T / tau


def nt_xent(
    logits: Float[Tensor, "V V"], weights: Float[Tensor, "V V"] | None = None
) -> Float[Tensor, ""]:
    """Compute NT-Xent: the mean over views of the cross-entropy of their other view.

    Chen et al. 2020 (SimCLR). With `weights`, those of a masked network's softmax, its gradient is
    that of imbalance_and_pruning, eq. (5).
    """
    views = len(logits)
    itself = torch.eye(views, dtype=torch.bool, device=logits.device)
    positive = torch.arange(views, device=logits.device).roll(views // 2)
    if weights is None:
        return functional.cross_entropy(logits.masked_fill(itself, -torch.inf), positive)
    attracted = logits.gather(1, positive[:, None])[:, 0]
    return ((weights * logits).sum(1) - attracted).mean()


def softmax_weights(logits: Float[Tensor, "V V"]) -> Float[Tensor, "V V"]:
    """Compute the weights of the other views in the softmax of each view."""
    itself = torch.eye(len(logits), dtype=torch.bool, device=logits.device)
    return logits.detach().masked_fill(itself, -torch.inf).softmax(-1)


def convolution_weights(weights: Weights) -> Weights:
    """Return the weights of the convolutions by name; only these are pruned."""
    return {name: weight.detach() for name, weight in weights.items() if weight.ndim == 4}


def compute_masks(weights: Weights, arm: ImageArm, scores: Weights | None = None) -> Weights:
    """Compute the masks of an arm: True for the fraction alpha of smallest magnitude."""
    if not arm.masked:
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
    chunks = flat.split([weight.numel() for weight in convolutions.values()])
    masks = {
        name: chunk.view_as(convolutions[name])
        for name, chunk in zip(convolutions, chunks, strict=True)
    }
    if arm.threshold == "global":
        return masks
    ranks = {
        name: score.flatten().argsort().argsort().view_as(score) for name, score in scores.items()
    }
    return {name: ranks[name] < mask.sum() for name, mask in masks.items()}


def masked_weights(weights: Weights, masks: Weights, straight_through: bool = False) -> Weights:
    """Compute the convolutions of the masked network."""
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
    x: Float[Tensor, "B 3 H W"],
    y: Float[Tensor, "B 3 H W"],
    tau: float,
) -> Float[Tensor, ""]:
    """Compute the training objective of an arm on two views, imbalance_and_pruning, eq. (5).

    Both views pass through the network as one batch, except for "self_damaging" (SDCLR, Jiang et
    al. 2021): the first view uses the dense and the second the pruned weights, each with its own
    batch norms.
    """
    both = torch.cat([x, y])

    def logits(replaced: Weights) -> Float[Tensor, "V V"]:
        return similarities(*project(replaced, both, 0).chunk(2), tau)

    if arm.arm == "self_damaging":
        second = project(masked_weights(weights, masks), y, 1)
        return nt_xent(similarities(project({}, x, 0), second, tau))
    if not arm.masked:
        return nt_xent(logits({}))
    if arm.pruned_update == "straight_through":
        return nt_xent(logits(masked_weights(weights, masks, straight_through=True)))
    with torch.no_grad():
        masked = logits(masked_weights(weights, masks))
    return nt_xent(logits({}), softmax_weights(masked))
