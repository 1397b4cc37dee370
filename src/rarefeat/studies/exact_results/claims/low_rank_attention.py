"""Section 5.4: the optimum of rank r, its loss, and what more directions cost."""

import numpy as np
import pandas as pd

from rarefeat.claims.measurements import Measurement, measurement
from rarefeat.studies.exact_results.claims.table_reader import settings, values_by_seed

STUDY = "low_rank_attention"


def measure(table: pd.DataFrame) -> list[Measurement]:
    """Return a row for each signal, and for the loss for each rank."""
    rows = []
    for setting in settings(table, "loss"):
        setting_rows = table[table["setting"] == setting]
        of_rank = {
            quantity: rows_of.groupby("seed")
            for quantity, rows_of in setting_rows.groupby("quantity")
        }
        ratio = of_rank["pretraining_loss"].apply(_mean_log_ratio, include_groups=False)
        rows.append(measurement("5.4.1", STUDY, {"setting": setting}, ratio))
        for rank in sorted(setting_rows.loc[setting_rows["quantity"] == "loss", "at"].unique()):
            value, stated = (
                values_by_seed(setting_rows, setting, "loss", rank, column)
                for column in ("value", "stated")
            )
            rows.append(
                measurement(
                    "5.4.2", STUDY, {"setting": setting, "rank": rank}, np.log(value / stated)
                )
            )
        if "increment" in of_rank:
            total = of_rank["increment"][["value", "stated"]].sum()
            rows.append(
                measurement(
                    "5.4.3", STUDY, {"setting": setting}, np.log(total["value"] / total["stated"])
                )
            )
    return rows


def _mean_log_ratio(rank_rows: pd.DataFrame) -> float:
    return float(np.log(rank_rows["value"] / rank_rows["stated"]).mean())
