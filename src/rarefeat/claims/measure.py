"""The claims of one kind of study, measured: a row for each claim and regime, before any verdict."""

import pandas as pd

from rarefeat.claims.declared import declared
from rarefeat.claims.measured import Measured, measured_table
from rarefeat.core.errors import RarefeatError
from rarefeat.run.cli_helpers import run
from rarefeat.run.job import Job
from rarefeat.run.make import make


def table(found: list[Measured], job: Job) -> pd.DataFrame:
    """What `measure` of the job's module gave, beside the claims as they are declared."""
    known = declared(job.stage.partition(":")[0].split(".")[1])
    if known.digest != job.part("claims", str):
        raise RarefeatError(f"{known.file} has changed since this job was planned; start again")
    return measured_table(found, known)


def main() -> None:
    """Command line."""
    make(__doc__, table)


if __name__ == "__main__":
    run(main)
