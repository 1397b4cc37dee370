"""Theorem 4.9 on networks that are trained: their margin, and the frequencies of their neurons."""

import pandas as pd

from rarefeat.claims.measurements import Measurement, measurement
from rarefeat.studies.exact_results.claims.table_reader import settings, values_by_seed

STUDY = "modular_addition"
SMALLER = "the printed sizes are out of reach: a reduced one"


def measure(table: pd.DataFrame) -> list[Measurement]:
    """Return a row for each table, at the end of training."""
    rows = []
    for setting in settings(table, "margin_ratio"):
        for claim, quantity in (
            ("4.9-margin", "margin_ratio"),
            ("4.9-frequency", "one_frequency"),
            ("4.9-phase", "phase"),
        ):
            rows.append(
                measurement(
                    claim,
                    STUDY,
                    {"setting": setting},
                    values_by_seed(table, setting, quantity),
                    remark=SMALLER,
                )
            )
        share = values_by_seed(table, setting, "frequencies") / values_by_seed(
            table, setting, "frequencies", column="stated"
        )
        rows.append(measurement("4.9-every", STUDY, {"setting": setting}, share, remark=SMALLER))
    return rows
