"""Section `learners` of the config: what learns, on which pairs, at which frequencies."""

import itertools
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from rarefeat.training.choices import BUILT_IN
from rarefeat.workflow.config.cells import Cell, cell
from rarefeat.workflow.config.model import Arm, Data, Training, one_of
from rarefeat.workflow.config.names import Name
from rarefeat.workflow.config.section import Distinct, Section
from rarefeat.workflow.config.seeds import SeedSettings

Option = bool | int | float | str
PAIRS = "returning", "fresh"


class LearnerChoice(Section):
    """What learns. Each of the four is one that is built in, or MODULE:NAME of your own."""

    data_law: one_of(BUILT_IN["data_law"]) = Field(
        default="paper", description="which features a sample has"
    )
    data_options: dict[str, Option] = Field(default={}, description="options of the data law")
    encoder: one_of(BUILT_IN["encoder"]) = Field(
        default="paper", description="module from tokens to embeddings"
    )
    encoder_options: dict[str, Option] = Field(default={}, description="options of the encoder")
    loss: one_of(BUILT_IN["loss"]) = Field(
        default="infonce", description="function of two batches of embeddings"
    )
    loss_options: dict[str, Option] = Field(default={}, description="options of the loss")
    optimiser: one_of(BUILT_IN["optimiser"]) = Field(
        default="sgd", description="optimiser of torch"
    )
    optimiser_options: dict[str, Option] = Field(default={}, description="options of the optimiser")
    arm: Arm = Field(default=Arm(arm="dense"), description="pruning rule")


class LearnerStudy(SeedSettings):
    """Learners at every frequency, on pairs that come back and on fresh ones."""

    data: Data
    training: Training = Field(description="eta is used where `rates` is empty")
    sigma: float = Field(ge=0, description="standard deviation of the noise")
    learners: dict[Name, LearnerChoice] = Field(min_length=1, description="by name")
    pairs: Distinct[Literal["returning", "fresh"]] = Field(
        min_length=1,
        description="N pairs that come back, with fresh noise; or pairs that are seen once",
    )
    eps_min: Distinct[Annotated[float, Field(gt=0, le=1)]] = Field(
        min_length=1, description="frequency of the rare features, eps_min / eps_max"
    )
    rates: Distinct[Annotated[float, Field(gt=0)]] = Field(
        default=[],
        description="learning rates, of which each learner takes the one at which a linear readout"
        " finds the features best on balanced data; without any, training.eta",
    )
    rate_seeds: int = Field(ge=1, description="replicas for the choice of the rate")
    first_rate_seed: int = Field(ge=0, description="the first of their seeds")

    @model_validator(mode="after")
    def _consistent(self) -> "LearnerStudy":
        if self.training.K > self.data.N:
            raise ValueError(
                f"training.K must not exceed data.N = {self.data.N}, got {self.training.K}"
            )
        if self.training.lambda_ * max(self.rates, default=0) >= 1:
            raise ValueError(
                f"rates must be below 1 / lambda = {1 / self.training.lambda_:g}, got"
                f" {max(self.rates):g}"
            )
        chosen = range(self.first_rate_seed, self.first_rate_seed + self.rate_seeds)
        if self.rates and {*chosen} & {*range(self.first_seed, self.first_seed + self.seeds)}:
            raise ValueError(
                "first_rate_seed: rates must be chosen on other seeds than the study's"
            )
        return self

    def cells(self) -> list[Cell]:
        """Return a cell for each learner, kind of pairs and frequency."""
        points = itertools.product(self.learners, self.pairs, sorted(self.eps_min))
        return [cell(learner=name, pairs=pairs, eps_min=eps) for name, pairs, eps in points]

    def training_config(self, cell: Cell) -> dict[str, Any]:
        """Return the job config of a cell: the learner, and what all have."""
        names = ("draws", "data", "training", "sigma")
        return {name: getattr(self, name) for name in names} | {
            "learner": self.learners[cell["learner"]]
        }

    def rate_config(self, cell: Cell) -> dict[str, Any]:
        """Return the job config of the choice of a learner's rate."""
        names = ("rates", "rate_seeds", "first_rate_seed")
        return self.training_config(cell) | {name: getattr(self, name) for name in names}


class LearnerStudies(Section):
    """The section `learners`: studies by name."""

    studies: dict[Name, LearnerStudy] = Field(min_length=1, description="by name")
