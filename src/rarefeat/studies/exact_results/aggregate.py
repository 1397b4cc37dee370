"""The numbers of every cell and block of one result in one table."""

from pathlib import Path

import pandas as pd

from rarefeat.run.command import run, stage
from rarefeat.run.job import Job, of_cells
from rarefeat.run.metadata import made_from, write_product
from rarefeat.storage.files import read_table
from rarefeat.storage.schema import ordered
from rarefeat.studies.exact_results import tables
from rarefeat.studies.exact_results.config import ExactResults, Result


def gathered(job: Job, results: Path) -> pd.DataFrame:
    """What the jobs of the cells wrote."""
    kind: type[Result] = ExactResults.model_fields[job.study].annotation
    study = job.part(job.study, kind)
    files = of_cells("probes", "parquet", job, study, lambda cell: {"parameters": study.parameters(cell)}, results)
    return pd.concat([read_table(path, expected).to_pandas() for _, path, expected in files], ignore_index=True)


def main() -> None:
    """Command line of the stage."""
    parser = stage(__doc__)
    parser.add_argument("--results", type=Path, required=True, help="folder of results")
    parser.add_argument("--output", type=Path, required=True, help="Parquet file to write")
    args = parser.parse_args()
    schema = getattr(tables, args.job.study.upper())
    write_product(args.output, ordered(schema, gathered(args.job, args.results)), made_from(args.job))


if __name__ == "__main__":
    run(main)
