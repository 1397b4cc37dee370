"""The claims of the theory, a module for each part of it."""

from collections.abc import Mapping

import pandas as pd

from rarefeat.claims.measured import Measured
from rarefeat.run.job import Job
from rarefeat.studies.theory.claims import convergence, imbalance, initialisation, pruning, stage_one, stage_two
from rarefeat.studies.theory.claims.reader import Reader
from rarefeat.studies.theory.config import Theory

PARTS = (
    initialisation.measure, stage_one.measure, stage_two.measure, convergence.measure, pruning.measure, imbalance.measure,
)  # fmt: skip


def measure(tables: Mapping[str, pd.DataFrame], job: Job) -> list[Measured]:
    """Every claim in every regime that there is."""
    reader = Reader(tables, job.part("theory", Theory))
    return [row for measured in PARTS for row in measured(reader)]
