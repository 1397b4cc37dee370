"""Section 6.3.1: what holds of every linear rule, and what the text says of two."""

import pandas as pd

from rarefeat.claims.measurements import Measurement, measurement
from rarefeat.studies.exact_results.claims.table_reader import settings, values_by_seed

STUDY = "nuclear_norm"
OPEN = "the text prints neither the size of the sample nor the penalty nor the rate"


def measure(table: pd.DataFrame) -> list[Measurement]:
    """A row for each reading and size; for the effect of the penalty for each penalty."""
    rows = []
    for setting in settings(table, "slope"):
        part = table[(table["setting"] == setting) & table["stated"].notna()]
        rows.append(
            measurement(
                "6-1-line",
                STUDY,
                {"setting": setting},
                (part["value"] - part["stated"]).groupby(part["seed"]).mean(),
            )
        )
        without = values_by_seed(part, setting, "ood_accuracy", 0.0)
        rows.append(measurement("6-1-erm", STUDY, {"setting": setting}, without, remark=OPEN))
        for penalty in sorted(part["at"].unique()):
            if penalty:
                values = values_by_seed(part, setting, "ood_accuracy", penalty) - without
                rows.append(
                    measurement(
                        "6-1-better",
                        STUDY,
                        {"setting": setting, "penalty": penalty},
                        values,
                        remark=OPEN,
                    )
                )
    return rows
