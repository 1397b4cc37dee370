"""Figures of the study of fine labels; their captions are in `__init__.py`."""

from collections.abc import Mapping

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from rarefeat.figures.labels import INTERVALS, n_of, seeds_of
from rarefeat.figures.panels import label_ends, panels, plot_lines
from rarefeat.figures.style import GREY, NARROW, STYLES, SeriesStyle, assign_styles
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
        ("labels", "coarse"): ("coarse labels", SeriesStyle(GREY, "v", DOTTED)),
        ("views", "dense"): ("views, no bias", STYLES[4].replace(filled=False)),
        ("labels", "fine"): ("fine labels", SeriesStyle(GREY, "^", DOTTED)),
        ("views", f"dense-bias={strongest:g}"): (f"views, bias {strongest:g}", STYLES[0]),
    }
    names = [shown.get(pair, ("",))[0] for pair in zip(rows["pair"], rows["arm"], strict=True)]
    rows = rows.assign(series=names)[rows["quantity"] == "hard"]
    styles = dict(shown.values())
    figure, ((ax,),) = panels(height=2.5, width=NARROW)
    plot_lines(ax, rows, "k", "value", styles, bounds=ERROR)
    set_axes(ax, sorted(fine_labels.k), "error on hard samples")
    value = "value" if "value" in rows else "mean"
    last = rows[(rows["k"] == rows["k"].max()) & (rows["series"] != "")].groupby("series")[value]
    label_ends(ax, {name: (y, styles[name].colour) for name, y in last.mean().items()}, least=0.1)
    figure.suptitle("Error of a head on contrastive features, with a bias and without,\n"
                    "between networks with coarse and with fine labels")  # fmt: skip
    seeds = seeds_of(rows[rows["pair"] == "views"])
    figure.supxlabel(f"{INTERVALS}, {seeds}; penalty of the head {RIDGE:g}", size=7)
    return figure


def granularity(tables: Tables) -> Figure:
    """Draw the error minus the baseline's by kind of labels, as measured against as printed."""
    (table,) = tables.values()
    table = table if "printed" in table else doc_tables.granularity(table)
    rows = table[
        (table["readout"] == "finetuned")
        & (table["epoch"] == table["epoch"].max())
        & (table["labels"] != BASELINE)
    ]
    kinds = rows["labels"].str.partition("-")[0].map(doc_tables.KINDS)
    figure, ((ax,),) = panels(height=3.4, width=NARROW)
    for kind, style in assign_styles(kinds).items():
        of_kind = rows[kinds == kind]
        x, (mean, low, high) = of_kind["printed"], (100 * of_kind[name] for name in PAIRED)
        ax.errorbar(x, mean, [mean - low, high - mean], elinewidth=0.8,
                    **style.without_line.line, label=kind)  # fmt: skip
    ax.axhline(0, color=GREY, lw=0.7)
    ax.axvline(0, color=GREY, lw=0.7)
    low, high = ax.get_xlim()
    bottom, top = ax.get_ylim()
    for x, y in (((low, 0), (0, top)), ((0, high), (bottom, 0))):
        ax.fill_between(x, *y, color="0.92", lw=0, zorder=0)
    ax.set(
        xlim=(low, high), ylim=(min(bottom, -0.3), top),
        xlabel="as printed: error minus the baseline's (points)", ylabel="here (points)",
    )  # fmt: skip
    figure.suptitle("Error after fine-tuning, by the labels of the pretraining\n"
                    "(grey: here and in print it changes in opposite directions)")  # fmt: skip
    figure.legend(loc="outside lower center", ncols=2, title=f"{INTERVALS}, {n_of(*rows['n'])}")
    return figure
