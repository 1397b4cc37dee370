"""The section `pruning_premise` of the config."""

import itertools
from typing import Annotated, Any

from pydantic import Field

from rarefeat.config.cells import Cell, cell
from rarefeat.config.model import Arm, ArmName, Data, Training
from rarefeat.config.names import Name
from rarefeat.config.section import Distinct, Section
from rarefeat.config.seeds import SeedSettings
from rarefeat.core.arms import ARMS

AXES = ("purity", "alpha", "share", "lambda", "eps_min")


class Points(Section):
    """Every combination of these values."""

    purity: Distinct[Annotated[float, Field(ge=0, le=1)]] = Field(
        min_length=1, description="initial weights: 0 as drawn, 1 pure neurons, between them mixed"
    )
    alpha: Distinct[Annotated[float, Field(gt=0, lt=1)]] = Field(
        min_length=1, description="pruning ratio alpha"
    )
    share: Distinct[Annotated[float, Field(ge=0)]] = Field(
        min_length=1, description="bias scale, `training.bias.share`"
    )
    lambda_: Distinct[Annotated[float, Field(ge=0)]] = Field(
        min_length=1, alias="lambda", description="l2 regularisation, `training.lambda`"
    )
    eps_min: Distinct[Annotated[float, Field(gt=0, le=1)]] = Field(
        min_length=1, description="eps_min / eps_max"
    )


class PruningPremise(SeedSettings):
    """Pruning from initial weights by hand, with one rare feature; the section is its only study.

    The initial weights of all neurons have one norm; pure ones are as many for every feature.
    """

    data: Data = Field(description="the data model and the sizes of its samples")
    training: Training = Field(description="the encoder; lambda and the bias scale vary")
    sigma: float = Field(ge=0, description="standard deviation of the noise")
    onset: int = Field(ge=1, description="first step with a mask; all arms are dense before it")
    arms: Distinct[ArmName] = Field(
        min_length=1, description="masks, each by eq. (5) and by the gradient of the masked network"
    )
    points: dict[Name, Points] = Field(
        min_length=1, description="named blocks; what several blocks hold is computed once"
    )

    def cells(self) -> list[Cell]:
        """Return a cell for each point of the blocks, each once."""
        points = {
            point
            for block in self.points.values()
            for point in itertools.product(*block.model_dump().values())
        }
        return [cell(**dict(zip(AXES, point, strict=True))) for point in sorted(points)]

    def job_config(self, cell: Cell) -> dict[str, Any]:
        """Return the config of the job of a cell: its training and its arms, dense first."""
        training = self.training.model_dump(by_alias=True) | {"lambda": cell["lambda"]}
        training["bias"] |= {"share": cell["share"]}
        masks = [
            Arm(
                arm=name,
                alpha=cell["alpha"] if ARMS[name].ratio else 0.0,
                onset=self.onset,
                pruned_update=update,
            )
            for name in self.arms
            for update in ("unmasked", "straight_through")
        ]
        return {
            "draws": self.draws,
            "data": self.data,
            "training": Training(**training),
            "sigma": self.sigma,
            "arms": [Arm(arm="dense"), *masks],
        }
