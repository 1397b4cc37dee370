"""The jobs of claims: measurements of a kind of study, then verdicts and sensitivity of a paper."""

from collections.abc import Mapping

import pandas as pd

from rarefeat.claims.declarations import load_claims
from rarefeat.claims.measurements import measured_table
from rarefeat.claims.tables import CLAIMS
from rarefeat.claims.verdict import sensitivity_rows, verdicts
from rarefeat.errors import RarefeatError
from rarefeat.workflow.run.cli_helpers import load_function
from rarefeat.workflow.run.job import Job
from rarefeat.workflow.run.job_inputs import JobInputs, call


def measured(tables: JobInputs, job: Job, measure: str, claims: dict[str, str]) -> pd.DataFrame:
    """Return the table of claims that a kind's function measures, by the digest of their file."""
    [(kind, digest)] = claims.items()
    claim_set = load_claims(kind)
    if claim_set.digest != digest:
        raise RarefeatError(
            f"{claim_set.file}: edited after this run was planned; run snakemake again"
        )
    return measured_table(call(load_function(measure), tables, job), claim_set)


def judged(tables: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Return every claim in every regime with its verdict."""
    table = verdicts(pd.concat(tables.values(), ignore_index=True))
    # Columns of changes belong to `sensitivity`.
    return table[list(CLAIMS.columns)]


def sensitivity(tables: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Return the changes of the claims' quantities by half and double of a hyper-parameter."""
    return sensitivity_rows(pd.concat(tables.values(), ignore_index=True))
