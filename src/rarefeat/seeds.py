"""How the seeds of a study are cut into jobs."""


def seed_blocks(first_seed: int, seeds: int, seeds_per_block: int) -> dict[str, list[int]]:
    """Blocks of seeds, by their name FIRST-LAST; the last one may be shorter."""
    stop = first_seed + seeds
    starts = range(first_seed, stop, seeds_per_block)
    blocks = [range(first, min(first + seeds_per_block, stop)) for first in starts]
    return {f"{block[0]}-{block[-1]}": list(block) for block in blocks}
