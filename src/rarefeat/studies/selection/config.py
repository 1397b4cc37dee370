"""The section `selection` of the config: sweeps of the contrastive encoder, and what is done to its training."""

import itertools
import math
from typing import Annotated, Any, Literal, get_args

from pydantic import Field, model_validator

from rarefeat.config.cells import Arms, Cell
from rarefeat.config.model import Data, Training, Views
from rarefeat.config.names import Name, merge_unique
from rarefeat.config.ranges import Range
from rarefeat.config.section import Distinct, Section, check_distinct
from rarefeat.config.seeds import SeedsPerBlock, seed_blocks
from rarefeat.config.study import SHARED_TRAINING_KEYS, share_defaults

Score = Literal[
    "norm",
    "firing_rate",
    "contribution",
    "residual",
    "growth",
    "effective_rate",
    "hoyer_rate",
    "paired_rate",
    "random",
]
Mask = Literal[Score, "largest", "oracle_all", "oracle_gated", "oracle_nearest"]
SCORES: tuple[str, ...] = get_args(Score)
ORACLES = ("oracle_all", "oracle_gated")
Axis = Literal["share", "lambda"]
Drawable = Literal["lambda", "share", "C", "L", "tau", "d", "d1", "m", "sigma_0"]


class Intervention(Section):
    """What is done to a training: a mask in the logits, another bias, or help for neurons that the bias has shut."""

    mask: Mask | Literal[""] = Field(
        default="",
        description="the rule that chooses what is pruned, lowest score first (docs/method/selection.md); empty for none",
    )
    alpha: float = Field(
        default=0.0,
        ge=0,
        lt=1,
        description="share of neurons that a rule prunes; 0 for 1/d, one feature's",
    )
    source: Literal["running", "batch"] = Field(
        default="running",
        description="a score is read from a running mean over steps, or from the step's own batch",
    )
    stop: bool = Field(
        default=False,
        description="a neuron is pruned only while its norm is below the mean of those not chosen",
    )
    masked_keys: bool = Field(
        default=False,
        description="a pruned contrast branch: a dense anchor, whose gradient sees masked keys, held fixed",
    )
    renewed: int = Field(
        default=0, ge=0, description="steps between two choices; 0 for a choice at every step"
    )
    onset: int = Field(default=0, ge=0, description="first step with a mask")
    schedule: Literal["", "rising", "falling"] = Field(
        default="",
        description="alpha rises from 0 at the onset to its value at T, or falls from it to 0; empty: it is constant",
    )
    threshold: Literal["", "rate", "norm_and_rate"] = Field(
        default="",
        description="the bias in proportion to the effective rate, or to norm and rate, at the same mean; empty: norm",
    )
    delay: int = Field(default=0, ge=0, description="steps from T1 to the bias")
    reopened: bool = Field(
        default=False, description="a silent neuron gets the gradient of a neuron without a bias"
    )
    revived: bool = Field(
        default=False,
        description="a silent neuron is drawn anew, without a bias until eq. (34) holds for it",
    )

    @model_validator(mode="after")
    def _consistent(self) -> "Intervention":
        of_masks = ("alpha", "stop", "masked_keys", "renewed", "onset", "schedule")
        if not self.mask and (given := [key for key in of_masks if getattr(self, key)]):
            raise ValueError(f"{given[0]} is for arms with a mask")
        if self.mask in ORACLES and (self.alpha or self.schedule):
            raise ValueError(f"alpha and schedule are for rules with a ratio, not for {self.mask}")
        if self.source == "batch" and self.mask not in SCORES:
            raise ValueError(f"source is for a mask by score: {', '.join(SCORES)}")
        if self.reopened and self.revived:
            raise ValueError("reopened and revived are for the same neurons; give one of them")
        return self

    @property
    def label(self) -> str:
        """Name in tables: the mask, or `dense`, with whatever the arm has that is not the default."""
        rest = self.model_dump(exclude={"mask"}, exclude_defaults=True).items()
        said = (key if value is True else f"{key}={value}" for key, value in rest)
        return "-".join([self.mask or "dense", *said])


class LatinHypercube(Section):
    """Regimes of a Latin hypercube (regimes.py): each parameter has one draw in each of as many strata as regimes."""

    regimes: int = Field(ge=1, description="number of regimes")
    seed: int = Field(ge=0, description="seed of the hypercube")
    ranges: dict[Drawable, Range] = Field(
        min_length=1,
        description="by parameter; lambda is in units of the pull, the growth of a frequent feature per unit of eta",
    )
    growth: float = Field(
        gt=0, description="eta is such that a frequent feature grows by this a step in stage 1"
    )


class InterventionSweep(Section):
    """Trainings at every point of a grid, every arm on the same tokens; simulator `reduced`, bias rule `follow`."""

    role: Literal["scores", "interventions", "help", "law_fit", "law_test"] = Field(
        description="scores: which score finds the neurons; interventions: what masks do; help: what moves the step;"
        " law_fit, law_test: where the law's two constants are fitted, and where it is tested"
    )
    draws: Name = Field(description="name that keys the random draws: the study's own if not given")
    seeds: int = Field(ge=1, description="replicas per point and arm")
    first_seed: int = Field(ge=0, description="the seeds are first_seed, first_seed + 1, ...")
    seeds_per_block: SeedsPerBlock = Field(description="replicas of one job")
    data: Data
    training: Training
    sigma: float = Field(
        ge=0,
        description="standard deviation of the noise; scaled by d1^(-1/2) as sigma_0 where d1 is drawn",
    )
    eps_min: Distinct[Annotated[float, Field(gt=0, le=1)]] = Field(
        min_length=1, description="eps_min / eps_max"
    )
    varied: dict[Axis, Distinct[Annotated[float, Field(ge=0)]]] = Field(
        default={},
        description="share of the bias, or lambda: every value with every other, and every eps_min",
    )
    drawn: LatinHypercube | None = Field(default=None, description="regimes that are drawn instead")
    arms: Arms[Intervention] = Field(
        min_length=1, description="what is compared; no arm twice with the same keys"
    )
    scored: Distinct[Annotated[int, Field(ge=1)]] = Field(
        default=[], description="steps at which the scores of the dense arm are judged"
    )
    memory: int = Field(ge=1, description="steps of the running mean")
    patience: int = Field(
        ge=1, description="a neuron that no sample of so many batches in a row opens is silent"
    )
    probed: bool = Field(default=False, description="fit the linear head on balanced data at T")

    @model_validator(mode="after")
    def _consistent(self) -> "InterventionSweep":
        check_distinct([arm.label for arm in self.arms])
        if "dense" not in [arm.label for arm in self.arms]:
            raise ValueError(
                "arms: `{}`, the dense training, must be among them: all others are compared with it"
            )
        if self.training.bias.rule != "follow":
            raise ValueError(f"training.bias.rule must be follow, got {self.training.bias.rule}")
        if self.data.views != Views() or self.training.history or self.training.device != "cpu":
            raise ValueError(
                "data.views, training.history and training.device are for studies of the chain"
            )
        if self.varied and self.drawn:
            raise ValueError("varied and drawn: give one of them")
        if self.training.K > self.data.N:
            raise ValueError(
                f"training.K must not exceed data.N = {self.data.N}, got {self.training.K}"
            )
        if late := [step for step in self.scored if step > self.training.T]:
            raise ValueError(f"scored: steps must not exceed T = {self.training.T}, got {late[0]}")
        for arm in self.arms:
            if arm.onset >= self.training.T:
                raise ValueError(
                    f"arm {arm.label}: onset must be below T = {self.training.T}; no step has a mask"
                )
            if (
                arm.mask
                and arm.mask not in ORACLES
                and not self.pruned(arm, self.training.m, self.data.d)
            ):
                raise ValueError(
                    f"arm {arm.label}: alpha must be at least 1 / m = {1 / self.training.m:.4g}; it prunes nothing"
                )
        return self

    @staticmethod
    def pruned(arm: Intervention, m: int, d: int) -> int:
        """How many neurons a rule prunes of m, before any schedule."""
        return math.floor((arm.alpha or 1 / d) * m + 1e-9)

    def cells(self) -> list[Cell]:
        """Every eps_min of every point or regime."""
        if self.drawn:
            return [
                Cell((("regime", regime), ("eps_min", eps_min)))
                for regime in range(self.drawn.regimes)
                for eps_min in sorted(self.eps_min)
            ]
        # In an order of their own: what a job is told has its keys sorted.
        axes = {**dict(sorted(self.varied.items())), "eps_min": sorted(self.eps_min)}
        return [
            Cell(tuple(zip(axes, values, strict=True)))
            for values in itertools.product(*axes.values())
        ]

    def blocks(self) -> dict[str, list[int]]:
        """Blocks of seeds, by their name FIRST-LAST."""
        return seed_blocks(self.first_seed, self.seeds, self.seeds_per_block)

    def training_config(self) -> dict[str, Any]:
        """What the training of a cell is told: all but its seeds and the grid that it is a point of."""
        names = (
            "draws",
            "data",
            "training",
            "sigma",
            "drawn",
            "arms",
            "scored",
            "memory",
            "patience",
            "probed",
        )
        return {name: getattr(self, name) for name in names}


def point_of(cell: Cell) -> str:
    """Where a cell lies but for eps_min, for people and as a key of tables: `share=0.2, lambda=0.05`."""
    return ", ".join(f"{axis}={value:g}" for axis, value in cell.axes if axis != "eps_min")


class Perceptron(Section):
    """NT-Xent of ReLU neurons over a hidden layer, on scikit-learn's digits, of which some are rare."""

    train: int = Field(
        ge=10, description="images that are trained on before any is left out; the others test"
    )
    tail: int = Field(ge=1, le=9, description="number of rare digits, drawn anew by each seed")
    hidden: int = Field(ge=1, description="ReLU units of the layer before the neurons")
    m: int = Field(ge=1, description="neurons, ReLU: what the loss and the probe see")
    batch: int = Field(ge=2, description="images of a step")
    steps: int = Field(ge=1, description="steps of SGD")
    lr: float = Field(gt=0, description="learning rate, falling to 0 along a cosine")
    momentum: float = Field(ge=0, lt=1)
    weight_decay: float = Field(ge=0)
    tau: float = Field(gt=0, description="temperature of the cosines")
    noise: float = Field(
        ge=0,
        description="standard deviation of pixels' noise in each view, which is moved by up to a pixel",
    )
    memory: int = Field(ge=1, description="steps of the running mean")
    alpha: float = Field(gt=0, lt=1, description="share of neurons that each rule prunes")
    rules: Distinct[
        Literal["norm", "random", "effective_rate", "paired_rate", "contribution", "largest"]
    ] = Field(min_length=1)
    l2: float = Field(gt=0, description="of the linear probe")


class Digits(Section):
    """Masks by neuron on long-tailed digits: a study whose cells are values of rho."""

    draws: Name = Field(description="name that keys the random draws")
    seeds: int = Field(ge=1, description="replicas")
    first_seed: int = Field(ge=0, description="the seeds are first_seed, first_seed + 1, ...")
    seeds_per_block: SeedsPerBlock = Field(description="replicas of one job")
    rho: Distinct[Annotated[float, Field(ge=1)]] = Field(
        min_length=1, description="frequent over rare images of a digit"
    )
    training: Perceptron

    def training_config(self) -> dict[str, Any]:
        """What the training of a cell is told."""
        return {"draws": self.draws, "training": self.training}

    def cells(self) -> list[Cell]:
        """One for each rho."""
        return [Cell((("rho", rho),)) for rho in self.rho]

    def blocks(self) -> dict[str, list[int]]:
        """Blocks of seeds, by their name FIRST-LAST."""
        return seed_blocks(self.first_seed, self.seeds, self.seeds_per_block)


class Selection(Section):
    """Every sweep by name, and the digits."""

    sweeps: dict[Name, InterventionSweep] = Field(min_length=1, description="by name")
    digits: Digits

    def studies_with_role(self, *roles: str) -> dict[str, InterventionSweep]:
        """The sweeps with one of these roles."""
        return {name: sweep for name, sweep in self.sweeps.items() if sweep.role in roles}

    def studies(self) -> dict[str, InterventionSweep | Digits]:
        """What is computed cell by cell."""
        return merge_unique("studies", self.sweeps, {DIGITS: self.digits})


DIGITS = "selection_digits"
"""Name of the study of digits."""


def inherit(raw: Any, shared: dict) -> Any:
    """The section whose sweeps are given some of what is shared."""
    if not isinstance(raw, dict):
        return raw
    of_sweeps = {key: value for key, value in raw.items() if key != "sweeps"} | {
        "studies": raw.get("sweeps")
    }
    found = share_defaults(of_sweeps, shared, InterventionSweep, SHARED_TRAINING_KEYS)
    return {"sweeps" if key == "studies" else key: value for key, value in found.items()}
