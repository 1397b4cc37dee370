"""Section `fate` of the config: trainings until the rare feature is learned."""

import itertools
import math
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from rarefeat.workflow.config.cells import Cell
from rarefeat.workflow.config.model import Data, Training, Views
from rarefeat.workflow.config.names import Name
from rarefeat.workflow.config.ranges import Range, latin_hypercube
from rarefeat.workflow.config.section import Distinct, Section
from rarefeat.workflow.config.seeds import SeedsPerBlock, seed_blocks

Latents = Literal[
    "plain",
    "new_signs",
    "new_tokens",
    "planted_ties",
    "replacement",
    "antithetic",
    "apart",
    "without_top_5",
    "without_random_5",
    "without_top_15",
    "without_random_15",
]
AXES = ("latents", "N", "sigma", "share", "lambda", "eps_min")
FRESH_SAMPLE = 8192
"""Latent pairs of a pass of the growth terms, fresh ones in each, where no pair comes back."""
TRAINED_TOGETHER = ("share", "lambda")
"""Axes that tokens do not depend on: their values share the tokens of one cell."""


class DecayAndScale(Section):
    """Bias scale and weight decay of one of the trainings of a cell."""

    share: float
    lambda_: float = Field(alias="lambda")


class LatinHypercube(Section):
    """A Latin hypercube of regimes."""

    regimes: int = Field(ge=1, description="number of regimes")
    seed: int = Field(ge=0, description="seed of the hypercube")
    ranges: dict[Literal["N", "share", "lambda", "eps_min"], Range] = Field(
        min_length=1, description="by axis"
    )

    def values(self) -> list[dict[str, Any]]:
        """Return the values of every regime by axis.

        They are rounded to three digits, N to an integer. Each axis has one uniform draw in each
        stratum; the order of the strata is drawn per axis.
        """
        columns = latin_hypercube("fate/hypercube", self.seed, self.regimes, self.ranges)
        for name, values in columns.items():
            columns[name] = [
                round(value) if name == "N" else float(f"{value:.3g}") for value in values
            ]
        return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


class LearningStudy(Section):
    """Dense trainings at every point of a grid, or of drawn regimes.

    The simulator is `reduced` and the bias rule `follow`.
    """

    role: Literal["point", "fit", "test"] = Field(
        default="point",
        description="fit, test: the models of late learning are fitted on the one, and their"
        " predictions are tested on the other",
    )
    draws: Name = Field(description="namespace of the random streams; name of the study by default")
    seeds: int = Field(ge=1, description="replicas per point")
    first_seed: int = Field(ge=0, description="the seeds are first_seed, first_seed + 1, ...")
    seeds_per_block: SeedsPerBlock = Field(description="replicas of one job")
    data: Data
    training: Training
    latents: Distinct[Latents] = Field(
        min_length=1,
        description="plain: as in all other studies; new_signs, new_tokens: the sign of the rare"
        " feature, or the tokens that hold each feature, are drawn at every visit of a pair;"
        " planted_ties: fresh pairs, with the sign of the rare feature tied to others as in N"
        " pairs; replacement: visits to pairs drawn with replacement; antithetic: each pair twice,"
        " the second time with the sign of the rare feature flipped; apart: no other feature is"
        " active where the rare one is; without_top_k, without_random_k: from the step `looked` on"
        " the rare feature is taken out of the k pairs that pull a neuron most, or of k others",
    )
    N: Distinct[Annotated[int, Field(ge=0)]] = Field(
        min_length=1, description="training pairs; 0 for fresh pairs at every step"
    )
    sigma: Distinct[Annotated[float, Field(ge=0)]] = Field(
        min_length=1, description="standard deviation of the noise"
    )
    share: Distinct[Annotated[float, Field(gt=0)]] = Field(min_length=1, description="bias scale")
    lambda_: Distinct[Annotated[float, Field(gt=0)]] = Field(
        alias="lambda", min_length=1, description="l2 regularisation"
    )
    eps_min: Distinct[Annotated[float, Field(gt=0, le=1)]] = Field(
        min_length=1, description="eps_min / eps_max"
    )
    hypercube: LatinHypercube | None = Field(
        default=None, alias="drawn", description="regimes drawn on these axes, instead of a grid"
    )
    every: int = Field(ge=1, description="steps between two evaluations of the rare feature")
    hold: int = Field(
        ge=0,
        description="a replica ends once it has had the feature at every evaluation of so many"
        " steps; 0: none ends before T",
    )
    looked: int = Field(
        ge=1,
        description="step at which the growth terms of the rare feature are measured on the whole"
        " sample; a feature that is learned after it is learned late",
    )

    @model_validator(mode="after")
    def _consistent(self) -> "LearningStudy":
        if self.training.bias.rule != "follow":
            raise ValueError(f"training.bias.rule must be follow, got {self.training.bias.rule}")
        if (
            self.data.views != Views()
            or self.data.balance
            or self.training.history
            or self.training.device != "cpu"
            or len(self.data.minority) != 1
        ):
            raise ValueError(
                "data.views, data.balance, training.history, training.device and several minority"
                " features are for studies of the chain"
            )
        small = [
            N for N in self.N if 0 < N < self.training.K or (N % 2 and "antithetic" in self.latents)
        ]
        if small:
            raise ValueError(
                f"N must be 0, or at least training.K = {self.training.K}, and even for antithetic"
                f" latents, got {small[0]}"
            )
        if 0 in self.N and set(self.latents) - {"plain", "antithetic", "apart"}:
            raise ValueError(
                f"latents must be plain, antithetic or apart for fresh pairs, N = 0, got"
                f" {self.latents}"
            )
        alone = len(self.share) == len(self.lambda_) == 1
        if not alone and any(name.startswith("without_") for name in self.latents):
            raise ValueError("latents: without_... needs one share and one lambda")
        if self.looked % self.every or self.looked > self.training.T:
            raise ValueError(
                f"looked must be a multiple of every = {self.every} up to T = {self.training.T},"
                f" got {self.looked}"
            )
        return self

    def points(self) -> list[Cell]:
        """Return the points of the grid, or those of the drawn regimes."""
        axes = {
            name: sorted(getattr(self, "lambda_" if name == "lambda" else name)) for name in AXES
        }
        regimes = self.hypercube.values() if self.hypercube else [{}]
        return [
            Cell(tuple(zip(AXES, values, strict=True)))
            for regime in regimes
            for values in itertools.product(
                *({**axes, **{name: [value] for name, value in regime.items()}}.values())
            )
        ]

    def cells(self) -> list[Cell]:
        """Return the cells: points without the axes that tokens do not depend on."""
        return list(
            dict.fromkeys(
                point.restrict_to(*(name for name in AXES if name not in TRAINED_TOGETHER))
                for point in self.points()
            )
        )

    def regimes(self, cell: Cell) -> list[DecayAndScale]:
        """Return bias scale and weight decay of every point in a cell."""
        points = (point.values for point in self.points())
        return [
            DecayAndScale(**{name: point[name] for name in TRAINED_TOGETHER})
            for point in points
            if cell.values.items() <= point.items()
        ]

    def blocks(self) -> dict[str, list[int]]:
        """Return the seed blocks by name, FIRST-LAST."""
        return seed_blocks(self.first_seed, self.seeds, self.seeds_per_block)

    def training_config(self, cell: Cell) -> dict[str, Any]:
        """Return the job config of a cell: everything but its seeds and the grid."""
        names = ("draws", "data", "training", "every", "hold", "looked")
        return {name: getattr(self, name) for name in names} | {"regimes": self.regimes(cell)}


def gate(data: Data, share: float) -> float:
    """Return the bias over the norm of a neuron, for a bias scale.

    It is the cosine to a feature above which a sample of that feature alone opens the gate.
    """
    return share * math.sqrt(2 * math.log(data.d) / data.d)


class LateLearning(Section):
    """The section `fate`: studies of late learning by name."""

    studies: dict[Name, LearningStudy] = Field(min_length=1, description="by name")

    def studies_with_role(self, *roles: str) -> dict[str, LearningStudy]:
        """Return the studies that have one of some roles."""
        return {name: study for name, study in self.studies.items() if study.role in roles}
