"""The tables of several studies in one: the last, cheap step."""

import importlib
from pathlib import Path

import pandas as pd

from rarefeat.run.command import run, stage
from rarefeat.run.job import Job
from rarefeat.run.metadata import made_from, write_product
from rarefeat.storage.files import read_table
from rarefeat.storage.schema import ordered


def joined(schema: str, tables: list[Path]) -> pd.DataFrame:
    """All rows, sorted by their key. schema: MODULE:NAME, from the package's root."""
    module, name = schema.split(":")
    kind = getattr(importlib.import_module(f"rarefeat.{module}"), name)
    return ordered(kind, pd.concat([read_table(path).to_pandas() for path in tables], ignore_index=True))


def main() -> None:
    """Command line of the stage."""
    parser = stage(__doc__)
    parser.add_argument("--tables", nargs="+", type=Path, required=True, help="tables of one schema")
    parser.add_argument("--output", type=Path, required=True, help="Parquet file to write")
    args = parser.parse_args()
    job: Job = args.job
    write_product(args.output, joined(job.part("schema", str), args.tables), made_from(job, args.tables))


if __name__ == "__main__":
    run(main)
