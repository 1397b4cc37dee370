"""The published table of a granularity sweep, with the rows of Table 1."""

import pandas as pd

from rarefeat.studies.fine_labels.doc_tables import granularity, nearest_paper_row

ROWS = [
    # labels, classes, epoch, difference, its interval
    ("coarse", 20, 15, 0.0, 0.0, 0.0),
    ("sample", 50_000, 15, 0.02, -0.01, 0.05),
    ("random-50", 1000, 15, 0.03, 0.02, 0.04),
    ("random-5", 100, 15, -0.03, -0.04, -0.02),
    ("clusters-50", 1000, 15, -0.03, -0.04, -0.02),
    ("clusters-128", 2560, 15, -0.03, -0.04, -0.02),
    ("manual", 100, 15, -0.01, -0.02, -0.001),
    ("manual", 100, 5, -0.01, -0.02, -0.001),
    ("random-5", 100, 5, -0.03, -0.04, -0.02),
]


def summary():
    columns = ["labels", "classes", "epoch", "paired_difference", "paired_ci_low", "paired_ci_high"]
    rows = pd.DataFrame(ROWS, columns=columns).assign(superclass="superclass")
    return pd.concat(
        [rows.assign(readout=readout) for readout in ("finetuned", "probe")], ignore_index=True
    )


def test_nearest_paper_row_by_granularity():
    # Five classes for each of 11 superclasses are 55, and fifty are 550.
    assert nearest_paper_row("manual", 5)[:2] == (51, 5.10)
    assert nearest_paper_row("random", 50)[:2] == (352, 6.12)
    assert nearest_paper_row("sample", 2500)[0] == 500_000
    assert nearest_paper_row("coarse", 1)[:2] == (11, 5.25)


def test_direction_needs_differences_beyond_spread():
    found = granularity(summary())
    last = found[(found["readout"] == "finetuned") & (found["epoch"] == 15)].set_index("labels")
    assert last["direction"].to_dict() == {
        "coarse": "not compared",
        "manual": "as printed",
        "clusters-50": "as printed",
        "clusters-128": "not compared",  # 5.24 and 5.25 printed, with sd 0.03 and 0.05
        "random-5": "opposite",
        "random-50": "as printed",
        "sample": "not shown",
    }
    assert last.loc["manual", "printed_classes"] == 51


def test_rows_are_in_the_order_of_kinds():
    """Earlier checkpoints are given for manual labels alone."""
    found = granularity(summary())
    assert found["labels"].unique().tolist() == [
        "coarse",
        "manual",
        "clusters-50",
        "clusters-128",
        "random-5",
        "random-50",
        "sample",
    ]
    early = found[found["epoch"] == 5]
    assert early[["labels", "readout"]].to_numpy().tolist() == [["manual", "finetuned"]]
