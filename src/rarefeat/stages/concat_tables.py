"""Concatenated tables: the rows of several tables, or of every cell of a study."""

import pandas as pd

from rarefeat.workflow.files.schema import validate_sorted
from rarefeat.workflow.run.cli_helpers import load_function
from rarefeat.workflow.run.job import Job
from rarefeat.workflow.run.job_inputs import JobInputs


def join(tables: JobInputs, schema: str) -> pd.DataFrame:
    """Return the rows of several tables, sorted by the key of a schema, MODULE:NAME."""
    return concatenate(schema, list(tables.values()))


def collect(inputs: JobInputs, job: Job, schema: str) -> pd.DataFrame:
    """Return the rows of every cell and seed block of a study, sorted likewise."""
    (folder,) = job.files
    return concatenate(schema, [file.table() for file in inputs.files(folder)])


def concatenate(schema: str, tables: list[pd.DataFrame]) -> pd.DataFrame:
    """Return the rows of some tables, validated and sorted.

    Tables without rows have no types and are left out, unless all are empty.
    """
    table = pd.concat([table for table in tables if len(table)] or tables[:1], ignore_index=True)
    return validate_sorted(load_function(schema), table)
