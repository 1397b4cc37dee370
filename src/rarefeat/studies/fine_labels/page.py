"""What docs/studies/fine_labels.md is filled in from."""

import pandas as pd

from rarefeat.core.statistics import ANYWHERE, student_interval
from rarefeat.studies.fine_labels.granularity.published import BASELINE, TABLE_1
from rarefeat.studies.fine_labels.metrics import RIDGE

COARSE = "subclass-1"
RANGES = {
    **dict.fromkeys(("easy", "hard", "pruned", "pure_common", "pure_subclass"), (0, 1)),
    **dict.fromkeys(("within_subclass", "within_superclass", "across"), (-1, 1)),
}
"""Of quantities."""


def errors(table: pd.DataFrame) -> pd.DataFrame:
    """Errors on easy and hard samples with coarse and with fine labels, at every number of subclasses and of distractors."""
    fine = "subclass-" + table["k"].astype(str)
    labels = (table["labels"] == COARSE) | (table["labels"] == fine)
    shown = labels & table["metric"].isin(["easy_error", "hard_error"])
    found = table[shown].assign(
        labels=table["labels"].where(table["labels"] != COARSE, "coarse").where(table["labels"] == COARSE, "fine")
    )
    return found[["k", "labels", "s_dag", "metric", "mean", "ci_low", "ci_high", "n"]].reset_index(drop=True)


def crossing(supervised: pd.DataFrame, encoders: pd.DataFrame, heads: pd.DataFrame) -> pd.DataFrame:
    """Errors of heads that saw easy samples alone, of contrastive encoders and of networks with labels; and cosines."""
    labels = supervised["labels"].where(supervised["labels"] != COARSE, "coarse")
    fine = labels == "subclass-" + supervised["k"].astype(str)
    named = supervised.assign(pair="labels", arm=labels.where(~fine, "fine"))
    rows = pd.concat([named[(named["features"] == "detectors") & named["arm"].isin(["coarse", "fine"])], heads])
    rows = rows[(rows["hard_share"] == 0) & (rows["penalty"] == RIDGE)]
    found = rows.melt(["k", "pair", "arm", "seed"], ["easy", "hard"], "quantity", "value")
    cosines = encoders.rename(columns={"metric": "quantity"})
    shown = ["within_subclass", "within_superclass", "across", "pruned", "pure_common", "pure_subclass"]
    return means(pd.concat([found, cosines[cosines["quantity"].isin(shown)]]), ["k", "pair", "arm", "quantity"])


def means(rows: pd.DataFrame, keys: list[str]) -> pd.DataFrame:
    """Means over seeds with their intervals."""
    found = [
        (*key, *student_interval(part["value"].to_numpy(), inside=RANGES.get(key[-1], ANYWHERE)))
        for key, part in rows.groupby(keys)
    ]
    return pd.DataFrame(found, columns=[*keys, "mean", "sd", "ci_low", "ci_high", "n"]).drop(columns="sd")


def granularity(summary: pd.DataFrame) -> pd.DataFrame:
    """A sweep at its last checkpoint, and of manual labels at every one, with the number of Table 1 of the nearest G beside."""
    manual = summary["labels"].str.partition("-")[0] == "manual"
    found = summary[(summary["epoch"] == summary["epoch"].max()) | (manual & (summary["readout"] == "finetuned"))]
    return found.assign(printed=[printed(labels, G) for labels, G in zip(found["labels"], found["classes"], strict=True)])


def printed(labels: str, G: float) -> float:
    """Error of Table 1 less its baseline's, in per cent, for the same kind of labels and the number of classes nearest to G."""
    table = TABLE_1.get(labels.partition("-")[0], [BASELINE])
    return min(table, key=lambda row: abs(row[0] / G - 1))[1] - BASELINE[1]


TABLES = {
    "fine_labels_errors": (("fine_labels_summary",), errors),
    "fine_labels_crossing": (("fine_labels_heads", "fine_labels_crossing", "fine_labels_crossing_heads"), crossing),
    "fine_labels_digits": (("fine_labels_digits_summary",), granularity),
    "cifar100_labels": (("cifar100_labels_summary",), granularity),
}
