"""The numbers, and the judgements of the scores, of every cell and block of one sweep in one table each."""

from pathlib import Path

import pandas as pd

from rarefeat.run.command import run, stage
from rarefeat.run.job import Job, of_cells
from rarefeat.run.metadata import made_from, write_product
from rarefeat.storage.files import read_table
from rarefeat.storage.schema import ordered
from rarefeat.studies.selection.config import Sweep, point_of
from rarefeat.studies.selection.tables import SELECTION, SELECTION_SCORES


def gathered(kind: str, job: Job, sweep: Sweep, results: Path) -> pd.DataFrame:
    """The files of a kind, each row with its point and eps_min."""
    parts = []
    for cell, path, expected in of_cells(kind, "parquet", job, sweep, lambda cell: sweep.trained(), results):
        table = read_table(path, expected).to_pandas()
        parts.append(table.assign(point=point_of(cell), eps_min=float(cell["eps_min"])))
    return pd.concat(parts, ignore_index=True)


def main() -> None:
    """Command line of the stage."""
    parser = stage(__doc__)
    parser.add_argument("--results", type=Path, required=True, help="folder of results")
    parser.add_argument("--output", type=Path, nargs=2, required=True, help="numbers, and judgements of scores")
    args = parser.parse_args()
    job: Job = args.job
    sweep = job.part(job.study, Sweep)
    for kind, schema, path in zip(("probes", "scores"), (SELECTION, SELECTION_SCORES), args.output, strict=True):
        write_product(path, ordered(schema, gathered(kind, job, sweep, args.results)), made_from(job))


if __name__ == "__main__":
    run(main)
