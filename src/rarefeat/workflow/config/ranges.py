"""Latin hypercubes, drawn when a config is read; without torch, which takes longer to import."""

import hashlib
from collections.abc import Iterator, Mapping

import numpy as np
from pydantic import Field, model_validator

from rarefeat.workflow.config.section import Section


class Range(Section):
    """A range from which a parameter is drawn."""

    low: float = Field(gt=0)
    high: float = Field(gt=0)
    log: bool = Field(default=False, description="uniform in the logarithm")

    @model_validator(mode="after")
    def _ordered(self) -> "Range":
        if self.low > self.high:
            raise ValueError(f"low must not exceed high, got {self.low:g} and {self.high:g}")
        return self

    def point(self, share: float) -> float:
        """Return the point at a share of its length, or of the length of its logarithm."""
        if self.log:
            return self.low * (self.high / self.low) ** share
        return self.low + share * (self.high - self.low)


def random_words(key: str, count: int) -> Iterator[int]:
    """Return the first numbers of 32 bits of a stream, those of model/randomness.py."""
    seed = int.from_bytes(hashlib.sha256(key.encode()).digest()[:4], "little")
    return iter(np.random.RandomState(seed).randint(2**32, size=count, dtype=np.uint32).tolist())


def latin_hypercube(
    draws: str, seed: int, regimes: int, ranges: Mapping[str, Range]
) -> dict[str, list[float]]:
    """Draw a Latin hypercube: one value of each parameter in each of `regimes` strata.

    The strata of each parameter are permuted; permutation and values are those of torch.randperm
    and of torch.rand in float64.
    """
    columns = {}
    for name, interval in ranges.items():
        words, strata = (
            random_words(f"{draws}/{seed}/{name}", 3 * regimes - 1),
            list(range(regimes)),
        )
        for place in range(regimes - 1):
            other = place + next(words) % (regimes - place)
            strata[place], strata[other] = strata[other], strata[place]
        shares = (((next(words) << 32 | next(words)) % 2**53) / 2**53 for _ in range(regimes))
        columns[name] = [
            interval.point((stratum + share) / regimes)
            for stratum, share in zip(strata, shares, strict=True)
        ]
    return columns
