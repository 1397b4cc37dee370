"""The job that measures the claims of one study kind, before any verdict."""

import pandas as pd

from rarefeat.claims.declarations import load_claims
from rarefeat.claims.measurements import measured_table
from rarefeat.errors import RarefeatError
from rarefeat.workflow.run.cli_helpers import load_function
from rarefeat.workflow.run.job import Job
from rarefeat.workflow.run.job_inputs import JobInputs, call


def measure_claims(
    tables: JobInputs, job: Job, measure: str, claims: dict[str, str]
) -> pd.DataFrame:
    """Return the table of claims that a kind's function measures, by the digest of their file."""
    [(kind, digest)] = claims.items()
    claim_set = load_claims(kind)
    if claim_set.digest != digest:
        raise RarefeatError(
            f"{claim_set.file}: edited after this run was planned; run snakemake again"
        )
    return measured_table(call(load_function(measure), tables, job), claim_set)
