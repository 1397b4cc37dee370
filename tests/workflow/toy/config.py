"""The section `toy` of the config."""

from typing import Annotated, Any

from pydantic import Field

from rarefeat.config.cells import Cell, cell
from rarefeat.config.model import Data
from rarefeat.config.section import Section
from rarefeat.config.seeds import PerBlock, seed_blocks


class Learner(Section):
    """How labels are learned."""

    l2: float = Field(gt=0, description="decay of the logistic regression")
    test_samples: int = Field(ge=1, description="samples that it is tested on")


class ToyStudy(Section):
    """A named grid over the number of samples that a linear model learns from."""

    draws: str = Field(min_length=1, description="name that keys the random draws")
    seeds: int = Field(ge=1, description="replicas per number of samples")
    first_seed: int = Field(ge=0, description="the seeds are first_seed, first_seed + 1, ...")
    seeds_per_block: PerBlock = Field(description="replicas of one job")
    data: Data = Field(description="the data model")
    learner: Learner
    samples: list[Annotated[int, Field(ge=2)]] = Field(min_length=1, description="numbers of samples")

    def cells(self) -> list[Cell]:
        """One for each number of samples."""
        return [cell(samples=samples) for samples in self.samples]

    def blocks(self) -> dict[str, list[int]]:
        """Blocks of seeds, by their name FIRST-LAST."""
        return seed_blocks(self.first_seed, self.seeds, self.seeds_per_block)

    def learned(self, cell: Cell) -> dict[str, Any]:
        """What the job of a cell is told."""
        return {"draws": self.draws, "data": self.data, "learner": self.learner}


class Toy(Section):
    """Labels from sparse features."""

    studies: dict[str, ToyStudy] = Field(min_length=1, description="by name")
