"""What docs/studies/selection.md is filled in from."""

import pandas as pd

from rarefeat.core.statistics import student_interval


def scores_at_end(*tables: pd.DataFrame) -> pd.DataFrame:
    """AUC of every score at the last step of every point of the sweeps, from the running mean."""
    rows = []
    for table in tables:
        part = table[(table["source"] == "running") & (table["step"] == table["step"].max())]
        for (point, eps_min, score), found in part.groupby(["point", "eps_min", "score"], sort=False):
            mean, _, low, high, n = student_interval(found["auc"].to_numpy())
            rows.append((point, eps_min, score, mean, low, high, n))
    return pd.DataFrame(rows, columns=["point", "eps_min", "score", "mean", "ci_low", "ci_high", "n"])


def steps(table: pd.DataFrame) -> pd.DataFrame:
    """Steps of what was done to the training; those of drawn regimes are many, and stand in the figure."""
    return table[~table["point"].str.startswith("regime=")].reset_index(drop=True)


TABLES = {
    "selection_scores_at_end": (("scores_new_selection_scores",), scores_at_end),
    "selection_steps": (("selection_steps",), steps),
}
