"""Values that are drawn from ranges, before anything is run; without torch, whose import costs more than reading a config."""

import hashlib
from collections.abc import Iterator, Mapping

import numpy as np
from pydantic import Field, model_validator

from rarefeat.config.section import Section


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


def random_words(key: str, count: int) -> Iterator[int]:
    """What the generator of STUDY/SEED/PURPOSE (core/randomness.py), a Mersenne Twister, gives first: numbers of 32 bits."""
    seed = int.from_bytes(hashlib.sha256(key.encode()).digest()[:4], "little")
    return iter(np.random.RandomState(seed).randint(2**32, size=count, dtype=np.uint32).tolist())


def latin_hypercube(
    draws: str, seed: int, regimes: int, ranges: Mapping[str, Range]
) -> dict[str, list[float]]:
    """A Latin hypercube: of each parameter one draw in each of `regimes` strata, the strata in an order of their own.

    Order and draws are those of torch.randperm and of torch.rand in float64, from the generator of these draws.
    """
    columns = {}
    for name, found in ranges.items():
        drawn, strata = (
            random_words(f"{draws}/{seed}/{name}", 3 * regimes - 1),
            list(range(regimes)),
        )
        for place in range(regimes - 1):
            other = place + next(drawn) % (regimes - place)
            strata[place], strata[other] = strata[other], strata[place]
        shares = (((next(drawn) << 32 | next(drawn)) % 2**53) / 2**53 for _ in range(regimes))
        columns[name] = [
            found.at((stratum + share) / regimes)
            for stratum, share in zip(strata, shares, strict=True)
        ]
    return columns
