"""Means over seeds of all results, beside what is stated and what is printed."""

from collections.abc import Mapping

import pandas as pd

from rarefeat.core.statistics import UNBOUNDED, student_interval
from rarefeat.run.job import Job
from rarefeat.storage.schema import validate_sorted
from rarefeat.studies.exact_results.paper_values import PRINTED
from rarefeat.studies.exact_results.tables import EXACT_RESULTS

OVER_SEEDS = {"spurious_features"}
"""Results whose axis is drawn by the seed: their rows come together over it."""


SHARE = (0.0, 1.0)
SHARES = {
    "id_accuracy",
    "ood_accuracy",
    "rank_ood_accuracy",
    "accuracy",
    "one_frequency",
    "aligned",
    "median_cosine",
}


def summary(tables: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """A row for each quantity at each place of its axis."""
    rows = []
    for result, table in tables.items():
        table = table.assign(at=0.0) if result in OVER_SEEDS else table
        for (setting, at, quantity), part in table.groupby(["setting", "at", "quantity"]):
            mean, _, low, high, n = student_interval(
                part["value"].to_numpy(), inside=SHARE if quantity in SHARES else UNBOUNDED
            )
            printed = PRINTED.get(
                (result, setting, quantity, at), PRINTED.get((result, setting, quantity))
            )
            rows.append(
                (result, setting, at, quantity, mean, low, high, n, part["stated"].mean(), printed)
            )
    found = pd.DataFrame(rows, columns=list(EXACT_RESULTS.columns))
    return validate_sorted(EXACT_RESULTS, found.astype({"printed": float}))


def exact_results_summary(tables: Mapping[str, pd.DataFrame], job: Job) -> pd.DataFrame:
    """The summary of the tables of all results."""
    return summary(tables)
