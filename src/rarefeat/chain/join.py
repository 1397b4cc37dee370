"""Tables of rows that there are: of several studies in one, or of every cell and block of a study."""

import importlib
from collections.abc import Mapping

import pandas as pd

from rarefeat.run.job import Job
from rarefeat.run.read import Read
from rarefeat.storage.schema import ordered


def join(tables: Mapping[str, pd.DataFrame], job: Job) -> pd.DataFrame:
    """All rows of some tables, sorted by the key of the schema that the job names, MODULE:NAME."""
    module, _, name = job.part("schema", str).partition(":")
    schema = getattr(importlib.import_module(f"rarefeat.{module}"), name)
    return ordered(schema, stacked(list(tables.values())))


def collect(read: Read, job: Job) -> pd.DataFrame:
    """All rows of the files of cells in the folder that the job reads, likewise."""
    (folder,) = job.files
    return join({str(file.path): file.table() for file in read.files(folder)}, job)


def stacked(parts: list[pd.DataFrame]) -> pd.DataFrame:
    """Tables on top of each other; those without rows know no types."""
    return pd.concat([part for part in parts if len(part)] or parts[:1], ignore_index=True)
