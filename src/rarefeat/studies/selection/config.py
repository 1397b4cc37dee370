"""Section `selection` of the config: sweeps of trainings with interventions, and digits."""

import itertools
import math
from typing import Annotated, Any, Literal, get_args

from pydantic import Field, model_validator

from rarefeat.workflow.config.cells import Arms, Cell
from rarefeat.workflow.config.model import Data, Training, Views
from rarefeat.workflow.config.names import Name, merge_unique
from rarefeat.workflow.config.ranges import Range, latin_hypercube
from rarefeat.workflow.config.section import Distinct, Section, check_distinct
from rarefeat.workflow.config.seeds import SeedSettings
from rarefeat.workflow.config.study import SHARED_TRAINING_KEYS, share_defaults

Score = Literal[
    "norm", "firing_rate", "contribution", "residual", "growth", "effective_rate", "hoyer_rate",
    "paired_rate", "random",
]  # fmt: skip
Mask = Literal[Score, "largest", "oracle_all", "oracle_gated", "oracle_nearest"]
SCORES: tuple[str, ...] = get_args(Score)
ORACLES = ("oracle_all", "oracle_gated")
Axis = Literal["share", "lambda"]
Drawable = Literal["lambda", "share", "C", "L", "tau", "d", "d1", "m", "sigma_0"]
INTEGERS = ("L", "d", "d1", "m")
"""Drawn parameters that are rounded to integers."""
DIGITS = "selection_digits"
"""Name of the study of digits."""


class Intervention(Section):
    """An intervention in training: a mask, another bias, or help for closed gates.

    The mask acts on the logits alone (eq. 5). Without any key it is the dense training.
    """

    mask: Mask | Literal[""] = Field(
        default="",
        description="the rule that chooses the pruned neurons, lowest score first"
        " (docs/method/selection.md); empty for none",
    )
    alpha: float = Field(
        default=0.0,
        ge=0,
        lt=1,
        description="fraction of neurons that a rule prunes; 0 for 1/d, that of one feature",
    )
    source: Literal["running", "batch"] = Field(
        default="running",
        description="moments that a score is computed from: a running mean over steps, or those of"
        " the batch of the step",
    )
    stop: bool = Field(
        default=False,
        description="a neuron is pruned only while its norm is below the mean of the neurons that"
        " are not chosen",
    )
    masked_keys: bool = Field(
        default=False,
        description="a pruned contrast branch: the gradient of a dense anchor, with masked keys"
        " held fixed",
    )
    renewed: int = Field(
        default=0, ge=0, description="steps between two choices of neurons; 0 for one at every step"
    )
    onset: int = Field(default=0, ge=0, description="first step with a mask")
    schedule: Literal["", "rising", "falling"] = Field(
        default="",
        description="alpha rises from 0 at the onset to its value at T, or falls from it to 0;"
        " empty: it is constant",
    )
    threshold: Literal["", "rate", "norm_and_rate"] = Field(
        default="",
        description="the bias in proportion to the effective rate, or to norm times rate, with the"
        " same mean over neurons; empty: in proportion to the norm",
    )
    delay: int = Field(default=0, ge=0, description="steps from T1 to the onset of the bias")
    reopened: bool = Field(
        default=False, description="a silent neuron gets the gradient of a neuron without a bias"
    )
    revived: bool = Field(
        default=False,
        description="a silent neuron is re-initialised, without a bias until eq. (34) holds for it",
    )

    @model_validator(mode="after")
    def _consistent(self) -> "Intervention":
        mask_keys = ("alpha", "stop", "masked_keys", "renewed", "onset", "schedule")
        if not self.mask and (keys := [key for key in mask_keys if getattr(self, key)]):
            raise ValueError(f"{keys[0]} is for arms with a mask")
        if self.mask in ORACLES and (self.alpha or self.schedule):
            raise ValueError(f"alpha and schedule are for rules with a ratio, not for {self.mask}")
        if self.source == "batch" and self.mask not in SCORES:
            raise ValueError(f"source is for a mask by score: {', '.join(SCORES)}")
        if self.reopened and self.revived:
            raise ValueError("reopened and revived are for the same neurons; give one of them")
        return self

    @property
    def label(self) -> str:
        """Name in tables: the mask, or `dense`, and every key that is not at its default."""
        rest = self.model_dump(exclude={"mask"}, exclude_defaults=True).items()
        texts = (key if value is True else f"{key}={value}" for key, value in rest)
        return "-".join([self.mask or "dense", *texts])

    def n_pruned(self, m: int, d: int) -> int:
        """Return the number of m neurons that its rule prunes, before any schedule."""
        return math.floor((self.alpha or 1 / d) * m + 1e-9)


class LatinHypercube(Section):
    """A Latin hypercube of regimes: one uniform draw of each parameter in each stratum."""

    regimes: int = Field(ge=1, description="number of regimes")
    seed: int = Field(ge=0, description="seed of the hypercube")
    ranges: dict[Drawable, Range] = Field(
        min_length=1,
        description="by parameter; lambda is in units of the growth rate of a frequent feature per"
        " unit of eta",
    )
    growth: float = Field(
        gt=0, description="eta is such that a frequent feature grows by this per step in stage 1"
    )

    def values(self) -> list[dict[str, float]]:
        """Return the values of every regime by parameter."""
        columns = latin_hypercube("selection/hypercube", self.seed, self.regimes, self.ranges)
        return [
            {
                name: round(value) if name in INTEGERS else value
                for name, value in zip(columns, row, strict=True)
            }
            for row in zip(*columns.values(), strict=True)
        ]


class InterventionSweep(SeedSettings):
    """Trainings of all arms at points or in drawn regimes, by `reduced` and `follow`."""

    role: Literal["scores", "interventions", "help", "law_fit", "law_test"] = Field(
        description="scores: which score finds the neurons; interventions: effects of masks; help:"
        " what changes the critical frequency; law_fit, law_test: where the two constants of the"
        " critical-frequency model are fitted, and where it is tested"
    )
    data: Data
    training: Training
    sigma: float = Field(
        ge=0,
        description="standard deviation of the noise; scaled by d1^(-1/2), as sigma_0, where d1 is"
        " drawn",
    )
    eps_min: Distinct[Annotated[float, Field(gt=0, le=1)]] = Field(
        min_length=1, description="eps_min / eps_max"
    )
    varied: dict[Axis, Distinct[Annotated[float, Field(ge=0)]]] = Field(
        default={},
        description="values of the bias scale (`share`) and of lambda: a full grid, with eps_min",
    )
    hypercube: LatinHypercube | None = Field(
        default=None, alias="drawn", description="regimes that are drawn, instead of `varied`"
    )
    arms: Arms[Intervention] = Field(min_length=1, description="arms, each with keys of its own")
    scored: Distinct[Annotated[int, Field(ge=1)]] = Field(
        default=[], description="steps at which the scores of the dense arm are evaluated"
    )
    memory: int = Field(ge=1, description="steps of the running mean")
    patience: int = Field(
        ge=1, description="batches in a row without an open gate after which a neuron is silent"
    )
    probed: bool = Field(default=False, description="fit a linear head on balanced data at T")

    @model_validator(mode="after")
    def _consistent(self) -> "InterventionSweep":
        data, training = self.data, self.training
        check_distinct([arm.label for arm in self.arms])
        if "dense" not in [arm.label for arm in self.arms]:
            raise ValueError(
                "arms: `{}`, the dense training, must be among them; all others are compared with"
                " it"
            )
        if training.bias.rule != "follow":
            raise ValueError(f"training.bias.rule must be follow, got {training.bias.rule}")
        plain = data.views == Views() and not data.balance
        if not plain or training.history or training.device != "cpu":
            raise ValueError(
                "data.views, data.balance, training.history and training.device are for studies of"
                " the chain"
            )
        if self.varied and self.hypercube:
            raise ValueError("varied and drawn: give one of them")
        if training.K > data.N:
            raise ValueError(f"training.K must not exceed data.N = {data.N}, got {training.K}")
        if late := [step for step in self.scored if step > training.T]:
            raise ValueError(f"scored: steps must not exceed T = {training.T}, got {late[0]}")
        for arm in self.arms:
            if arm.onset >= training.T:
                raise ValueError(
                    f"arm {arm.label}: onset must be below T = {training.T}; no step has a mask"
                )
            by_ratio = arm.mask and arm.mask not in ORACLES
            if by_ratio and not arm.n_pruned(training.m, data.d):
                raise ValueError(
                    f"arm {arm.label}: alpha must be at least 1 / m = {1 / training.m:.4g};"
                    " it prunes nothing"
                )
        return self

    def cells(self) -> list[Cell]:
        """Return a cell for every eps_min of every point or drawn regime."""
        # Sorted, as the keys in the config of a job are.
        axes: dict[str, Any] = dict(sorted(self.varied.items()))
        if self.hypercube:
            axes = {"regime": range(self.hypercube.regimes)}
        axes["eps_min"] = sorted(self.eps_min)
        points = itertools.product(*axes.values())
        return [Cell(tuple(zip(axes, values, strict=True))) for values in points]


class Perceptron(Section):
    """Settings of a perceptron that is trained with NT-Xent on digits, of which some are rare."""

    train: int = Field(
        ge=10, description="training images before rare ones are removed; the others are for tests"
    )
    tail: int = Field(ge=1, le=9, description="number of rare digits, drawn for each seed")
    hidden: int = Field(ge=1, description="ReLU units of the layer before the neurons")
    m: int = Field(ge=1, description="ReLU neurons, the inputs of the loss and of the probe")
    batch: int = Field(ge=2, description="images of a step")
    steps: int = Field(ge=1, description="steps of SGD")
    lr: float = Field(gt=0, description="learning rate, falling to 0 along a cosine")
    momentum: float = Field(ge=0, lt=1)
    weight_decay: float = Field(ge=0)
    tau: float = Field(gt=0, description="temperature")
    noise: float = Field(
        ge=0,
        description="standard deviation of the noise of pixels in each view, which is also shifted"
        " by up to one pixel",
    )
    memory: int = Field(ge=1, description="steps of the running mean")
    alpha: float = Field(gt=0, lt=1, description="fraction of neurons that each rule prunes")
    rules: Distinct[
        Literal["norm", "random", "effective_rate", "paired_rate", "contribution", "largest"]
    ] = Field(min_length=1)
    l2: float = Field(gt=0, description="l2 regularisation of the linear probe")


class Digits(SeedSettings):
    """A study of masks of neurons on long-tailed digits; its cells are values of rho."""

    rho: Distinct[Annotated[float, Field(ge=1)]] = Field(
        min_length=1, description="ratio of frequent to rare images of a digit"
    )
    training: Perceptron

    def cells(self) -> list[Cell]:
        """Return a cell for each rho."""
        return [Cell((("rho", rho),)) for rho in self.rho]


class Selection(Section):
    """The section `selection`: sweeps by name, and the digits."""

    sweeps: dict[Name, InterventionSweep] = Field(min_length=1, description="by name")
    digits: Digits

    def studies_with_role(self, *roles: str) -> dict[str, InterventionSweep]:
        """Return the sweeps that have one of some roles."""
        return {name: sweep for name, sweep in self.sweeps.items() if sweep.role in roles}

    def studies(self) -> dict[str, InterventionSweep | Digits]:
        """Return the sweeps and the digits by name."""
        return merge_unique("studies", self.sweeps, {DIGITS: self.digits})


def inherit(raw: Any, shared: dict) -> Any:
    """Return the raw section, with the top-level keys that its sweeps inherit."""
    return share_defaults(raw, shared, InterventionSweep, SHARED_TRAINING_KEYS, under="sweeps")
