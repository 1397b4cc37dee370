"""The accuracies of every cell and block of a toy study in one table."""

from pathlib import Path

import pandas as pd
from rarefeat.studies.toy.config import ToyStudy
from rarefeat.studies.toy.tables import ACCURACY

from rarefeat.run.command import run, stage
from rarefeat.run.job import Job, of_cells
from rarefeat.run.metadata import made_from, write_product
from rarefeat.storage.files import read_table
from rarefeat.storage.schema import ordered


def main() -> None:
    """Command line of the stage."""
    parser = stage(__doc__)
    parser.add_argument("--results", type=Path, required=True, help="folder of results")
    parser.add_argument("--output", required=True, help="Parquet file to write")
    args = parser.parse_args()
    job: Job = args.job
    study = job.part(job.study, ToyStudy)
    files = of_cells("learned", "parquet", job, study, study.learned, args.results)
    table = pd.concat(read_table(path, expected).to_pandas().assign(**cell.values) for cell, path, expected in files)
    write_product(args.output, ordered(ACCURACY, table), made_from(job))


if __name__ == "__main__":
    run(main)
