"""The sections of the config that the contrastive encoder's chain is given.

Every key with its bounds, unit and meaning.
"""

import math
from collections.abc import Collection
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, WithJsonSchema, model_validator

from rarefeat.errors import RarefeatError
from rarefeat.model import own_code
from rarefeat.model.arms import ARMS, ArmSpec
from rarefeat.model.pruning import n_pruned
from rarefeat.workflow.config.names import shorten_repr, suggest
from rarefeat.workflow.config.section import Section


def one_of(names: Collection[str]) -> Any:
    """Return a type: one of these names, or a user's MODULE:FUNCTION."""

    def checked(name: str) -> str:
        if name not in names and (why := own_code.explain_missing(name)):
            if ":" in name:
                raise ValueError(f"{shorten_repr(name)}: {why}")
            meant = suggest(name, names)
            raise ValueError(
                f"must be one of {', '.join(names)}, or MODULE:FUNCTION of your own, got"
                f" {shorten_repr(name)}{meant}"
            )
        return name

    schema = {"anyOf": [{"enum": list(names)}, {"type": "`MODULE:FUNCTION` of your own"}]}
    return Annotated[str, AfterValidator(checked), WithJsonSchema(schema)]


ArmName = one_of(ARMS)
BIAS_RULES = ("follow", "grow", "gradient")
"""Of model/bias.py."""


class Views(Section):
    """In what the two views of a pair differ under the simulator `direct`, beside their tokens."""

    rho: float = Field(
        default=0.0,
        ge=0,
        le=1,
        description="correlation of both views' noise: 0 for the core's pairs, 1 for identical"
        " views",
    )
    mask: float = Field(
        default=0.0,
        ge=0,
        lt=1,
        description="probability that a coordinate goes to the first view, RandomMask; 0 for no"
        " mask",
    )
    clean_negatives: bool = Field(
        default=False,
        description="the negatives are the other samples themselves, not augmented; with a mask",
    )
    colour: int = Field(
        default=0, ge=0, description="rank of a dense nuisance that both views share; 0 for none"
    )
    colour_sigma: float = Field(
        default=0.0, ge=0, description="standard deviation of each of its directions"
    )
    colour_redrawn: bool = Field(default=False, description="the second view has another colour")

    @model_validator(mode="after")
    def _consistent(self) -> "Views":
        if self.mask and self.rho:
            raise ValueError("rho must be 0 with a mask, whose views are made of one x")
        if self.clean_negatives and not self.mask:
            raise ValueError(
                "clean_negatives needs a mask: without one a second view is distributed as the"
                " sample itself"
            )
        if bool(self.colour) != bool(self.colour_sigma) or (
            self.colour_redrawn and not self.colour
        ):
            raise ValueError("colour, colour_sigma and colour_redrawn go together")
        return self


class Data(Section):
    """Assumptions 3.1-3.4, Definition 3.1."""

    d: int = Field(ge=3, description="number of features d")
    d1: int = Field(ge=3, description="input dimension d_1 of a token")
    L: int = Field(ge=1, description="tokens per sample L")
    C: float = Field(
        gt=0, description="constant of the activation probability eps_j C loglog(d) / d of a sample"
    )
    minority: list[Annotated[float, Field(gt=0, le=1)]] = Field(
        min_length=1,
        description="for each minority feature its eps_j in units of the cell's eps_min",
    )
    N: int = Field(ge=2, description="latent training pairs N, revisited with fresh noise")
    probe_pairs: int = Field(ge=2, description="pairs that the linear head is fitted on")
    test_pairs: int = Field(ge=2, description="held-out test pairs")
    views: Views = Views()
    balance: Literal["", "oversampled", "reweighted"] = Field(
        default="",
        description="what makes up for rare features in training: `oversampled` draws the pairs"
        " with one again until it is as frequent as the others; `reweighted` gives their loss that"
        " weight instead; empty for nothing",
    )

    @model_validator(mode="after")
    def _fits(self) -> "Data":
        if self.d1 < self.d:
            raise ValueError(
                f"d1 must be at least d = {self.d} for orthonormal features, got {self.d1}"
            )
        if len(self.minority) >= self.d:
            raise ValueError(
                f"minority must leave a majority feature: fewer than d = {self.d} entries"
            )
        limit = self.d / math.log(math.log(self.d))
        if limit < self.C:
            raise ValueError(
                f"C must be at most d / loglog(d) = {limit:.4g}, where the activation probability"
                f" is 1"
            )
        if self.views.colour > self.d1 - self.d:
            raise ValueError(f"views.colour must be at most d1 - d = {self.d1 - self.d}")
        if self.views.mask and self.L > 1:
            raise ValueError(
                "views.mask needs L = 1: other tokens of the sample would show what it hides"
            )
        return self


class Bias(Section):
    """The bias schedule: zero in stage 1, then one of two rules."""

    rule: one_of(BIAS_RULES) = Field(
        description="proportional to the norm; growing at least by 1 + eta/d; learned from 0 on,"
        " by the gradient of the loss;"
        " or a rule of your own"
    )
    share: float = Field(
        ge=0, description="bias at T1 in units of sqrt(2 log d / d) ||w_i||; 0 for no bias at all"
    )
    cap: float = Field(gt=0, description="`grow` stops at cap / sqrt(d)")
    T1: Literal["eq34"] | Annotated[int, Field(ge=1)] = Field(
        description="end of stage 1: the first step at which eq. (34) holds for every neuron, or a"
        " fixed step"
    )


class Training(Section):
    """Eq. (1)-(5) and Algorithm 1."""

    m: int = Field(ge=1, description="number of neurons m")
    K: int = Field(
        ge=2,
        description="batch size K; the other K - 1 second views, or samples, are the negatives",
    )
    tau: float = Field(gt=0, description="temperature tau")
    eta: float = Field(gt=0, description="learning rate eta")
    lambda_: float = Field(ge=0, alias="lambda", description="l2 regularisation lambda")
    sigma_0: float = Field(
        ge=1e-15,
        description="standard deviation sigma_0 of the initial weights; squares of smaller ones"
        " vanish in float32",
    )
    T: int = Field(ge=0, description="training steps T; 0 for the initial encoder")
    attention_scale: Literal["1/sqrt(d1)"] | Annotated[float, Field(ge=0)] = Field(
        default=1.0,
        json_schema_extra={"absent": 1.0},
        description="scale of the attention's logits, which eq. (4) leaves open: a number, or"
        " 1/sqrt(d1) by name; 0 for a mean over the tokens",
    )
    attention: Literal["fixed", "trained", "trained_without_decay", "decayed"] = Field(
        default="fixed",
        json_schema_extra={"absent": "fixed"},
        description="W_Q and W_K: identities; trained by Algorithm 1, or without its decay; or the"
        " control, which decays and is not trained. Of a study of imbalance under the simulator"
        " direct; attention_scale is that of the start",
    )
    bias: Bias
    device: Literal["cpu", "cuda"] = Field(
        default="cpu",
        json_schema_extra={"absent": "cpu"},
        description="of the encoder's training and probes; cuda asks the scheduler for a GPU",
    )
    kernel: Literal["auto", "torch", "native"] = Field(
        default="auto",
        description="of a step: torch, the reference; native, faster and rounded otherwise, for"
        " the simulator reduced on a cpu; or auto, native where that serves and torch elsewhere;"
        " a result tells it, and none is made anew for it",
    )
    history: bool = Field(
        description="keep <w_i, M_j>, ||w_i|| and b_i of every neuron at recorded steps, beside"
        " the encoder"
    )

    def logit_scale(self, d1: int) -> float:
        """Return the scale of the logits of fixed attention for tokens of dimension d1."""
        if self.attention != "fixed":
            raise RarefeatError(
                f"training.attention: must be fixed where no probe of a study of imbalance reads"
                f" the encoder, got {self.attention}"
            )
        return self.first_logit_scale(d1)

    def first_logit_scale(self, d1: int) -> float:
        """Return the scale of the attention's logits at the start."""
        return 1 / math.sqrt(d1) if self.attention_scale == "1/sqrt(d1)" else self.attention_scale

    @model_validator(mode="after")
    def _possible(self) -> "Training":
        if self.eta * self.lambda_ >= 1:
            raise ValueError(
                f"lambda must be below 1 / eta = {1 / self.eta:g}, got {self.lambda_:g}: a step"
                f" multiplies the weights by"
                " 1 - eta lambda"
            )
        if self.bias.T1 != "eq34" and self.bias.T1 > self.T:
            raise ValueError(f"bias.T1 must be at most T = {self.T}, got {self.bias.T1}")
        return self


class Arm(Section):
    """What is compared at every point of the grid."""

    arm: ArmName
    alpha: float = Field(
        default=0.0, ge=0, lt=1, description="pruning ratio alpha; 0 for arms without a ratio"
    )
    onset: int = Field(default=0, ge=0, description="first step with a mask")
    pruned_update: Literal["unmasked", "straight_through"] = Field(
        default="unmasked",
        description="eq. (5), the mask in the logits only; or the gradient of the masked network",
    )

    @model_validator(mode="after")
    def _ratio(self) -> "Arm":
        if self.named.ratio is not None and (self.alpha > 0) != self.named.ratio:
            with_ratio = " and ".join(name for name, arm in ARMS.items() if arm.ratio)
            raise ValueError(
                f"alpha must be above 0 for {with_ratio} and absent for the other arms"
            )
        if (self.onset or self.pruned_update != "unmasked") and not self.named.rule:
            with_mask = ", ".join(name for name, arm in ARMS.items() if arm.rule)
            raise ValueError(f"onset and pruned_update are for arms with a mask: {with_mask}")
        return self

    @property
    def named(self) -> ArmSpec:
        """Rule, label and style of the arm."""
        return ARMS[self.arm]

    def without_effect(self, training: Training, data: Data) -> str:
        """Explain why the arm would equal the dense one to the last digit; empty if it does not."""
        if self.named.rule and self.onset >= training.T:
            return f"onset must be below T = {training.T}, got {self.onset}; no step has a mask"
        rows = training.m * (data.d1 if self.named.single_weights else 1)
        if self.named.ratio and not n_pruned(rows, self.alpha):
            count = "(m d1)" if self.named.single_weights else "m"
            least = f"1 / {count} = {1 / rows:.4g}"
            return f"alpha must be at least {least}, got {self.alpha:g}; it prunes nothing"
        return ""

    @property
    def label(self) -> str:
        """Name in files: the arm, with whatever it has that is not the default."""
        values = (
            f"{key}={value}"
            for key, value in self.model_dump(exclude={"arm"}, exclude_defaults=True).items()
        )
        return "-".join([self.arm, *values])

    @property
    def trained(self) -> bool:
        """False for the floor and the ceiling, `initial` and `ideal`."""
        return self.named.trained
