"""Concatenated tables: the rows of several tables, or of every cell and seed block of a study."""

import pandas as pd

from rarefeat.run.cli_helpers import load_function
from rarefeat.run.job import Job
from rarefeat.run.job_inputs import JobInputs
from rarefeat.storage.schema import validate_sorted


def join(inputs: JobInputs, job: Job) -> dict[str, pd.DataFrame]:
    """Return tables that each hold the rows of several others, by the name of the table.

    The job names the schema of each, MODULE:NAME, whose key sorts the rows, and its sources.
    """
    schemas, sources = (
        job.config_section("schema", dict[str, str]),
        job.config_section("sources", dict[str, list[str]]),
    )
    return {
        name: concatenate(schemas[name], [inputs[source] for source in names])
        for name, names in sources.items()
    }


def collect(inputs: JobInputs, job: Job) -> pd.DataFrame:
    """Return all rows of the cell files that the job reads, sorted by the key of the schema that it names."""
    (folder,) = job.files
    return concatenate(
        job.config_section("schema", str), [file.table() for file in inputs.files(folder)]
    )


def concatenate(schema: str, tables: list[pd.DataFrame]) -> pd.DataFrame:
    """Return the rows of some tables, checked and sorted; tables without rows have no types, and are left out."""
    table = pd.concat([table for table in tables if len(table)] or tables[:1], ignore_index=True)
    return validate_sorted(load_function(schema), table)
