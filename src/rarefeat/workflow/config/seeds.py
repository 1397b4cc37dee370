"""The seeds of a study, and how they are cut into jobs."""

import itertools
from collections.abc import Iterator
from typing import Annotated

from pydantic import Field

from rarefeat.workflow.config.names import Name
from rarefeat.workflow.config.section import Section

SeedsPerBlock = (
    Annotated[int, Field(ge=1)] | Annotated[list[Annotated[int, Field(ge=1)]], Field(min_length=1)]
)
"""The size of every block; or of the first ones, of which the last is that of all others."""


def seed_blocks(
    first_seed: int, seeds: int, seeds_per_block: int | list[int]
) -> dict[str, list[int]]:
    """Return seed blocks by their name FIRST-LAST; the last one may be shorter.

    With more seeds the blocks before such a last one stay as they are.
    """

    def cut() -> Iterator[range]:
        sizes = [seeds_per_block] if isinstance(seeds_per_block, int) else seeds_per_block
        start, stop = first_seed, first_seed + seeds
        for size in itertools.chain(sizes, itertools.repeat(sizes[-1])):
            if start >= stop:
                return
            yield range(start, min(start + size, stop))
            start += size

    return {f"{block[0]}-{block[-1]}": list(block) for block in cut()}


class Replicas(Section):
    """The seeds of a study, and how they are cut into jobs."""

    seeds: int = Field(ge=1, description="replicas of every cell")
    first_seed: int = Field(ge=0, description="the seeds are first_seed, first_seed + 1, ...")
    seeds_per_block: SeedsPerBlock = Field(
        description="replicas of one job, no number depends on it; or a list: the sizes of the"
        " first blocks, the last that of all others"
    )

    def blocks(self) -> dict[str, list[int]]:
        """Blocks of seeds, by their name FIRST-LAST."""
        return seed_blocks(self.first_seed, self.seeds, self.seeds_per_block)


class SeedSettings(Replicas):
    """The same, with the name of their draws."""

    draws: Name = Field(description="name that keys the random draws: the study's own if not given")
