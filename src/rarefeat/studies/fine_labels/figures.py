"""Figures of the study of fine labels; their captions are in `__init__.py`."""

from collections.abc import Mapping

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from rarefeat.figures.labels import INTERVALS, n_of, seeds_of
from rarefeat.figures.panels import (
    ESTIMATED,
    add_legend,
    draw_zero_line,
    label_ends,
    panels,
    plot_lines,
    plot_points,
)
from rarefeat.figures.style import GREY, STYLES, SeriesStyle
from rarefeat.stages.tables import PAIRED
from rarefeat.studies.fine_labels import RIDGE, FineLabels, doc_tables
from rarefeat.studies.fine_labels.tables import BASELINE

Tables = Mapping[str, pd.DataFrame]
ERROR = (0.0, 1.0)
"""Range of an error."""
DASHED, DOTTED = (0, (4, 1.5)), (0, (1, 1))
LABEL_STYLES = {"coarse": STYLES[0], "fine": STYLES[4]}
SAMPLES = {"hard_error": "hard samples", "easy_error": "easy"}
SUBCLASSES = "subclasses of a superclass, $k$"
PAIR_NAMES = {
    "views": "two views of a sample",
    "subclass": "pairs of a subclass",
    "superclass": "pairs of a superclass",
}
LOOKS = {
    "here": STYLES[0].without_line,
    "the paper, nearest row of Table 1": STYLES[4].replace(marker="D", filled=False).without_line,
}


def set_axes(ax: Axes, k: list[int], label: str = "") -> None:
    """Make the x axis one of numbers of subclasses, and the y axis one of errors."""
    ax.set(xscale="log", xlabel=SUBCLASSES, ylim=(-0.03, 1.03), ylabel=label)
    ax.set_xticks(k, k)
    ax.minorticks_off()


def errors(tables: Tables, fine_labels: FineLabels) -> Figure:
    """Draw errors on easy and hard samples against k, with coarse and with fine labels."""
    (table,) = tables.values()
    rows = table if set(table["labels"]) <= set(LABEL_STYLES) else doc_tables.errors(table)
    rows = rows[rows["s_dag"] == fine_labels.hierarchy.s_dag]
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
    set_axes(ax, k, "error")
    last = rows[rows["k"] == max(k)].set_index("series")["mean"]
    label_ends(ax, {name: (mean, styles[name].colour) for name, mean in last.items()})
    ax.set(
        xlabel=f"{SUBCLASSES}\n{INTERVALS}, {n_of(*rows['n'])}",
        title="Errors on easy and on hard samples, with coarse and with fine labels",
    )
    return figure


def crossing(tables: Tables, fine_labels: FineLabels) -> Figure:
    """Draw errors of contrastive encoders on hard samples against k, by positive pair."""
    found = list(tables.values())
    rows = doc_tables.crossing_rows(*found) if len(found) > 1 else found[0]
    arms = [arm for arms in fine_labels.crossing.arms.values() for arm in arms]
    strongest = max((arm.bias for arm in arms), default=0)
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
    biased = f"dense-bias={strongest:g}"
    titles = {biased: f"contrastive pairs, with a bias of {strongest:g}", "dense": "without a bias"}
    for ax, (arm, title) in zip(axes[0], titles.items(), strict=True):
        chosen = hard[hard["arm"].isin([arm, "coarse", "fine"])]
        plot_lines(ax, chosen, "k", "value", styles, bounds=ERROR)
        set_axes(ax, sorted(fine_labels.k))
        ax.set_title(title)
        last = chosen[chosen["k"] == chosen["k"].max()].groupby("series")[value].mean()
        label_ends(ax, {name: (y, styles[name].colour) for name, y in last.items()}, least=0.1)
    axes[0, 0].set_ylabel("error of a linear head\non hard samples")
    figure.suptitle("Error on hard samples, by positive pair")
    seeds = seeds_of(rows[rows["pair"] != "labels"])
    figure.supxlabel(f"{INTERVALS}, {seeds}; penalty of the head {RIDGE:g}", size=7.5)
    return figure


def granularity(tables: Tables) -> Figure:
    """Draw the error minus the baseline's by kind of labels, here and as printed."""
    (table,) = tables.values()
    table = table if "printed" in table else doc_tables.granularity(table)
    rows = table[
        (table["readout"] == "finetuned")
        & (table["epoch"] == table["epoch"].max())
        & (table["labels"] != BASELINE)
    ]
    kinds = rows["labels"].str.partition("-")[0].map(doc_tables.KINDS)
    rows = rows.assign(
        place=kinds + rows["classes"].map(", {:.0f}".format),
        **{name: 100 * rows[paired] for name, paired in zip(ESTIMATED, PAIRED, strict=True)},
    )
    order = list(dict.fromkeys(rows.sort_values("classes", kind="stable")["place"]))
    order.sort(key=lambda place: list(doc_tables.KINDS.values()).index(place.rpartition(",")[0]))
    here, paper = LOOKS
    printed = rows.assign(series=paper, **dict.fromkeys(ESTIMATED, rows["printed"]))
    both = pd.concat([rows.assign(series=here), printed])
    tasks = sorted(rows["superclass"].unique())
    figure, axes = panels(1, len(tasks), 1.1 + 0.22 * max(len(order), 2), sharey=True)
    for ax, task in zip(axes[0], tasks, strict=True):
        shown = both[both["superclass"] == task]
        plot_points(ax, shown, "value", "place", LOOKS, order=order, horizontal=True, dodge=0.3)
        draw_zero_line(ax, vertical=True)
        ax.set(title=task, xlabel="error after fine-tuning\nminus the baseline's (points)")
    figure.suptitle("Error after fine-tuning, by the labels of the pretraining")
    add_legend(figure, LOOKS, f"{INTERVALS}, {n_of(*rows['n'])}")
    return figure
