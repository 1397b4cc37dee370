"""Figure of the study of learners."""

from collections.abc import Mapping

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from rarefeat.figures.labels import EPS
from rarefeat.figures.panels import panels
from rarefeat.figures.style import GREY, QUALITATIVE
from rarefeat.statistics import student_interval

LABELS = {
    "infonce": "InfoNCE, the paper's",
    "symmetric": "symmetric InfoNCE",
    "nt_xent": "NT-Xent",
    "spectral": "the spectral loss",
    "barlow_twins": "Barlow Twins",
    "vicreg": "VICReg",
    "supervised": "a supervised loss",
    "relu": "ReLU neurons",
    "linear": "linear neurons",
    "mlp": "two layers",
    "attention": "trained attention",
    "adam": "Adam",
    "adamw": "AdamW",
}
"""Words for the one thing in which a learner differs from the paper's; else its name."""
RETURNING, FRESH = (
    {"color": QUALITATIVE[0], "marker": "o"},
    {"color": QUALITATIVE[4], "marker": "s"},
)
LOOKS = {
    ("returning", "readout"): (RETURNING, -0.24),
    ("returning", "cosine"): (RETURNING | {"mfc": "w"}, -0.08),
    ("fresh", "readout"): (FRESH, 0.08),
    ("fresh", "cosine"): (FRESH | {"mfc": "w"}, 0.24),
}
"""Style and offset within a row, by kind of pairs and measure."""
PAIRS = {"returning": "pairs that come back", "fresh": "pairs seen once"}
MEASURES = {"readout": "a linear readout", "cosine": "one neuron"}
ENDS = {"at most": "<", "above": ">"}
"""Markers of frequencies beyond the grid."""


def lockout(tables: Mapping[str, pd.DataFrame], order: list[str]) -> Figure:
    """Draw from which frequency on each learner learns, and what it keeps of what it never sees.

    A row for each learner, in order.
    """
    by_end = {name.rpartition("_")[2]: table for name, table in tables.items()}
    # A published table has no value where a run's has an empty text.
    frequencies = by_end["frequencies"].fillna({"bound": ""})
    figure, ((left, right),) = panels(
        1, 2, 0.9 + 0.27 * len(order), sharey=True, width_ratios=[2.2, 1]
    )
    plot_frequencies(left, frequencies.dropna(subset=["frequency"]), order)
    plot_readouts(right, by_end["learners"], order)
    left.invert_yaxis()
    figure.suptitle("Relative frequency from which half of the runs pass a test")
    entries = [ax.get_legend_handles_labels() for ax in (left, right)]
    handles, labels = ([*one, *other] for one, other in zip(*entries, strict=True))
    n = int(frequencies["n"].max()) if len(frequencies) else 0
    title = f"95 % interval over {n} seeds; an arrow: beyond the grid"
    figure.legend(handles, labels, loc="outside lower left", ncols=3, title=title)
    return figure


def plot_frequencies(ax: Axes, frequencies: pd.DataFrame, order: list[str]) -> None:
    """Draw the frequencies by kind of pairs and measure, and a band for the paper's learner."""
    for row in frequencies.to_dict("records"):
        style, offset = LOOKS[row["pairs"], row["measure"]]
        marker = {"marker": ENDS[row["bound"]]} if row["bound"] else {}
        x, y = row["frequency"], order.index(row["learner"]) + offset
        errors = np.clip([[x - row["ci_low"]], [row["ci_high"] - x]], 0, None)
        ax.errorbar(x, y, xerr=errors, ls="none", **(style | marker))
        if (row["learner"], row["pairs"], row["measure"]) == ("infonce", "returning", "readout"):
            ax.axvspan(row["ci_low"], row["ci_high"], color="0.9", lw=0, zorder=0)
    drawn = set(zip(frequencies["pairs"], frequencies["measure"], strict=True))
    for (pairs, measure), (style, _) in LOOKS.items():
        if (pairs, measure) in drawn:
            ax.plot([], [], ls="none", label=f"{PAIRS[pairs]}, by {MEASURES[measure]}", **style)
    names = [LABELS.get(name, name.replace("_", " ")) for name in order]
    ax.set(yticks=range(len(order)), yticklabels=names)
    ax.set_xlabel(f"{EPS}\nfrom which half of the runs pass")
    ax.set_title("the rare feature", loc="left")


def plot_readouts(ax: Axes, learners: pd.DataFrame, order: list[str]) -> None:
    """Draw R^2 of the rare features untrained and never seen, and of the frequent ones."""
    for row, name in enumerate(order):
        for pairs, group in learners[learners["learner"] == name].groupby("pairs"):
            style, offset = LOOKS[pairs, "readout"]
            y, label = row + offset, "_" * bool(row)
            ax.plot(group["r2_untrained"].mean(), y, "x", color=GREY, label=f"{label}untrained")
            ax.plot(group["r2_never"].mean(), y, ls="none", **style | {"mfc": "w"})
            mean, _, low, high, _ = student_interval(group["r2_frequent"].to_numpy())
            ax.errorbar(mean, y, xerr=[[mean - low], [high - mean]], **style)
    ax.set(xlabel="$R^2$ of a readout", xlim=(min(0, *ax.get_xlim()), 1))
    ax.set_title("never seen; frequent", loc="left")
