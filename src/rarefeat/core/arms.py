"""The arms: what each prunes at a step, and what it is called, drawn and described as.

One that is built in is a function of what a rule may see, and a line in ARMS; config, tables, figures and glossary read that.
A user's own is MODULE:FUNCTION, a function of a file in the working directory (core/user_functions.py), and is an arm under that name.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from rarefeat.core import user_functions
from rarefeat.core.pruning import mask_smallest
from rarefeat.core.thresholds import PURE_COSINE

# Without torch, which takes a second to import: the config, tables and figures read ARMS.
if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from rarefeat.core.activation_moments import Moments


class PruningContext(NamedTuple):
    """What a rule may know of S replicas at a step, before the step changes them."""

    weights: Tensor
    """w_i in the simulator's coordinates, (S, m, p)."""
    dictionary: Tensor
    """The features as columns, (S, p, d), which no rule but an oracle can know."""
    minority: int
    """How many features, the last ones, are rare."""
    alpha: float = 0.0
    """The arm's pruning ratio."""
    draw: Tensor | None = None
    """Uniform, (S, m), one draw for a whole training: a rule that takes the smallest prunes the same neurons at every step."""
    bias: Tensor | None = None
    """b_i, (S, m)."""
    f_x: Tensor | None = None
    """Embeddings of the batch's first views, (S, K, m)."""
    f_y: Tensor | None = None
    """And of the second ones."""
    moments: Moments | None = None
    """Running means of what the neurons answer, (S, m) each (core/activation_moments.py), for the arms that may read them."""
    step: int = 0
    """Counted from 0."""
    generators: Sequence[torch.Generator] = ()
    """One for each replica, of this rule alone."""

    @property
    def norms(self) -> Tensor:
        """||w_i||, (S, m)."""
        return self.weights.norm(dim=-1)

    @property
    def cosines(self) -> Tensor:
        """|<w_i, M_j>| / ||w_i||, (S, m, d)."""
        from rarefeat.core.neurons import absolute_cosines

        return absolute_cosines(self.weights, self.dictionary)


Rule = Callable[[PruningContext], "Tensor"]
"""What is pruned: bool (S, m), whole neurons, or bool (S, m, p), single weights; True where it is."""


class ArmStyle(NamedTuple):
    """How an arm is drawn in every figure: as matplotlib's colour, marker and line style."""

    colour: str
    marker: str
    dash: Any = "-"


class ArmSpec(NamedTuple):
    """An arm by its name."""

    name: str
    label: str
    """What figures call it."""
    description: str
    rule: Rule | None = None
    """None for an arm without a mask."""
    ratio: bool | None = False
    """Whether it has a pruning ratio alpha; None where it may have one."""
    single_weights: bool = False
    """Whether its mask is of single weights in R^d1, which only the simulator `direct` has."""
    trained: bool = True
    moments: bool = False
    """Whether its rule may read running means, which cost time to keep."""
    look: ArmStyle | None = None
    """None for the next look that is free."""


def mask_smallest_norms(seen: PruningContext) -> Tensor:
    """The share alpha of the neurons, those with the smallest norm (Algorithm 1)."""
    return mask_smallest(seen.norms, seen.alpha)


def mask_largest_norms(seen: PruningContext) -> Tensor:
    """The share alpha with the largest norm, a control."""
    return mask_smallest(-seen.norms, seen.alpha)


def mask_random_neurons(seen: PruningContext) -> Tensor:
    """The share alpha with the smallest of numbers that know nothing of the weights: another control."""
    return mask_smallest(seen.draw, seen.alpha)


def mask_smallest_weights(seen: PruningContext) -> Tensor:
    """The share alpha of single weights with the smallest magnitude in the layer."""
    return mask_smallest(seen.weights.abs().flatten(1), seen.alpha).view_as(seen.weights)


def mask_oracle_all(seen: PruningContext) -> Tensor:
    """Every neuron of the minority: the largest set that Theorem 3.2 can mean, at any norm."""
    return is_minority_neuron(seen.cosines, seen.minority)


def mask_oracle_nearest(seen: PruningContext) -> Tensor:
    """The alpha m neurons nearest to the minority, however far from it: a mask that acts where no neuron has found it."""
    return mask_smallest(-seen.cosines[..., -seen.minority :].amax(-1), seen.alpha)


def is_minority_neuron(cosines: Tensor, minority: int, threshold: float = 0.5) -> Tensor:
    """Neurons whose largest absolute cosine is to a minority feature and above the threshold, (S, m, d) -> bool (S, m)."""
    largest, feature = cosines.max(-1)
    return (largest > threshold) & (feature >= cosines.shape[-1] - minority)


def mask_oracle_gated(seen: PruningContext) -> Tensor:
    """Of `mask_oracle_all` those below the mean norm of the neurons pure in a majority feature.

    Theorem 3.2, Remark 1: they grow until their magnitude reaches that of the next feature. Without a pure majority neuron
    there is nothing to grow up to, and nothing is pruned.
    """
    norms, cosines = seen.norms, seen.cosines
    pure = (cosines[..., : -seen.minority] > PURE_COSINE).any(-1)
    level = (norms * pure).sum(-1, keepdim=True) / pure.sum(-1, keepdim=True)
    return is_minority_neuron(cosines, seen.minority) & (norms < level)


def mask_oracle_partial(seen: PruningContext) -> Tensor:
    """The smaller half, rounded down, of `mask_oracle_all`.

    Theorem F.1 prunes P, alpha m <= |M_j*| of the minority's neurons; those that are left keep the feature in the logits.
    """
    aligned = mask_oracle_all(seen)
    norms = seen.norms.masked_fill(~aligned, math.inf)
    rank = norms.argsort(dim=-1, stable=True).argsort(dim=-1, stable=True)
    return aligned & (rank < aligned.sum(-1, keepdim=True) // 2)


class ArmRegistry(dict[str, ArmSpec]):
    """Those that are built in by name; one of a user's own is made when it is asked for."""

    def __missing__(self, name: str) -> ArmSpec:
        label = display_name(name)
        return ArmSpec(
            name,
            label,
            user_functions.first_docstring_line(name),
            user_functions.make_user_mask_rule(name),
            ratio=None,
            moments=True,
        )


def display_name(name: str) -> str:
    """A name for people: without the module of a user's own, and `_` as blanks."""
    return name.rpartition(":")[2].replace("_", " ")


def is_arm(name: str) -> bool:
    """Whether an arm may have this name."""
    return (
        name in ARMS
        or name in user_functions.REGISTERED
        or bool(user_functions.USER_FUNCTION_RE.fullmatch(name))
    )


GREY = "0.55"
ARMS = ArmRegistry(
    (arm.name, arm)
    for arm in (
        ArmSpec("dense", "dense", "Algorithm 1 without a mask", look=ArmStyle("#000000", "o")),
        ArmSpec(
            "pruned_neuron", "pruned by neuron",
            "the share $\\alpha$ of the neurons with the smallest norm, anew at every step", mask_smallest_norms,
            ratio=True, look=ArmStyle("#D55E00", "s", (0, (4, 1.5))),
        ),
        ArmSpec(
            "random_neuron", "random neurons", "a control: as many neurons, drawn at random once", mask_random_neurons, ratio=True
        ),
        ArmSpec(
            "largest_neuron", "largest neurons", "a control: as many neurons, those with the largest norm", mask_largest_norms,
            ratio=True,
        ),
        ArmSpec(
            "pruned_weight", "pruned by weight", "the share $\\alpha$ of single weights with the smallest magnitude",
            mask_smallest_weights, ratio=True, single_weights=True, look=ArmStyle("#E69F00", "^", (0, (1, 1))),
        ),
        ArmSpec(
            "oracle_all", "oracle, every aligned neuron",
            "every neuron of the rare feature, at any norm: the largest set that Theorem 3.2 can mean", mask_oracle_all,
            look=ArmStyle("#0072B2", "D", (0, (5, 1, 1, 1))),
        ),
        ArmSpec(
            "oracle_gated", "oracle, until the majority's norm",
            "of these, those that are still smaller than the neurons of the other features", mask_oracle_gated,
            look=ArmStyle("#CC79A7", "P", (0, (2, 1))),
        ),
        ArmSpec("oracle_partial", "oracle, the smaller half", "of these, the smaller half", mask_oracle_partial),
        ArmSpec(
            "oracle_nearest", "oracle, the nearest neurons",
            "the share $\\alpha$ of the neurons nearest to a rare feature, however far from it", mask_oracle_nearest, ratio=True,
        ),
        ArmSpec("initial", "at initialisation", "no training: $W(0)$", trained=False, look=ArmStyle(GREY, "v", (0, (1, 1)))),
        ArmSpec("ideal", "ideal encoder", "the dictionary itself", trained=False, look=ArmStyle(GREY, "P", (0, (6, 2)))),
    )
)  # fmt: skip
