"""What the dissertation states of the exact results, a module for each."""

from collections.abc import Mapping

import pandas as pd

from rarefeat.claims.claim import Measured
from rarefeat.run.job import Job
from rarefeat.studies.exact_results.claims import (
    digit_neurons,
    looped_transformer,
    low_rank_attention,
    modular_addition,
    nuclear_norm,
    spurious_features,
    task_mixture,
)

PARTS = {
    "looped_transformer": looped_transformer,
    "low_rank_attention": low_rank_attention,
    "spurious_features": spurious_features,
    "task_mixture": task_mixture,
    "modular_addition": modular_addition,
    "digit_neurons": digit_neurons,
    "nuclear_norm": nuclear_norm,
}
"""By the result's table."""
CLAIMS = [claim for part in PARTS.values() for claim in part.CLAIMS]


def measure(tables: Mapping[str, pd.DataFrame], job: Job) -> list[Measured]:
    """Every claim in every regime that there is."""
    return [row for name, part in PARTS.items() for row in part.measure(tables[name])]
