"""Published table of the small theorems: means over seeds."""

import pandas as pd

from rarefeat.statistics import student_interval


def summarise_theorems(table: pd.DataFrame) -> pd.DataFrame:
    """Return mean, interval and stated value of each quantity at every point."""
    keys, rows = ["result", "point", "at", "quantity"], []
    for key, group in table.groupby(keys, sort=False):
        mean, _, low, high, n = student_interval(group["value"].to_numpy())
        rows.append((*key, mean, low, high, n, group["stated"].mean()))
    return pd.DataFrame(rows, columns=[*keys, "mean", "ci_low", "ci_high", "n", "stated"])


TABLES = {"theorem_means": (("theorem_numbers",), summarise_theorems)}
