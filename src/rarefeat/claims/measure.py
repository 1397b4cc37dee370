"""The claims of one kind of study, measured: a row for each claim and regime, before any verdict."""

import importlib
from pathlib import Path

from rarefeat.claims.claim import measured_table
from rarefeat.run.command import run, stage
from rarefeat.run.job import Job
from rarefeat.run.metadata import made_from, write_product
from rarefeat.storage.files import read_table


def main() -> None:
    """Command line of the stage: the job's module has CLAIMS, and `measure`, which takes the tables by name and the job."""
    parser = stage(__doc__)
    parser.add_argument("--tables", nargs="+", type=Path, required=True, help="the tables that the claims are read from")
    parser.add_argument("--output", type=Path, required=True, help="Parquet file to write")
    args = parser.parse_args()
    job: Job = args.job
    module = importlib.import_module(f"rarefeat.{job.stage}")
    tables = {path.name.removesuffix(".parquet"): read_table(path).to_pandas() for path in args.tables}
    write_product(args.output, measured_table(module.measure(tables, job), module.CLAIMS), made_from(job, args.tables))


if __name__ == "__main__":
    run(main)
