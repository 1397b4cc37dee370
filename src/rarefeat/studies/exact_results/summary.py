"""Means over seeds of all results, with the stated and the printed values."""

from collections.abc import Mapping

import pandas as pd

from rarefeat.statistics import UNBOUNDED, student_interval
from rarefeat.studies.exact_results.paper_values import PRINTED
from rarefeat.studies.exact_results.tables import EXACT_RESULTS
from rarefeat.workflow.files.schema import validate_sorted
from rarefeat.workflow.run.job import Job

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
    """Return a row for each quantity at each place of its axis."""
    rows = []
    for result, table in tables.items():
        table = table.assign(at=0.0) if result in OVER_SEEDS else table
        for (setting, place, quantity), group in table.groupby(["setting", "at", "quantity"]):
            mean, _, low, high, n = student_interval(
                group["value"].to_numpy(), inside=SHARE if quantity in SHARES else UNBOUNDED
            )
            printed = PRINTED.get(
                (result, setting, quantity, place), PRINTED.get((result, setting, quantity))
            )
            rows.append(
                (
                    result,
                    setting,
                    place,
                    quantity,
                    mean,
                    low,
                    high,
                    n,
                    group["stated"].mean(),
                    printed,
                )
            )
    means = pd.DataFrame(rows, columns=list(EXACT_RESULTS.columns))
    return validate_sorted(EXACT_RESULTS, means.astype({"printed": float}))


def exact_results_summary(tables: Mapping[str, pd.DataFrame], job: Job) -> pd.DataFrame:
    """Return the summary of the tables of all results."""
    return summary(tables)
