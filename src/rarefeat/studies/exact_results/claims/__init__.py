"""Measurements for the claims of the dissertation about the exact results."""

from collections.abc import Mapping

import pandas as pd

from rarefeat.claims.measurements import Measurement
from rarefeat.studies.exact_results.claims import (
    digit_neurons,
    looped_transformer,
    low_rank_attention,
    modular_addition,
    nuclear_norm,
    spurious_features,
    task_mixture,
)
from rarefeat.workflow.run.job import Job

PARTS = {
    "looped_transformer": looped_transformer.measure,
    "low_rank_attention": low_rank_attention.measure,
    "spurious_features": spurious_features.measure,
    "task_mixture": task_mixture.measure,
    "modular_addition": modular_addition.measure,
    "digit_neurons": digit_neurons.measure,
    "nuclear_norm": nuclear_norm.measure,
}
"""Function that measures the claims of each result's table."""


def measure(tables: Mapping[str, pd.DataFrame], job: Job) -> list[Measurement]:
    """Measure every claim in every regime of the tables."""
    return [row for name, measure_result in PARTS.items() for row in measure_result(tables[name])]
