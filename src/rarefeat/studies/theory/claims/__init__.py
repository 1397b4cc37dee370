"""The claims of the theory, a module for each part of it."""

from collections.abc import Mapping

import pandas as pd

from rarefeat.claims.measurements import Measurement
from rarefeat.studies.theory.claims import (
    convergence,
    imbalance,
    initialisation,
    pruning,
    stage_one,
    stage_two,
)
from rarefeat.studies.theory.claims.table_reader import ClaimTableReader
from rarefeat.studies.theory.config import Theory
from rarefeat.workflow.run.job import Job

PARTS = (
    initialisation.measure, stage_one.measure, stage_two.measure, convergence.measure,
    pruning.measure, imbalance.measure,
)  # fmt: skip


def measure(tables: Mapping[str, pd.DataFrame], job: Job) -> list[Measurement]:
    """Measure every claim in every regime that has tables."""
    reader = ClaimTableReader(tables, job.config_section("theory", Theory))
    return [row for measure_part in PARTS for row in measure_part(reader)]
