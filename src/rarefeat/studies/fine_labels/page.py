"""What docs/studies/fine_labels.md is filled in from."""

import pandas as pd

COARSE = "subclass-1"


def errors(table: pd.DataFrame) -> pd.DataFrame:
    """Errors on easy and hard samples with coarse and with fine labels, at every number of subclasses and of distractors."""
    fine = "subclass-" + table["k"].astype(str)
    labels = (table["labels"] == COARSE) | (table["labels"] == fine)
    shown = labels & table["metric"].isin(["easy_error", "hard_error"])
    found = table[shown].assign(
        labels=table["labels"].where(table["labels"] != COARSE, "coarse").where(table["labels"] == COARSE, "fine")
    )
    return found[["k", "labels", "s_dag", "metric", "mean", "ci_low", "ci_high", "n"]].reset_index(drop=True)


TABLES = {"fine_labels_errors": (("fine_labels_summary",), errors)}
