"""The claims of the theory, a module for each part of it."""

from collections.abc import Mapping

import pandas as pd

from rarefeat.claims.claim import Measured
from rarefeat.run.job import Job
from rarefeat.studies.theory.claims import convergence, imbalance, initialisation, pruning, stage_one, stage_two
from rarefeat.studies.theory.claims.reader import Reader
from rarefeat.studies.theory.config import Theory

PARTS = (initialisation, stage_one, stage_two, convergence, pruning, imbalance)
CLAIMS = [claim for part in PARTS for claim in part.CLAIMS]


def measure(tables: Mapping[str, pd.DataFrame], job: Job) -> list[Measured]:
    """Every claim in every regime that there is."""
    reader = Reader(tables, job.part("theory", Theory))
    return [row for part in PARTS for row in part.measure(reader)]
