"""The section `fate` of the config: trainings that are watched until they have learned the rare feature, or for T steps."""

import itertools
import math
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from rarefeat.config.cells import Cell
from rarefeat.config.model import Data, Training, Views
from rarefeat.config.names import Name
from rarefeat.config.ranges import Range, latin_hypercube
from rarefeat.config.section import Distinct, Section
from rarefeat.config.seeds import SeedsPerBlock, seed_blocks

Latents = Literal["plain", "antithetic", "apart"]
AXES = ("latents", "N", "sigma", "share", "lambda", "eps_min")
FRESH_SAMPLE = 8192
"""Latent pairs that stand for a sample where each step has fresh ones."""
BESIDE = ("share", "lambda")
"""Axes that tokens do not depend on: their values are trained side by side, in one cell of the others."""


class DecayAndScale(Section):
    """What parts the trainings of a cell."""

    share: float
    lambda_: float = Field(alias="lambda")


class LatinHypercube(Section):
    """Regimes of a Latin hypercube, each value to three digits."""

    regimes: int = Field(ge=1, description="number of regimes")
    seed: int = Field(ge=0, description="seed of the hypercube")
    ranges: dict[Literal["N", "share", "lambda", "eps_min"], Range] = Field(
        min_length=1, description="by axis"
    )

    def values(self) -> list[dict[str, Any]]:
        """The values of every regime: for each axis one uniform draw in each stratum, the strata in an order of their own."""
        columns = latin_hypercube("fate/hypercube", self.seed, self.regimes, self.ranges)
        for name, values in columns.items():
            columns[name] = [
                round(value) if name == "N" else float(f"{value:.3g}") for value in values
            ]
        return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


class LearningStudy(Section):
    """Dense trainings at every point of a grid, or of drawn regimes; simulator `reduced`, bias rule `follow`."""

    role: Literal["point", "fit", "test"] = Field(
        default="point",
        description="fit, test: where the law for the time has its constants from, and where it is judged",
    )
    draws: Name = Field(description="name that keys the random draws: the study's own if not given")
    seeds: int = Field(ge=1, description="replicas per point")
    first_seed: int = Field(ge=0, description="the seeds are first_seed, first_seed + 1, ...")
    seeds_per_block: SeedsPerBlock = Field(description="replicas of one job")
    data: Data
    training: Training
    latents: Distinct[Latents] = Field(
        min_length=1,
        description="plain: as everywhere; antithetic: each pair again, with the rare feature's sign flipped; apart: no other"
        " feature is active where the rare one is",
    )
    N: Distinct[Annotated[int, Field(ge=0)]] = Field(
        min_length=1, description="training pairs; 0 for fresh ones at every step"
    )
    sigma: Distinct[Annotated[float, Field(ge=0)]] = Field(
        min_length=1, description="standard deviation of the noise"
    )
    share: Distinct[Annotated[float, Field(gt=0)]] = Field(
        min_length=1, description="share of the bias"
    )
    lambda_: Distinct[Annotated[float, Field(gt=0)]] = Field(
        alias="lambda", min_length=1, description="l2 regularisation"
    )
    eps_min: Distinct[Annotated[float, Field(gt=0, le=1)]] = Field(
        min_length=1, description="eps_min / eps_max"
    )
    drawn: LatinHypercube | None = Field(
        default=None, description="regimes that are drawn instead, on these axes"
    )
    every: int = Field(ge=1, description="steps between two looks at the rare feature")
    hold: int = Field(
        ge=0,
        description="a replica ends that has had the feature for so many steps without a break; 0: none ends before T",
    )
    looked: int = Field(
        ge=1,
        description="step at which what pulls at the rare feature is measured on the whole sample",
    )

    @model_validator(mode="after")
    def _consistent(self) -> "LearningStudy":
        if self.training.bias.rule != "follow":
            raise ValueError(f"training.bias.rule must be follow, got {self.training.bias.rule}")
        if (
            self.data.views != Views()
            or self.training.history
            or self.training.device != "cpu"
            or len(self.data.minority) != 1
        ):
            raise ValueError(
                "data.views, training.history, training.device and several minority features are for studies of the chain"
            )
        small = [
            N for N in self.N if 0 < N < self.training.K or (N % 2 and "antithetic" in self.latents)
        ]
        if small:
            raise ValueError(
                f"N must be 0, or at least training.K = {self.training.K}, and even where antithetic, got {small[0]}"
            )
        if self.looked % self.every or self.looked > self.training.T:
            raise ValueError(
                f"looked must be a multiple of every = {self.every} up to T = {self.training.T}, got {self.looked}"
            )
        return self

    def points(self) -> list[Cell]:
        """Every value of each axis with those of all others; or those of each drawn regime."""
        axes = {
            name: sorted(getattr(self, "lambda_" if name == "lambda" else name)) for name in AXES
        }
        regimes = self.drawn.values() if self.drawn else [{}]
        return [
            Cell(tuple(zip(AXES, values, strict=True)))
            for regime in regimes
            for values in itertools.product(
                *({**axes, **{name: [value] for name, value in regime.items()}}.values())
            )
        ]

    def cells(self) -> list[Cell]:
        """What tokens depend on, at every point."""
        return list(
            dict.fromkeys(
                point.restrict_to(*(name for name in AXES if name not in BESIDE))
                for point in self.points()
            )
        )

    def regimes(self, cell: Cell) -> list[DecayAndScale]:
        """Of the points in a cell."""
        within = (
            point.values for point in self.points() if cell.values.items() <= point.values.items()
        )
        return [DecayAndScale(**{name: point[name] for name in BESIDE}) for point in within]

    def blocks(self) -> dict[str, list[int]]:
        """Blocks of seeds, by their name FIRST-LAST."""
        return seed_blocks(self.first_seed, self.seeds, self.seeds_per_block)

    def training_config(self, cell: Cell) -> dict[str, Any]:
        """What the trainings of a cell are told: all but their seeds and the grid that they are points of."""
        told = {
            name: getattr(self, name)
            for name in ("draws", "data", "training", "every", "hold", "looked")
        }
        return {**told, "regimes": self.regimes(cell)}


def gate(data: Data, share: float) -> float:
    """The bias over the norm, which is the cosine from which a sample of one feature opens a neuron."""
    return share * math.sqrt(2 * math.log(data.d) / data.d)


class LateLearning(Section):
    """Every course by name."""

    studies: dict[Name, LearningStudy] = Field(min_length=1, description="by name")

    def studies_with_role(self, *roles: str) -> dict[str, LearningStudy]:
        """The courses with one of these roles."""
        return {name: course for name, course in self.studies.items() if course.role in roles}
