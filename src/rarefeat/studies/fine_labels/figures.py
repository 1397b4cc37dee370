"""Figures of the study of fine labels; their captions are in `__init__.py`."""

from collections.abc import Mapping

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from rarefeat.figures.labels import INTERVALS, n_of, seeds_of
from rarefeat.figures.panels import (
    ESTIMATED,
    draw_zero_line,
    label_ends,
    panels,
    plot_lines,
    plot_points,
)
from rarefeat.figures.style import MASKED, NARROW, RARE, STYLES, SeriesStyle
from rarefeat.stages.tables import PAIRED
from rarefeat.studies.fine_labels import RIDGE, FineLabels, doc_tables
from rarefeat.studies.fine_labels.tables import BASELINE

Tables = Mapping[str, pd.DataFrame]
LABEL_STYLES = {
    "coarse labels": SeriesStyle("black", "o"),
    "fine labels": STYLES[4].replace(marker="s", filled=False),
}
PRINTED = "the paper, other images"
TASKS = {"loops": "digits: closed loops?", "parity": "digits: even or odd?"}
SUBCLASSES = "subclasses of a superclass, $k$"


def plot_errors(ax: Axes, rows: pd.DataFrame, value: str, styles: dict[str, SeriesStyle]) -> None:
    """Plot errors on hard samples against k."""
    plot_lines(ax, rows, "k", value, styles, bounds=(0, 1))
    k = sorted(set(rows["k"]))
    ax.set(xscale="log", xlabel=SUBCLASSES, ylim=(-0.03, 1.03), ylabel="error on hard samples")
    ax.set_xticks(k, k)
    ax.minorticks_off()
    ax.yaxis.set_major_formatter(PercentFormatter(1))


def errors(tables: Tables, fine_labels: FineLabels) -> Figure:
    """Draw errors on hard samples against k, with coarse and with fine labels."""
    (table,) = tables.values()
    rows = table if set(table["labels"]) <= {"coarse", "fine"} else doc_tables.errors(table)
    rows = rows[(rows["s_dag"] == fine_labels.hierarchy.s_dag) & (rows["metric"] == "hard_error")]
    rows = rows.assign(series=rows["labels"] + " labels")
    figure, ((ax,),) = panels(height=2.4, width=NARROW)
    plot_errors(ax, rows, "error", LABEL_STYLES)
    last = rows[rows["k"] == rows["k"].max()].set_index("series")["mean"]
    label_ends(ax, {name: (last[name], look.colour) for name, look in LABEL_STYLES.items()})
    figure.suptitle("Error on hard samples of networks trained with coarse and with fine labels")
    figure.supxlabel(f"{INTERVALS}, {n_of(*rows['n'])}")
    return figure


def crossing(tables: Tables, fine_labels: FineLabels) -> Figure:
    """Draw errors on hard samples against k: of views, with a bias and without, and of labels."""
    found = list(tables.values())
    rows = doc_tables.crossing_rows(*found) if len(found) > 1 else found[0]
    arms = [arm for arms in fine_labels.crossing.arms.values() for arm in arms]
    strongest = max((arm.bias for arm in arms), default=0)
    biased, with_bias = f"dense-bias={strongest:g}", f"two views, bias {strongest:g}"
    coarse = SeriesStyle("black", "o", (0, (4, 1.5)), False)
    fine = LABEL_STYLES["fine labels"].replace(dash=(0, (1, 1)))
    # The name of a line, its look, and where the name stands in the panel.
    shown = {
        ("views", "dense"): ("two views, no bias", SeriesStyle(RARE, "D"), 0.45, 0.92),
        ("labels", "coarse"): ("coarse labels", coarse, 0.33, 0.74),
        ("labels", "fine"): ("fine labels", fine, 0.52, 0.58),
        ("views", biased): (with_bias, SeriesStyle(MASKED, "^"), 0.2, 0.41),
    }
    names = [shown.get(pair, ("",))[0] for pair in zip(rows["pair"], rows["arm"], strict=True)]
    rows = rows.assign(series=names)
    rows = rows[(rows["quantity"] == "hard") & (rows["series"] != "")]
    figure, ((ax,),) = panels(height=2.6, width=NARROW)
    plot_errors(ax, rows, "value", {name: look for name, look, *_ in shown.values()})
    for name, look, *place in shown.values():
        seeds = seeds_of(rows[rows["series"] == name]).removesuffix(" seeds")
        ax.text(*place, f"{name}, {seeds}", color=look.colour, transform=ax.transAxes)
    ax.set_ylim(top=1.14)
    figure.suptitle("Error on hard samples: trained on two views of a sample, or on labels")
    figure.supxlabel(f"{INTERVALS} over $n$ seeds; penalty of the head {RIDGE:g}")
    return figure


def granularity(tables: Tables) -> Figure:
    """Draw the error minus the baseline's by labels, beside the printed: a panel a coarse task."""
    (table,) = tables.values()
    table = table if "printed" in table else doc_tables.granularity(table)
    rows = table[(table["readout"] == "finetuned") & (table["epoch"] == table["epoch"].max())]
    classes = rows.loc[rows["labels"] == BASELINE, "classes"].max()
    rows = rows[rows["labels"] != BASELINE]
    parts = rows["labels"].str.partition("-")
    rows = rows.assign(
        place=(parts[2] + " " + parts[0].map(doc_tables.KINDS)).str.strip(),
        series=rows["direction"] == "as printed",
        **{name: 100 * rows[paired] for name, paired in zip(ESTIMATED, PAIRED, strict=True)},
    )
    order = list(rows.groupby("place")["mean"].mean().sort_values().index)
    printed = rows[rows["direction"] != "not compared"].drop_duplicates("place")
    printed = printed.assign(series=PRINTED, **dict.fromkeys(ESTIMATED, printed["printed"]))
    styles = {name: STYLES[2].replace(filled=name).without_line for name in (True, False)}
    styles[PRINTED] = STYLES[4].replace(marker="s", filled=False).without_line
    tasks = list(rows.groupby("superclass"))
    figure, axes = panels(1, len(tasks), 1.1 + 0.21 * len(order), NARROW, sharey=True)
    for ax, (task, here) in zip(axes[0], tasks, strict=True):
        both = pd.concat([here, printed])
        plot_points(ax, both, "error", "place", styles, order=order, horizontal=True, dodge=0)
        draw_zero_line(ax, vertical=True)
        ax.set(title=TASKS.get(task, task), xlabel="change of error (points)")
    figure.suptitle(f"Error by labels of pretraining, minus that of {classes:g} superclasses")
    note = f"{INTERVALS}, {n_of(*rows['n'])}; squares: {PRINTED}"
    figure.supxlabel(f"{note};\nfilled: the sign of the change is the paper's", size=7)
    return figure
