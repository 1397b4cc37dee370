"""The rates that the search chooses, compared with those that the settings have."""

from collections.abc import Mapping

import pandas as pd

from rarefeat.studies.two_layer.config import LEARNERS, Rates
from rarefeat.studies.two_layer.tables import TWO_LAYER_RATES
from rarefeat.workflow.files.schema import validate_sorted
from rarefeat.workflow.run.job import Job

RATE_TOLERANCE = 0.01
"""Accuracy over the steps that is no difference."""


def choose(table: pd.DataFrame) -> dict[str, float]:
    """Choose for each learner the smallest rates whose held-out accuracy is near the best.

    The accuracy is the mean over the steps and seeds. At the end many candidates are perfect; the
    mean over the steps also says which is so soonest. Of those within RATE_TOLERANCE of the best
    the smallest steps are the least noisy.
    """
    chosen: dict[str, float] = {}
    for learner, candidates in table.groupby("learner"):
        keys = list(LEARNERS[str(learner)][1])
        means = candidates.groupby(keys)["held_out_over_steps"].mean().sort_index()
        best = means[means >= means.max() - RATE_TOLERANCE].index[0]
        chosen |= dict(zip(keys, best if isinstance(best, tuple) else (best,), strict=True))
    return {key: float(value) for key, value in chosen.items()}


def compare_with_search(configured: dict[str, Rates], table: pd.DataFrame) -> pd.DataFrame:
    """Return the rates that settings have with those that the search chooses.

    Columns setting, rate, configured, chosen.
    """
    rows = []
    for name, rates in configured.items():
        for rate, value in choose(table[table["setting"] == name]).items():
            configured_rate = getattr(rates, rate)
            rows.append(
                {"setting": name, "rate": rate, "configured": configured_rate, "chosen": value}
            )
    return pd.DataFrame(rows)


def two_layer_rates(tables: Mapping[str, pd.DataFrame], job: Job) -> pd.DataFrame:
    """Return the rates of the settings with those that the search chooses."""
    return validate_sorted(
        TWO_LAYER_RATES,
        compare_with_search(
            job.config_section("rates", dict[str, Rates]), tables["two_layer_search"]
        ),
    )
