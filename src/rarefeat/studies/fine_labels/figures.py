"""Figures of the study of fine labels; their captions are in `declaration.py`.

Each shows means over seeds with their 95 % intervals.
"""

from collections.abc import Mapping

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from rarefeat.figures.labels import INTERVALS, n_of, seeds_of
from rarefeat.figures.panels import label_ends, panels, plot_lines
from rarefeat.figures.style import GREY, STYLES, SeriesStyle
from rarefeat.studies.fine_labels import doc_tables
from rarefeat.studies.fine_labels.config import RIDGE, FineLabels
from rarefeat.workflow.run.job import Job

ERROR = (0.0, 1.0)
"""Range of an error."""
DASHED, DOTTED = (0, (4, 1.5)), (0, (1, 1))
LABEL_STYLES = {"coarse": STYLES[0], "fine": STYLES[4]}
SAMPLES = {"hard_error": "hard samples", "easy_error": "easy"}
SUBCLASSES = "subclasses of a superclass, $k$"


def set_subclass_axis(ax: Axes, k: list[int]) -> None:
    """Make the x axis one of numbers of subclasses."""
    ax.set(xscale="log", xlabel=SUBCLASSES)
    ax.set_xticks(k, k)
    ax.minorticks_off()


def set_error_axis(ax: Axes, label: str) -> None:
    """Make the y axis one of errors."""
    ax.set(ylabel=label, ylim=(-0.03, 1.03))


def errors(tables: Mapping[str, pd.DataFrame], job: Job) -> Figure:
    """Draw errors on easy and hard samples against k, with coarse and with fine labels.

    Inputs: `fine_labels_summary`, or the published means. Config: `fine_labels`.
    """
    (table,), study = tables.values(), job.config_section("fine_labels", FineLabels)
    rows = table if set(table["labels"]) <= set(LABEL_STYLES) else doc_tables.errors(table)
    rows = rows[rows["s_dag"] == study.hierarchy.s_dag]
    rows = rows.assign(series=rows["labels"] + " labels, " + rows["metric"].map(SAMPLES))
    k = sorted(set(rows["k"]))
    figure, ((ax,),) = panels(height=2.5)
    styles = {
        f"{name} labels, {samples}": style.replace(
            dash="-" if metric == "hard_error" else DOTTED, filled=metric == "hard_error"
        )
        for name, style in LABEL_STYLES.items()
        for metric, samples in SAMPLES.items()
    }
    plot_lines(ax, rows, "k", "error", styles, bounds=ERROR)
    set_subclass_axis(ax, k)
    set_error_axis(ax, "error")
    last = rows[rows["k"] == max(k)].set_index("series")["mean"]
    label_ends(ax, {name: (mean, styles[name].colour) for name, mean in last.items()})
    ax.set(
        xlabel=f"{SUBCLASSES}\n{INTERVALS}, {n_of(*rows['n'])}",
        title="Errors on easy and on hard samples, with coarse and with fine labels",
    )
    return figure


PAIR_NAMES = {
    "views": "two views of a sample",
    "subclass": "pairs of a subclass",
    "superclass": "pairs of a superclass",
}


def crossing(tables: Mapping[str, pd.DataFrame], job: Job) -> Figure:
    """Draw errors of contrastive encoders on hard samples against k, by positive pair.

    Inputs: `fine_labels_heads`, `fine_labels_crossing` and `fine_labels_crossing_heads`, or the
    published means. Config: `fine_labels`.
    """
    rows = (
        doc_tables.crossing_rows(*tables.values())
        if len(tables) > 1
        else next(iter(tables.values()))
    )
    study = job.config_section("fine_labels", FineLabels)
    strongest = max((arm.bias for arms in study.crossing.arms.values() for arm in arms), default=0)
    biased = f"dense-bias={strongest:g}"
    # A series for each positive pair, or for each mask, between those of both kinds of labels.
    styles = {
        "coarse labels": SeriesStyle(GREY, "v"),
        "fine labels": SeriesStyle(GREY, "^", DASHED),
    } | dict(zip(PAIR_NAMES.values(), (STYLES[0], STYLES[4], STYLES[5]), strict=False))
    names = rows["pair"].map(PAIR_NAMES)
    rows = rows.assign(series=names.where(rows["pair"] != "labels", rows["arm"] + " labels"))
    figure, axes = panels(1, 2, height=2.5, sharey=True)
    hard = rows[rows["quantity"] == "hard"]
    value = "value" if "value" in rows else "mean"
    titles = {biased: f"contrastive pairs, with a bias of {strongest:g}", "dense": "without a bias"}
    for ax, (arm, title) in zip(axes[0], titles.items(), strict=True):
        chosen = hard[hard["arm"].isin([arm, "coarse", "fine"])]
        plot_lines(ax, chosen, "k", "value", styles, bounds=ERROR)
        set_subclass_axis(ax, sorted(study.k))
        ax.set_title(title)
        last = chosen[chosen["k"] == chosen["k"].max()].groupby("series")[value].mean()
        label_ends(ax, {name: (y, styles[name].colour) for name, y in last.items()}, least=0.1)
    set_error_axis(axes[0, 0], "error of a linear head\non hard samples")
    figure.suptitle("Error on hard samples, by positive pair")
    seeds = seeds_of(rows[rows["pair"] != "labels"])
    figure.supxlabel(f"{INTERVALS}, {seeds}; penalty of the head {RIDGE:g}", size=7.5)
    return figure
