"""The job that measures the claims of one study kind, before any verdict."""

from collections.abc import Callable

import pandas as pd

from rarefeat.claims.declarations import load_claims
from rarefeat.claims.measurements import measured_table
from rarefeat.errors import RarefeatError
from rarefeat.workflow.run.job import Job
from rarefeat.workflow.run.job_inputs import JobInputs, call


def measure_claims(measure: Callable, tables: JobInputs, job: Job) -> pd.DataFrame:
    """Return the table of measured claims."""
    [(kind, digest)] = job.config_section("claims", dict[str, str]).items()
    claim_set = load_claims(kind)
    if claim_set.digest != digest:
        raise RarefeatError(
            f"{claim_set.file}: edited after this run was planned; run snakemake again"
        )
    return measured_table(call(measure, tables, job), claim_set)
