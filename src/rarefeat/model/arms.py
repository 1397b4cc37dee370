"""Training arms: the pruning rule, name, label and description of each.

An arm that is built in is a function of a `PruningContext` and an entry of ARMS; config, tables
and figures read it there. A user-defined arm is called MODULE:FUNCTION after a function in
a file in the working directory (model/own_code.py).
Axes: S replicas, K pairs of a batch, m neurons, p coordinates of a weight, d features.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from rarefeat.model import own_code
from rarefeat.model.pruning import mask_smallest
from rarefeat.model.thresholds import PURE_COSINE

# torch takes a second to import, and the config, tables and figures read ARMS without it.
if TYPE_CHECKING:
    import torch
    from jaxtyping import Bool, Float
    from torch import Tensor

    from rarefeat.model.activation_moments import Moments


class PruningContext(NamedTuple):
    """Training state of S replicas that a pruning rule receives before a step.

    A rule maps it to a bool mask of shape (S, m), whole neurons, or (S, m, p), single weights.
    """

    weights: Float[Tensor, "S m p"]
    """Weights w_i in the coordinates of the simulator, of shape (S, m, p)."""
    dictionary: Float[Tensor, "S p d"]
    """Features as columns, of shape (S, p, d). Only oracle rules may read it."""
    n_minority: int
    """Number of minority features; they are the last columns of the dictionary."""
    alpha: float = 0.0
    """Pruning ratio of the arm."""
    draw: Float[Tensor, "S m"] | None = None
    """Uniform numbers of shape (S, m), drawn once for a whole training.

    A rule that prunes the smallest of them prunes the same neurons at every step.
    """
    bias: Float[Tensor, "S m"] | None = None
    """Biases b_i, of shape (S, m)."""
    f_x: Float[Tensor, "S K m"] | None = None
    """Embeddings of the first views of the batch, of shape (S, K, m)."""
    f_y: Float[Tensor, "S K m"] | None = None
    """Embeddings of the second views of the batch, of shape (S, K, m)."""
    moments: Moments | None = None
    """Running means of activation statistics, (S, m) each; None unless the arm requests them."""
    step: int = 0
    """Step number, counted from 0."""
    generators: Sequence[torch.Generator] = ()
    """Source of randomness of each replica, for this arm alone."""

    @property
    def norms(self) -> Float[Tensor, "S m"]:
        """Norm ||w_i|| of each neuron, of shape (S, m)."""
        return self.weights.norm(dim=-1)

    @property
    def cosines(self) -> Float[Tensor, "S m d"]:
        """Absolute cosines |<w_i, M_j>| / ||w_i||, of shape (S, m, d)."""
        from rarefeat.model.neurons import absolute_cosines

        return absolute_cosines(self.weights, self.dictionary)


Rule = Callable[[PruningContext], "Tensor"]
"""Maps the state to a mask, True where pruned: bool (S, m), neurons, or (S, m, p), weights."""


class ArmSpec(NamedTuple):
    """Declaration of an arm."""

    name: str
    """Name in the config and in tables."""
    label: str
    """Name in figures."""
    description: str
    """Description in the docs and tables, without a full stop."""
    rule: Rule | None = None
    """Pruning rule; None for an arm without a mask."""
    ratio: bool | None = False
    """Whether the arm has a pruning ratio alpha; None if it is optional."""
    single_weights: bool = False
    """Whether its mask is of single weights in R^d1, which only the simulator `direct` has."""
    trained: bool = True
    """Whether the encoder is trained."""
    moments: bool = False
    """Whether its rule may read running means, which take time to compute."""


def mask_smallest_norms(context: PruningContext) -> Bool[Tensor, "S m"]:
    """Mask the floor(alpha m) neurons with the smallest norm, Algorithm 1."""
    return mask_smallest(context.norms, context.alpha)


def mask_largest_norms(context: PruningContext) -> Bool[Tensor, "S m"]:
    """Mask the floor(alpha m) neurons with the largest norm, a control."""
    return mask_smallest(-context.norms, context.alpha)


def mask_random_neurons(context: PruningContext) -> Bool[Tensor, "S m"]:
    """Mask floor(alpha m) neurons drawn at random once, a control that ignores the weights."""
    return mask_smallest(context.draw, context.alpha)


def mask_smallest_weights(context: PruningContext) -> Bool[Tensor, "S m p"]:
    """Mask the floor(alpha m p) single weights with the smallest magnitude in the layer."""
    return mask_smallest(context.weights.abs().flatten(1), context.alpha).view_as(context.weights)


def mask_oracle_all(context: PruningContext) -> Bool[Tensor, "S m"]:
    """Mask every minority neuron, at any norm: the largest set that Theorem 3.2 can mean."""
    return is_minority_neuron(context.cosines, context.n_minority)


def mask_oracle_nearest(context: PruningContext) -> Bool[Tensor, "S m"]:
    """Mask the floor(alpha m) neurons nearest to a minority feature, however far from it.

    This oracle acts also where no neuron has learned a minority feature.
    """
    return mask_smallest(-context.cosines[..., -context.n_minority :].amax(-1), context.alpha)


def is_minority_neuron(
    cosines: Float[Tensor, "S m d"], n_minority: int, threshold: float = 0.5
) -> Bool[Tensor, "S m"]:
    """Return which neurons have their largest absolute cosine to a minority feature."""
    largest, feature = cosines.max(-1)
    return (largest > threshold) & (feature >= cosines.shape[-1] - n_minority)


def mask_oracle_gated(context: PruningContext) -> Bool[Tensor, "S m"]:
    """Mask the minority neurons below the mean norm of the neurons pure in a majority feature.

    Theorem 3.2, Remark 1: pruned neurons grow until their magnitude reaches that of the next
    feature.
    """
    norms, cosines = context.norms, context.cosines
    pure = (cosines[..., : -context.n_minority] > PURE_COSINE).any(-1)
    level = (norms * pure).sum(-1, keepdim=True) / pure.sum(-1, keepdim=True)
    return is_minority_neuron(cosines, context.n_minority) & (norms < level)


def mask_oracle_partial(context: PruningContext) -> Bool[Tensor, "S m"]:
    """Mask the smaller half, rounded down, of the minority neurons.

    Theorem F.1 prunes P, alpha m <= |M_j*| of them; the remaining ones keep the feature in the
    logits.
    """
    aligned = mask_oracle_all(context)
    norms = context.norms.masked_fill(~aligned, math.inf)
    rank = norms.argsort(dim=-1, stable=True).argsort(dim=-1, stable=True)
    return aligned & (rank < aligned.sum(-1, keepdim=True) // 2)


class ArmRegistry(dict[str, ArmSpec]):
    """Arms by name; a user-defined arm is made when it is looked up."""

    def __missing__(self, name: str) -> ArmSpec:
        """Make the declaration of a user-defined arm."""
        rule = own_code.OwnRule(name, own_code.check_mask)
        return ArmSpec(name, display_name(name), name, rule, ratio=None, moments=True)


def display_name(name: str) -> str:
    """Return the human-readable name of an arm, without MODULE: and with blanks for `_`."""
    return name.rpartition(":")[2].replace("_", " ")


def is_arm(name: str) -> bool:
    """Return whether an arm may have this name."""
    return name in ARMS or own_code.is_own(name)


ARMS = ArmRegistry(
    (arm.name, arm)
    for arm in (
        ArmSpec("dense", "dense", "Algorithm 1 without a mask"),
        ArmSpec(
            "pruned_neuron", "pruned by neuron",
            "the fraction $\\alpha$ of neurons with the smallest norm, at every step",
            mask_smallest_norms, ratio=True,
        ),
        ArmSpec(
            "random_neuron", "random neurons", "control: as many neurons, drawn at random once",
            mask_random_neurons, ratio=True,
        ),
        ArmSpec(
            "largest_neuron", "largest neurons",
            "control: as many neurons, those with the largest norm",
            mask_largest_norms, ratio=True,
        ),
        ArmSpec(
            "pruned_weight", "pruned by weight",
            "the fraction $\\alpha$ of single weights with the smallest magnitude",
            mask_smallest_weights, ratio=True, single_weights=True,
        ),
        ArmSpec(
            "oracle_all", "oracle, every aligned neuron",
            "every neuron of the rare feature, the largest set that Theorem 3.2 can mean",
            mask_oracle_all,
        ),
        ArmSpec(
            "oracle_gated", "oracle, until the majority's norm",
            "of these, neurons smaller than those of the other features",
            mask_oracle_gated,
        ),
        ArmSpec(
            "oracle_partial", "oracle, the smaller half", "of these, the smaller half",
            mask_oracle_partial,
        ),
        ArmSpec(
            "oracle_nearest", "oracle, the nearest neurons",
            "the fraction $\\alpha$ of neurons nearest to a rare feature, however far",
            mask_oracle_nearest, ratio=True,
        ),
        ArmSpec(
            "initial", "at initialisation", "no training: $W(0)$", trained=False,
        ),
        ArmSpec(
            "ideal", "ideal encoder", "the dictionary itself", trained=False,
        ),
    )
)  # fmt: skip
"""All arms by name."""
