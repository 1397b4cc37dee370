"""The verdicts of one paper's claims, from what every kind of study has measured."""

from collections.abc import Mapping

import pandas as pd

from rarefeat.claims import verdict
from rarefeat.claims.tables import CHANGES, CLAIMS
from rarefeat.run.job import Job
from rarefeat.storage.schema import validate


def claims(tables: Mapping[str, pd.DataFrame], job: Job) -> pd.DataFrame:
    """Every claim in every regime with its verdict."""
    table = verdict.verdicts(pd.concat(tables.values(), ignore_index=True))
    # `sensitivity` has the columns of changes.
    return validate(CLAIMS, table[list(CLAIMS.columns)])


def sensitivity(tables: Mapping[str, pd.DataFrame], job: Job) -> pd.DataFrame:
    """What half and double of a hyper-parameter change of the claims' quantities."""
    return validate(
        CHANGES, verdict.sensitivity_rows(pd.concat(tables.values(), ignore_index=True))
    )
