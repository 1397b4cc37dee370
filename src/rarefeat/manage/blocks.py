"""How many seeds to go to next, so that the first blocks of studies are tables and figures before the others are computed."""

import argparse
import itertools
from pathlib import Path

from rarefeat.config.cells import path_of
from rarefeat.config.names import near
from rarefeat.core.errors import RarefeatError
from rarefeat.project import Project, load
from rarefeat.run.cli_helpers import run


def stops(project: Project, studies: list[str]) -> list[int]:
    """Numbers of seeds that end with a block which is not probed yet, but for the last: a plain `snakemake` goes there.

    Raises:
        RarefeatError: for a study that the config does not have.
    """
    found = set()
    for name in studies:
        if name not in project.studies:
            raise RarefeatError(f"{name!r} is no study of the config{near(name, project.studies)}")
        study = project.studies[name]
        blocks = study.blocks()
        ends = itertools.accumulate(len(seeds) for seeds in blocks.values())
        for block, end in list(zip(blocks, ends, strict=True))[:-1]:
            files = (Path(project.results, path_of("probes", name, cell, block, "parquet")) for cell in study.cells())
            if not all(path.exists() for path in files):
                found.add(end)
    return sorted(found)


def main() -> None:
    """Print the numbers, one a line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("studies", nargs="+", help="studies, by name")
    parser.add_argument("--configfile", nargs="+", default=[], help="laid over config/config.yaml, as snakemake does")
    args = parser.parse_args()
    for number in stops(load("config/config.yaml", *args.configfile), args.studies):
        print(number)


if __name__ == "__main__":
    run(main)
