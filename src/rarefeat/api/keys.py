"""Keys that `train` and its kin take beside their arguments, for completion and type checkers.

A test holds them against the sections of the config, which say what each means. A sweep takes one
value of each or several, everything else one.
"""

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias, TypedDict

from rarefeat.training.choices import Choice

Part: TypeAlias = Mapping[str, Any] | Sequence[Mapping[str, Any]] | None
Whole: TypeAlias = int | Sequence[int]
Number: TypeAlias = float | Sequence[float]
Text: TypeAlias = str | Sequence[str]
Flag: TypeAlias = bool | Sequence[bool]


class Keys(TypedDict, total=False):
    """Keys of a study, of its `data`, of its `training` and of an arm."""

    simulator: Text
    draws: Text
    d: Whole
    d1: Whole
    L: Whole
    C: Number
    minority: Sequence[Any]
    N: Whole
    probe_pairs: Whole
    test_pairs: Whole
    views: Part
    balance: Text
    m: Whole
    K: Whole
    tau: Number
    eta: Number
    lambda_: Number
    sigma_0: Number
    T: Whole
    attention_scale: Number | Text
    attention: Text
    bias: Part
    device: Text
    kernel: Text
    history: Flag
    alpha: Number
    onset: Whole
    pruned_update: Text


class LearnerKeys(Keys, total=False):
    """Choices of learners, one or several each, and keys."""

    data_law: Choice | Sequence[Choice]
    encoder: Choice | Sequence[Choice]
    loss: Choice | Sequence[Choice]
    optimiser: Choice | Sequence[Choice]
    data_options: Part
    encoder_options: Part
    loss_options: Part
    optimiser_options: Part
    fresh: Flag
    arm: Any
    study: str
    config: Any
