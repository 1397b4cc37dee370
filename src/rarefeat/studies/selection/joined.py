"""The digits of every rho and block of seeds in one table."""

from pathlib import Path

import pandas as pd

from rarefeat.run.command import run, stage
from rarefeat.run.job import Job, of_cells
from rarefeat.run.metadata import made_from, write_product
from rarefeat.storage.files import read_table
from rarefeat.storage.schema import ordered
from rarefeat.studies.selection.config import Digits
from rarefeat.studies.selection.tables import SELECTION_DIGITS


def main() -> None:
    """Command line of the stage."""
    parser = stage(__doc__)
    parser.add_argument("--results", type=Path, required=True, help="folder of results")
    parser.add_argument("--output", type=Path, required=True, help="Parquet file to write")
    args = parser.parse_args()
    job: Job = args.job
    digits = job.part(job.study, Digits)

    files = of_cells("probes", "parquet", job, digits, lambda cell: digits.trained(), args.results)
    parts = [read_table(path, expected).to_pandas() for _, path, expected in files]
    write_product(args.output, ordered(SELECTION_DIGITS, pd.concat(parts, ignore_index=True)), made_from(job))


if __name__ == "__main__":
    run(main)
