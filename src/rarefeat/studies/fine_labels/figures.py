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
from rarefeat.figures.style import NARROW, STYLES, SeriesStyle
from rarefeat.stages.tables import PAIRED
from rarefeat.studies.fine_labels import RIDGE, FineLabels, doc_tables
from rarefeat.studies.fine_labels.tables import BASELINE

Tables = Mapping[str, pd.DataFrame]
ERROR = (0.0, 1.0)
"""Range of an error."""
DOTTED = (0, (1, 1))
LABEL_STYLES = {"coarse": STYLES[0], "fine": STYLES[4]}
SAMPLES = {"hard_error": "hard samples", "easy_error": "easy"}
SUBCLASSES = "subclasses of a superclass, $k$"


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
    figure, ((ax,),) = panels(height=2.5, width=NARROW)
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
    )
    figure.suptitle("Errors on easy and on hard samples, with coarse and with fine labels")
    return figure


def crossing(tables: Tables, fine_labels: FineLabels) -> Figure:
    """Draw errors on hard samples against k: of views, with a bias and without, and of labels."""
    found = list(tables.values())
    rows = doc_tables.crossing_rows(*found) if len(found) > 1 else found[0]
    arms = [arm for arms in fine_labels.crossing.arms.values() for arm in arms]
    strongest = max((arm.bias for arm in arms), default=0)
    shown = {
        ("labels", "coarse"): ("coarse labels", SeriesStyle("0.4", dash=DOTTED)),
        ("views", "dense"): ("views, no bias", STYLES[4].replace(filled=False)),
        ("labels", "fine"): ("fine labels", SeriesStyle("0.4", dash=DOTTED)),
        ("views", f"dense-bias={strongest:g}"): (f"views, bias {strongest:g}", STYLES[0]),
    }
    names = [shown.get(pair, ("",))[0] for pair in zip(rows["pair"], rows["arm"], strict=True)]
    rows = rows.assign(series=names)[rows["quantity"] == "hard"]
    styles = dict(shown.values())
    figure, ((ax,),) = panels(height=2.5, width=NARROW)
    plot_lines(ax, rows, "k", "value", styles, bounds=ERROR)
    set_axes(ax, sorted(fine_labels.k), "error on hard samples")
    value = "value" if "value" in rows else "mean"
    means = rows[rows["series"] != ""].groupby(["k", "series"])[value].mean().unstack()
    # Coarse labels and views without a bias end at one height.
    k, y = list(means["coarse labels"].items())[len(means) // 2]
    ax.text(k, y - 0.03, "coarse labels", color="0.4", ha="center", va="top")
    ends = means.iloc[-1].drop("coarse labels").items()
    label_ends(ax, {name: (y, styles[name].colour) for name, y in ends}, least=0.1)
    figure.suptitle("Error on hard samples, by what the encoder was trained on")
    seeds = seeds_of(rows[rows["pair"] == "views"])
    figure.supxlabel(f"{INTERVALS}, {seeds}; penalty of the head {RIDGE:g}", size=7)
    return figure


def granularity(tables: Tables) -> Figure:
    """Draw the error minus the baseline's by labels: of each coarse task here, and as printed."""
    (table,) = tables.values()
    table = table if "printed" in table else doc_tables.granularity(table)
    rows = table[
        (table["readout"] == "finetuned")
        & (table["epoch"] == table["epoch"].max())
        & (table["labels"] != BASELINE)
    ].sort_values("printed", kind="stable")
    parts = rows["labels"].str.partition("-")
    rows = rows.assign(
        place=(parts[2] + " " + parts[0].map(doc_tables.KINDS)).str.strip(),
        series="here, task: " + rows["superclass"],
        **{name: 100 * rows[paired] for name, paired in zip(ESTIMATED, PAIRED, strict=True)},
    )
    printed = rows.drop_duplicates("place").assign(
        series="printed, on other images", **dict.fromkeys(ESTIMATED, rows["printed"])
    )
    names = dict.fromkeys([*printed["series"], *rows["series"]])
    looks = STYLES[4].replace(marker="s", filled=False), *STYLES[::2]
    styles = {name: look.without_line for name, look in zip(names, looks, strict=False)}
    order = list(printed["place"])
    figure, ((ax,),) = panels(height=1.2 + 0.24 * len(order), width=NARROW)
    rows = pd.concat([printed, rows])
    plot_points(ax, rows, "error", "place", styles, order=order, horizontal=True, dodge=0.5)
    draw_zero_line(ax, vertical=True)
    ax.set_xlabel("error minus the baseline's (points)")
    figure.suptitle("Error after fine-tuning, by the labels of the pretraining")
    add_legend(figure, styles, f"{INTERVALS}, {n_of(*rows['n'])}")
    return figure
