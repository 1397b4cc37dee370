"""Claims of section 6.3.1: on every linear rule, and on two that the text reports."""

import pandas as pd

from rarefeat.claims.measurements import Measurement, measurement
from rarefeat.studies.exact_results.claims.table_reader import settings, values_by_seed

STUDY = "nuclear_norm"
OPEN = "the text prints neither the size of the sample nor the penalty nor the rate"


def measure(table: pd.DataFrame) -> list[Measurement]:
    """Return a row for each reading and size; for the effect of the penalty for each penalty."""
    rows = []
    for setting in settings(table, "slope"):
        setting_rows = table[(table["setting"] == setting) & table["stated"].notna()]
        rows.append(
            measurement(
                "6-1-line",
                STUDY,
                {"setting": setting},
                (setting_rows["value"] - setting_rows["stated"])
                .groupby(setting_rows["seed"])
                .mean(),
            )
        )
        without = values_by_seed(setting_rows, setting, "ood_accuracy", 0.0)
        rows.append(measurement("6-1-erm", STUDY, {"setting": setting}, without, remark=OPEN))
        for penalty in sorted(setting_rows["at"].unique()):
            if penalty:
                values = values_by_seed(setting_rows, setting, "ood_accuracy", penalty) - without
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
