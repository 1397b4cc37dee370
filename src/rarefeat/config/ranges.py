"""Values that are drawn from ranges, before anything is run."""

from collections.abc import Mapping

import torch
from pydantic import Field, model_validator

from rarefeat.config.section import Section
from rarefeat.core.randomness import generator


class Range(Section):
    """Where a parameter is drawn from."""

    low: float = Field(gt=0)
    high: float = Field(gt=0)
    log: bool = Field(default=False, description="uniform in the logarithm")

    @model_validator(mode="after")
    def _ordered(self) -> "Range":
        if self.low > self.high:
            raise ValueError(f"low must not exceed high, got {self.low:g} and {self.high:g}")
        return self

    def at(self, share: float) -> float:
        """The point at a share of its length, or of that of its logarithm."""
        if self.log:
            return self.low * (self.high / self.low) ** share
        return self.low + share * (self.high - self.low)


def hypercube(draws: str, seed: int, regimes: int, ranges: Mapping[str, Range]) -> dict[str, list[float]]:
    """A Latin hypercube: of each parameter one draw in each of `regimes` strata, the strata in an order of their own."""
    columns = {}
    for name, found in ranges.items():
        random = generator(draws, seed, name)
        strata = torch.randperm(regimes, generator=random)
        shares = (strata + torch.rand(regimes, generator=random, dtype=torch.float64)) / regimes
        columns[name] = [found.at(float(share)) for share in shares]
    return columns
