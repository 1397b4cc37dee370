"""What docs/studies/fine_labels.md is filled in from."""

import math
from typing import Any

import pandas as pd

from rarefeat.core.statistics import UNBOUNDED, student_interval
from rarefeat.studies.fine_labels.config import RIDGE
from rarefeat.studies.fine_labels.granularity.aggregate import BASELINE as COARSE_LABELS
from rarefeat.studies.fine_labels.granularity.figures import KINDS
from rarefeat.studies.fine_labels.granularity.paper_values import BASELINE, TABLE_1

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
        labels=table["labels"]
        .where(table["labels"] != COARSE, "coarse")
        .where(table["labels"] == COARSE, "fine")
    )
    return found[["k", "labels", "s_dag", "metric", "mean", "ci_low", "ci_high", "n"]].reset_index(
        drop=True
    )


def crossing_rows(
    supervised: pd.DataFrame, encoders: pd.DataFrame, heads: pd.DataFrame
) -> pd.DataFrame:
    """Of contrastive encoders and networks with labels, a row a seed: errors of heads that saw easy samples alone; cosines."""
    labels = supervised["labels"].where(supervised["labels"] != COARSE, "coarse")
    fine = labels == "subclass-" + supervised["k"].astype(str)
    named = supervised.assign(pair="labels", arm=labels.where(~fine, "fine"))
    rows = pd.concat(
        [named[(named["features"] == "detectors") & named["arm"].isin(["coarse", "fine"])], heads]
    )
    rows = rows[(rows["hard_share"] == 0) & (rows["penalty"] == RIDGE)]
    found = rows.melt(["k", "pair", "arm", "seed"], ["easy", "hard"], "quantity", "value")
    cosines = encoders.rename(columns={"metric": "quantity"})
    shown = [
        "within_subclass",
        "within_superclass",
        "across",
        "pruned",
        "pure_common",
        "pure_subclass",
    ]
    return pd.concat([found, cosines[cosines["quantity"].isin(shown)]])


def crossing(supervised: pd.DataFrame, encoders: pd.DataFrame, heads: pd.DataFrame) -> pd.DataFrame:
    """The means of these over seeds."""
    return means(crossing_rows(supervised, encoders, heads), ["k", "pair", "arm", "quantity"])


def means(rows: pd.DataFrame, keys: list[str]) -> pd.DataFrame:
    """Means over seeds with their intervals."""
    found = [
        (*key, *student_interval(part["value"].to_numpy(), inside=RANGES.get(key[-1], UNBOUNDED)))
        for key, part in rows.groupby(keys)
    ]
    return pd.DataFrame(found, columns=[*keys, "mean", "sd", "ci_low", "ci_high", "n"]).drop(
        columns="sd"
    )


def granularity(summary: pd.DataFrame) -> pd.DataFrame:
    """A sweep at its last checkpoint, and of manual labels at every one, beside Table 1 as printed.

    Each row stands beside that of Table 1 with the same kind of labels and the nearest granularity: classes in pretraining for
    each class of the coarse task, as a ratio.

    Returns:
        The rows by kind of labels and classes, with `printed_classes`, the G of that row of Table 1; `printed`, its error less
        its baseline's in per cent; and `direction` of the difference here beside that one.
    """
    kind = summary["labels"].str.partition("-")[0]
    found = summary[
        (summary["epoch"] == summary["epoch"].max())
        | ((kind == "manual") & (summary["readout"] == "finetuned"))
    ]
    coarse = found[found["labels"] == COARSE_LABELS].groupby("superclass")["classes"].first()
    nearest = [
        printed(labels.partition("-")[0], classes / coarse[task])
        for labels, classes, task in zip(
            found["labels"], found["classes"], found["superclass"], strict=True
        )
    ]
    found = found.assign(
        printed_classes=[classes for classes, _, _ in nearest],
        printed=[error - BASELINE[1] for _, error, _ in nearest],
        printed_sd=[math.hypot(sd, BASELINE[2]) for _, _, sd in nearest],
    )
    found["direction"] = [direction(row) for row in found.itertuples()]
    order = list(KINDS)
    found["place"] = [order.index(name) if name in order else -1 for name in kind[found.index]]
    keys = ["superclass", "place", "classes", "labels", "epoch", "readout"]
    return found.sort_values(keys).drop(columns=["place", "printed_sd"]).reset_index(drop=True)


def printed(kind: str, granularity: float) -> tuple[int, float, float]:
    """Row of Table 1 with this kind of labels whose G over its 11 superclasses is nearest to a granularity, as a ratio."""
    return min(
        TABLE_1.get(kind, [BASELINE]),
        key=lambda row: abs(math.log(row[0] / BASELINE[0] / granularity)),
    )


def direction(row: Any) -> str:
    """Whether a difference with its interval has the sign of the printed one, if that is beyond its own spread."""
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
