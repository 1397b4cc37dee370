"""The tables of verdicts and of sensitivity of one paper, from the measurements of all kinds."""

from collections.abc import Mapping

import pandas as pd

from rarefeat.claims import verdict
from rarefeat.claims.tables import CHANGES, CLAIMS
from rarefeat.workflow.files.schema import validate
from rarefeat.workflow.run.job import Job


def claims(tables: Mapping[str, pd.DataFrame], job: Job) -> pd.DataFrame:
    """Return every claim in every regime with its verdict."""
    table = verdict.verdicts(pd.concat(tables.values(), ignore_index=True))
    # Columns of changes belong to `sensitivity`.
    return validate(CLAIMS, table[list(CLAIMS.columns)])


def sensitivity(tables: Mapping[str, pd.DataFrame], job: Job) -> pd.DataFrame:
    """Return the changes of the claims' quantities by half and double of a hyper-parameter."""
    return validate(
        CHANGES, verdict.sensitivity_rows(pd.concat(tables.values(), ignore_index=True))
    )
