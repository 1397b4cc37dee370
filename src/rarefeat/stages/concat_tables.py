"""Concatenated tables: the rows of several tables, or of every cell of a study."""

import pandas as pd

from rarefeat.workflow.files.schema import validate_sorted
from rarefeat.workflow.run.cli_helpers import load_function
from rarefeat.workflow.run.job import Job
from rarefeat.workflow.run.job_inputs import JobInputs


def join(inputs: JobInputs, job: Job) -> dict[str, pd.DataFrame]:
    """Concatenate tables of several studies into one table per name.

    Inputs: the source tables. Config: `schema`, MODULE:NAME of the schema of each table by its
    name, whose key sorts the rows; `sources`, the names of its source tables. Output: the tables by
    name.
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
    """Concatenate the rows of every cell and seed block of a study.

    Inputs: the files of cells in one folder. Config: the study by its name; `schema`, MODULE:NAME
    of the schema of the table, whose key sorts the rows. Output: the table.
    """
    (folder,) = job.files
    return concatenate(
        job.config_section("schema", str), [file.table() for file in inputs.files(folder)]
    )


def concatenate(schema: str, tables: list[pd.DataFrame]) -> pd.DataFrame:
    """Return the rows of some tables, validated and sorted.

    Tables without rows have no types and are left out, unless all are empty.
    """
    table = pd.concat([table for table in tables if len(table)] or tables[:1], ignore_index=True)
    return validate_sorted(load_function(schema), table)
