"""Figures of the study of fine labels; their captions are in `__init__.py`."""

from collections.abc import Mapping

import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from rarefeat.figures.labels import INTERVALS, n_of
from rarefeat.figures.panels import (
    ESTIMATED,
    draw_zero_line,
    label_ends,
    panels,
    plot_groups,
    plot_lines,
    titled,
)
from rarefeat.figures.style import NARROW, STYLES, SeriesStyle
from rarefeat.stages.tables import PAIRED
from rarefeat.studies.fine_labels import FineLabels
from rarefeat.studies.fine_labels.tables import BASELINE, KINDS, published_errors, published_sweep

Tables = Mapping[str, pd.DataFrame]
LABEL_STYLES = {
    "coarse labels": SeriesStyle("black", "o"),
    "fine labels": STYLES[4].replace(marker="s", filled=False),
}
HERE, PRINTED = "◆ here", "□ paper"
TASKS = {"loops": ("do digits have closed loops", "the ten digits")}
"""A coarse task in words, and the labels by hand of its images."""
DIRECTIONS = {
    "as printed": "sign as printed", "opposite": "the other sign",
    "not shown": "no change shown", "not compared": "no change printed",
}  # fmt: skip
"""Headings of rows, by what the sign of a change is beside the printed one's."""


def errors(tables: Tables, fine_labels: FineLabels) -> Figure:
    """Draw errors on hard samples against k, with coarse and with fine labels."""
    (table,) = tables.values()
    rows = table if set(table["labels"]) <= {"coarse", "fine"} else published_errors(table)
    rows = rows[(rows["s_dag"] == fine_labels.hierarchy.s_dag) & (rows["metric"] == "hard_error")]
    rows = rows.assign(series=rows["labels"] + " labels")
    figure, ((ax,),) = panels(height=2.4, width=NARROW)
    plot_lines(ax, rows, "k", "error", LABEL_STYLES, bounds=(0, 1))
    k = sorted(set(rows["k"]))
    ax.set(
        xscale="log", xlabel="subclasses of a superclass, $k$", ylim=(-0.03, 1.03),
        ylabel="error on hard samples",
    )  # fmt: skip
    ax.set_xticks(k, k)
    ax.minorticks_off()
    ax.yaxis.set_major_formatter(PercentFormatter(1))
    last = rows[rows["k"] == rows["k"].max()].set_index("series")["mean"]
    label_ends(ax, {name: (last[name], look.colour) for name, look in LABEL_STYLES.items()})
    return titled(
        figure,
        "Error on hard samples of networks trained with coarse and with fine labels",
        f"{INTERVALS}, {n_of(*rows['n'])}",
    )


def granularity(tables: Tables) -> Figure:
    """Draw the error of the first coarse task minus the baseline's by labels, beside the printed.

    Rows are grouped by whether the sign of the change is the printed one's.
    """
    (table,) = tables.values()
    table = table if "printed" in table else published_sweep(table)
    task = table["superclass"].iloc[0]
    rows = table[(table["readout"] == "finetuned") & (table["epoch"] == table["epoch"].max())]
    rows = rows[rows["superclass"] == task].sort_values("paired_difference", ascending=False)
    classes = rows.loc[rows["labels"] == BASELINE, "classes"].item()
    rows = rows[rows["labels"] != BASELINE]
    question, by_hand = TASKS.get(task, (task, KINDS["manual"]))
    kinds = KINDS | {"manual": by_hand}
    parts = rows["labels"].str.partition("-")
    rows = rows.assign(
        place=(parts[2] + " " + parts[0].map(kinds)).str.strip(),
        series=HERE,
        **{name: 100 * rows[paired] for name, paired in zip(ESTIMATED, PAIRED, strict=True)},
    )
    groups = {
        heading: list(rows.loc[rows["direction"] == way, "place"])
        for way, heading in DIRECTIONS.items()
    }
    printed = rows[rows["direction"] != "not compared"]
    printed = printed.assign(series=PRINTED, **dict.fromkeys(ESTIMATED, printed["printed"]))
    styles = {
        HERE: STYLES[2].without_line,
        PRINTED: STYLES[4].replace(marker="s", filled=False).without_line,
    }
    figure, ((ax,),) = panels(height=1.7 + 0.2 * len(rows), width=NARROW)
    drawn = pd.concat([rows, printed])
    plot_groups(ax, drawn, styles, groups)
    first = next(filter(None, groups.values()))[0]
    for row in drawn[drawn["place"] == first].itertuples():
        colour = styles[row.series].colour
        ax.text(row.mean, 0.1, row.series, color=colour, ha="center", va="center")
    draw_zero_line(ax, vertical=True)
    ax.set_xlabel("change of error (points)")
    against = f"against pretraining on the {classes:g} superclasses"
    note = f"task: {question}; the paper: photographs of iNaturalist"
    return titled(
        figure,
        f"Change of error by the labels of pretraining,\n{against}",
        f"{note}\n{INTERVALS}, {n_of(*rows['n'])}",
    )
