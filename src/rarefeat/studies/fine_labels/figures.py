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
    label_first,
    panels,
    plot_lines,
    plot_points,
)
from rarefeat.figures.style import MASKED, NARROW, RARE, STYLES, SeriesStyle
from rarefeat.stages.tables import PAIRED
from rarefeat.studies.fine_labels import RIDGE, FineLabels, doc_tables
from rarefeat.studies.fine_labels.tables import BASELINE

Tables = Mapping[str, pd.DataFrame]
ERROR = (0.0, 1.0)
"""Range of an error."""
LABEL_STYLES = {
    "coarse labels": SeriesStyle("black", "o"),
    "fine labels": STYLES[4].replace(marker="s", filled=False),
}
PRINTED = "the paper, other images"
SUBCLASSES = "subclasses of a superclass, $k$"


def plot_errors(ax: Axes, rows: pd.DataFrame, value: str, styles: dict[str, SeriesStyle]) -> None:
    """Plot errors on hard samples against k, each line with its name at its end."""
    plot_lines(ax, rows, "k", value, styles, bounds=ERROR)
    k = sorted(set(rows["k"]))
    ax.set(xscale="log", xlabel=SUBCLASSES, ylim=(-0.03, 1.03), ylabel="error on hard samples")
    ax.set_xticks(k, k)
    ax.minorticks_off()
    ax.yaxis.set_major_formatter(PercentFormatter(1))
    value = value if value in rows else "mean"
    last = rows[rows["k"] == max(k)].groupby("series")[value].mean()
    label_ends(ax, {name: (last[name], look.colour) for name, look in styles.items()}, least=0.1)


def errors(tables: Tables, fine_labels: FineLabels) -> Figure:
    """Draw errors on hard samples against k, with coarse and with fine labels."""
    (table,) = tables.values()
    rows = table if set(table["labels"]) <= {"coarse", "fine"} else doc_tables.errors(table)
    rows = rows[(rows["s_dag"] == fine_labels.hierarchy.s_dag) & (rows["metric"] == "hard_error")]
    figure, ((ax,),) = panels(height=2.4, width=NARROW)
    plot_errors(ax, rows.assign(series=rows["labels"] + " labels"), "error", LABEL_STYLES)
    figure.suptitle("Error on hard samples of networks trained with coarse and with fine labels")
    figure.supxlabel(f"{INTERVALS}, {n_of(*rows['n'])}")
    return figure


def crossing(tables: Tables, fine_labels: FineLabels) -> Figure:
    """Draw errors on hard samples against k: of views, with a bias and without, and of labels."""
    found = list(tables.values())
    rows = doc_tables.crossing_rows(*found) if len(found) > 1 else found[0]
    arms = [arm for arms in fine_labels.crossing.arms.values() for arm in arms]
    strongest = max((arm.bias for arm in arms), default=0)
    shown = {
        ("views", "dense"): ("two views, no bias", SeriesStyle(RARE, "D")),
        ("labels", "coarse"): ("coarse labels", SeriesStyle("0.4", "o", (0, (4, 1.5)), False)),
        ("labels", "fine"): ("fine labels", SeriesStyle("0.4", "s", (0, (1, 1)), False)),
        ("views", f"dense-bias={strongest:g}"): (
            f"two views, bias {strongest:g}", SeriesStyle(MASKED, "^"),
        ),
    }  # fmt: skip
    names = [shown.get(pair, ("",))[0] for pair in zip(rows["pair"], rows["arm"], strict=True)]
    rows = rows.assign(series=names)
    rows = rows[(rows["quantity"] == "hard") & (rows["series"] != "")]
    figure, ((ax,),) = panels(height=2.6, width=NARROW)
    plot_errors(ax, rows, "value", dict(shown.values()))
    figure.suptitle("Error on hard samples: trained on two views of a sample, or on labels")
    seeds = seeds_of(*(line for _, line in rows.groupby("series")))
    figure.supxlabel(f"{INTERVALS}, {seeds}; penalty of the head {RIDGE:g}")
    return figure


def granularity(tables: Tables) -> Figure:
    """Draw the error minus the baseline's by labels: of each coarse task here, and as printed."""
    (table,) = tables.values()
    table = table if "printed" in table else doc_tables.granularity(table)
    rows = table[
        (table["readout"] == "finetuned")
        & (table["epoch"] == table["epoch"].max())
        & (table["labels"] != BASELINE)
    ]
    parts = rows["labels"].str.partition("-")
    rows = rows.assign(
        place=(parts[2] + " " + parts[0].map(doc_tables.KINDS)).str.strip(),
        series=rows["superclass"],
        **{name: 100 * rows[paired] for name, paired in zip(ESTIMATED, PAIRED, strict=True)},
    )
    order = list(rows.groupby("place")["mean"].mean().sort_values(ascending=False).index)
    printed = rows.drop_duplicates("place").assign(
        series=PRINTED, **dict.fromkeys(ESTIMATED, rows["printed"])
    )
    names = [PRINTED, *dict.fromkeys(rows["series"])]
    looks = STYLES[4].replace(marker="s", filled=False), *STYLES[2::-2]
    styles = {name: look.without_line for name, look in zip(names, looks, strict=False)}
    figure, ((ax,),) = panels(height=0.9 + 0.25 * len(order), width=NARROW)
    rows = pd.concat([printed, rows])
    plot_points(ax, rows, "error", "place", styles, order=order, horizontal=True, dodge=0.4)
    first = rows[rows["place"] == order[0]].set_index("series")["mean"]
    label_first(ax, first, styles)
    draw_zero_line(ax, vertical=True)
    ax.set_xlabel("error minus the baseline's (points)")
    figure.suptitle("Error after fine-tuning, by the labels of the pretraining")
    figure.supxlabel(f"{INTERVALS}, {n_of(*rows['n'])}")
    return figure
