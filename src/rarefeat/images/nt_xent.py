"""NT-Xent on two views, masks of convolutions, and the objective of each arm."""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional

from rarefeat.config.images import ImageArm
from rarefeat.core.pruning import mask_smallest

Weights = dict[str, Tensor]
"""Tensors by the name of a parameter of the network."""


def similarities(x: Tensor, y: Tensor, tau: float) -> Tensor:
    """Compute the cosines of all projections with one another, over tau.

    Parameters
    ----------
    x, y : Tensor of shape (B, D)
        Projections of the first and of the second views.
    tau : float
        Temperature.

    Returns
    -------
    float32 Tensor of shape (2 B, 2 B)
        Similarities, first views before second ones.
    """
    z = functional.normalize(torch.cat([x, y]).float(), dim=-1)
    return z @ z.T / tau


def nt_xent(logits: Tensor, weights: Tensor | None = None) -> Tensor:
    """Compute NT-Xent: the mean over views of the cross-entropy of their other view.

    Parameters
    ----------
    logits : Tensor of shape (2 B, 2 B)
        Result of `similarities`.
    weights : Tensor of shape (2 B, 2 B), optional
        Softmax weights of another network's similarities, see `softmax_weights`.

    Returns
    -------
    Tensor of shape ()
        The loss. With `weights` the value is not a loss, but its gradient is that of eq. (5):
        sum_s (weights_s - [s is the positive]) d logits_s, the weights held fixed.

    References
    ----------
    Chen et al. 2020 (SimCLR); imbalance_and_pruning, eq. (5).
    """
    views = len(logits)
    itself = torch.eye(views, dtype=torch.bool, device=logits.device)
    positive = torch.arange(views, device=logits.device).roll(views // 2)
    if weights is None:
        return functional.cross_entropy(logits.masked_fill(itself, -torch.inf), positive)
    attracted = logits.gather(1, positive[:, None])[:, 0]
    return ((weights * logits).sum(1) - attracted).mean()


def softmax_weights(logits: Tensor) -> Tensor:
    """Compute the weights of the other views in the softmax of each view.

    Parameters
    ----------
    logits : Tensor of shape (2 B, 2 B)
        Result of `similarities`.

    Returns
    -------
    Tensor of shape (2 B, 2 B)
        Weights, 0 for a view itself, without a gradient.
    """
    itself = torch.eye(len(logits), dtype=torch.bool, device=logits.device)
    return logits.detach().masked_fill(itself, -torch.inf).softmax(-1)


def convolution_weights(weights: Weights) -> Weights:
    """Return the weights of the convolutions by name; only these are pruned."""
    return {name: weight.detach() for name, weight in weights.items() if weight.ndim == 4}


def compute_masks(weights: Weights, arm: ImageArm, scores: Weights | None = None) -> Weights:
    """Compute the masks of an arm: True for the fraction alpha of smallest magnitude.

    Parameters
    ----------
    weights : dict of str to Tensor
        Weights by name; those of the convolutions count.
    arm : ImageArm
        Arm; its `threshold` ranks magnitudes of all layers together ("global") or layer by layer
        ("per_layer").
    scores : dict of str to Tensor, optional
        Numbers that do not depend on the weights, in their shapes, by which `threshold: random`
        prunes as many weights of each layer as "global" would. This control shows whether the
        magnitude matters, at the same fraction of each layer.

    Returns
    -------
    dict of str to bool Tensor
        Mask of each convolution, True where a weight is pruned; empty for an arm without a mask.
    """
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
    """Compute the convolutions of the masked network.

    Parameters
    ----------
    weights : dict of str to Tensor
        Weights by name.
    masks : dict of str to bool Tensor
        Result of `compute_masks`.
    straight_through : bool
        Whether pruned weights get the gradient as if they were not pruned; else they get none.

    Returns
    -------
    dict of str to Tensor
        Masked weights of the convolutions.
    """
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
    """Compute the training objective of an arm on a batch of two views.

    Both views pass through the network as one batch. Exception: "self_damaging" (SDCLR), where the
    first view uses the dense and the second the pruned weights, each with its own batch norms.

    Parameters
    ----------
    project : callable
        Maps (replaced weights, images, branch of the batch norms) to projections.
    weights : dict of str to Tensor
        Weights by name, at least those of the convolutions.
    masks : dict of str to bool Tensor
        Result of `compute_masks`.
    arm : ImageArm
        Arm.
    x, y : Tensor of shape (B, 3, H, W)
        The two views.
    tau : float
        Temperature.

    Returns
    -------
    Tensor of shape ()
        Scalar whose gradient is that of the arm. Under eq. (5) its value is not a loss, see
        `nt_xent`.

    References
    ----------
    Jiang et al. (2021), Self-Damaging Contrastive Learning; imbalance_and_pruning, eq. (5).
    """
    if arm.arm == "self_damaging":
        return nt_xent(
            similarities(project({}, x, 0), project(masked_weights(weights, masks), y, 1), tau)
        )
    both = torch.cat([x, y])
    if not arm.masked:
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
