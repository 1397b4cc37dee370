"""Published tables of the study of fine labels, for docs/studies/fine_labels.md."""

import math
from typing import Any

import pandas as pd

from rarefeat.statistics import UNBOUNDED, student_interval
from rarefeat.studies.fine_labels.config import RIDGE
from rarefeat.studies.fine_labels.granularity.aggregate import BASELINE as COARSE_LABELS
from rarefeat.studies.fine_labels.granularity.aggregate import KINDS
from rarefeat.studies.fine_labels.granularity.paper_values import BASELINE, TABLE_1

COARSE = "subclass-1"
RANGES = {
    **dict.fromkeys(("easy", "hard", "pruned", "pure_common", "pure_subclass"), (0, 1)),
    **dict.fromkeys(("within_subclass", "within_superclass", "across"), (-1, 1)),
}
"""Range of each quantity that has one."""


def errors(table: pd.DataFrame) -> pd.DataFrame:
    """Return errors with coarse and with fine labels on easy and hard samples, by subclasses and
    distracting patches.
    """
    is_coarse = table["labels"] == COARSE
    is_fine = table["labels"] == "subclass-" + table["k"].astype(str)
    chosen = (is_coarse | is_fine) & table["metric"].isin(["easy_error", "hard_error"])
    rows = table[chosen].assign(labels=is_coarse[chosen].map({True: "coarse", False: "fine"}))
    columns = ["k", "labels", "s_dag", "metric", "mean", "ci_low", "ci_high", "n"]
    return rows[columns].reset_index(drop=True)


def crossing_rows(
    supervised: pd.DataFrame, encoders: pd.DataFrame, heads: pd.DataFrame
) -> pd.DataFrame:
    """Return quantities of contrastive encoders and of supervised networks, by seed."""
    labels = supervised["labels"].where(supervised["labels"] != COARSE, "coarse")
    is_fine = labels == "subclass-" + supervised["k"].astype(str)
    networks = supervised.assign(pair="labels", arm=labels.where(~is_fine, "fine"))
    networks = networks[
        (networks["features"] == "detectors") & networks["arm"].isin(["coarse", "fine"])
    ]
    rows = pd.concat([networks, heads])
    rows = rows[(rows["hard_share"] == 0) & (rows["penalty"] == RIDGE)]
    rows = rows.melt(["k", "pair", "arm", "seed"], ["easy", "hard"], "quantity", "value")
    metrics = encoders.rename(columns={"metric": "quantity"})
    shown = [
        "within_subclass",
        "within_superclass",
        "across",
        "pruned",
        "pure_common",
        "pure_subclass",
    ]
    return pd.concat([rows, metrics[metrics["quantity"].isin(shown)]])


def crossing(supervised: pd.DataFrame, encoders: pd.DataFrame, heads: pd.DataFrame) -> pd.DataFrame:
    """Return the means of `crossing_rows` over seeds with their intervals."""
    keys = ["k", "pair", "arm", "quantity"]
    rows = [
        (*key, *student_interval(group["value"].to_numpy(), inside=RANGES.get(key[-1], UNBOUNDED)))
        for key, group in crossing_rows(supervised, encoders, heads).groupby(keys)
    ]
    columns = [*keys, "mean", "sd", "ci_low", "ci_high", "n"]
    return pd.DataFrame(rows, columns=columns).drop(columns="sd")


def granularity(summary: pd.DataFrame) -> pd.DataFrame:
    """Return a sweep at its last checkpoint with the nearest rows of Table 1 of the paper.

    Manual labels are given at every checkpoint. The nearest row is that of the same kind of labels
    and the nearest granularity, classes in pretraining for each class of the coarse task, as a
    ratio.
    """
    kind = summary["labels"].str.partition("-")[0]
    rows = summary[
        (summary["epoch"] == summary["epoch"].max())
        | ((kind == "manual") & (summary["readout"] == "finetuned"))
    ]
    coarse = rows[rows["labels"] == COARSE_LABELS].groupby("superclass")["classes"].first()
    nearest = [
        nearest_paper_row(labels.partition("-")[0], classes / coarse[task])
        for labels, classes, task in zip(
            rows["labels"], rows["classes"], rows["superclass"], strict=True
        )
    ]
    rows = rows.assign(
        printed_classes=[classes for classes, _, _ in nearest],
        printed=[error - BASELINE[1] for _, error, _ in nearest],
        printed_sd=[math.hypot(sd, BASELINE[2]) for _, _, sd in nearest],
    )
    rows["direction"] = [direction(row) for row in rows.itertuples()]
    order = list(KINDS)
    rows["place"] = [order.index(name) if name in order else -1 for name in kind[rows.index]]
    keys = ["superclass", "place", "classes", "labels", "epoch", "readout"]
    return rows.sort_values(keys).drop(columns=["place", "printed_sd"]).reset_index(drop=True)


def nearest_paper_row(kind: str, granularity: float) -> tuple[int, float, float]:
    """Return the row of Table 1 of a kind of labels that is nearest to a granularity.

    The granularity is classes for each of its 11 superclasses; distances are ratios.
    """
    return min(
        TABLE_1.get(kind, [BASELINE]),
        key=lambda row: abs(math.log(row[0] / BASELINE[0] / granularity)),
    )


def direction(row: Any) -> str:
    """Return whether a difference has the sign of the printed one, in words.

    Printed differences within their own spread are not compared; a difference whose interval
    contains 0 is not shown.
    """
    if abs(row.printed) <= row.printed_sd:
        return "not compared"
    if row.paired_ci_low <= 0 <= row.paired_ci_high:
        return "not shown"
    return "as printed" if row.paired_difference * row.printed > 0 else "opposite"


TABLES = {
    "fine_labels_errors": (("fine_labels_summary",), errors),
    "fine_labels_crossing": (
        ("fine_labels_heads", "fine_labels_crossing", "fine_labels_crossing_heads"),
        crossing,
    ),
    "fine_labels_digits": (("fine_labels_digits_summary",), granularity),
    "cifar100_labels": (("cifar100_labels_summary",), granularity),
}
