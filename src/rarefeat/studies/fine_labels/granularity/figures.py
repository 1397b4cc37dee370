"""The figure of a granularity sweep: errors by the labels of the pretraining, and the paper's."""

from collections.abc import Mapping

import pandas as pd
from matplotlib.figure import Figure

from rarefeat.figures.labels import INTERVALS, n_of
from rarefeat.figures.panels import (
    ESTIMATED,
    add_legend,
    draw_zero_line,
    panels,
    plot_points,
)
from rarefeat.figures.style import STYLES
from rarefeat.stages.tables import PAIRED
from rarefeat.studies.fine_labels import doc_tables
from rarefeat.studies.fine_labels.granularity.aggregate import BASELINE, KINDS
from rarefeat.workflow.run.job import Job

HERE, PAPER = "here", "the paper, nearest row of Table 1"
LOOKS = {
    HERE: STYLES[0].without_line,
    PAPER: STYLES[4].replace(marker="D", filled=False).without_line,
}


def granularity(tables: Mapping[str, pd.DataFrame], job: Job) -> Figure:
    """Draw the error minus the baseline's, here and as printed, a row for each kind of labels and a
    panel for each coarse task.

    Inputs: `STUDY_summary`, or the published means. Config: none.
    """
    (table,) = tables.values()
    table = table if "printed" in table else doc_tables.granularity(table)
    rows = table[
        (table["readout"] == "finetuned")
        & (table["epoch"] == table["epoch"].max())
        & (table["labels"] != BASELINE)
    ]
    kind = rows["labels"].str.partition("-")[0]
    rows = rows.assign(
        place=kind.map(KINDS) + rows["classes"].map(", {:.0f}".format),
        series=HERE,
        **{name: 100 * rows[paired] for name, paired in zip(ESTIMATED, PAIRED, strict=True)},
    )
    order = list(dict.fromkeys(rows.sort_values("classes", kind="stable")["place"]))
    order.sort(key=lambda place: list(KINDS.values()).index(place.rpartition(",")[0]))
    tasks = sorted(rows["superclass"].unique())
    figure, axes = panels(1, len(tasks), 1.1 + 0.22 * max(len(order), 2), sharey=True)
    for ax, task in zip(axes[0], tasks, strict=True):
        shown_rows = rows[rows["superclass"] == task]
        paper = shown_rows.assign(series=PAPER, **dict.fromkeys(ESTIMATED, shown_rows["printed"]))
        both = pd.concat([shown_rows, paper])
        plot_points(ax, both, "value", "place", LOOKS, order=order, horizontal=True, dodge=0.3)
        draw_zero_line(ax, vertical=True)
        ax.set(title=task, xlabel="error after fine-tuning\nminus the baseline's (points)")
    figure.suptitle("Error after fine-tuning, by the labels of the pretraining")
    add_legend(figure, LOOKS, f"{INTERVALS}, {n_of(*rows['n'])}")
    return figure
