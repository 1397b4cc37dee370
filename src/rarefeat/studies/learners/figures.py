"""Figure of the study of learners."""

from collections.abc import Mapping

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.transforms import Transform

from rarefeat.figures.labels import EPS, n_of
from rarefeat.figures.panels import panels
from rarefeat.figures.style import MASKED

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
PAIRS = {"returning": "pairs that come back", "fresh": "pairs seen once"}
FATES = {"erases": {"mfc": MASKED}, "keeps": {"mfc": "w"}, "open": {"mfc": "0.75"}}
"""Filling of a mark, by what a run without the rare feature does with what random weights hold."""
ENDS = {"at most": ("<", "≤ "), "above": (">", "> "), "": ("o", "")}
"""Marker and sign of frequencies, which may lie beyond the grid."""
COLUMNS = (18, 54)
"""Places of the numbers right of a row (points)."""
HALF = 0.5
"""Share of the untrained R^2 below which the feature is erased, and above which it is kept."""


def lockout(tables: Mapping[str, pd.DataFrame], order: list[str]) -> Figure:
    """Draw from which frequency on half of the runs of a learner learn, a row for each learner.

    The learner that learns the rarest feature comes first, by the first kind of pairs.
    """
    by_end = {name.rpartition("_")[2]: table for name, table in tables.items()}
    # A published table has no value where a run's has an empty text.
    frequencies = by_end["frequencies"].fillna({"bound": ""}).dropna(subset=["frequency"])
    kinds = [kind for kind in PAIRS if kind in frequencies["pairs"].to_numpy()] or ["returning"]
    first = frequencies[frequencies["pairs"] == kinds[0]]
    wide = first.pivot(index="learner", columns="measure", values="frequency").reindex(order)
    names = list(wide.sort_values([*wide.columns][::-1], kind="stable").index)
    figure, (axes,) = panels(1, len(kinds), 0.9 + 0.21 * len(order), sharey=True)
    for ax, kind in zip(axes, kinds, strict=True):
        plot_board(ax, frequencies[frequencies["pairs"] == kind], names)
        ax.set_title(PAIRS[kind], loc="left")
    axes[0].set(
        yticks=range(len(names)),
        yticklabels=[LABELS.get(name, name.replace("_", " ")) for name in names],
    )
    axes[0].invert_yaxis()
    figure.suptitle("Relative frequency from which half of the runs learn the rare feature")
    axes[0].set_xlabel(
        f"{EPS} (95 % intervals, {n_of(*frequencies['n'])}; an arrow: beyond the grid)"
    )
    handles, labels = axes[0].get_legend_handles_labels()
    title = "what a training does with a feature that never occurs"
    figure.legend(handles, labels, loc="outside lower center", ncols=3, title=title)
    return figure


def plot_board(ax: Axes, frequencies: pd.DataFrame, names: list[str]) -> None:
    """Draw the frequency of each learner by readout, and write what it keeps, and one neuron's."""
    for x, head in zip(COLUMNS, ("of it\nkept", "by one\nneuron"), strict=True):
        write(ax, x, 1.01, head, ax.transAxes, "bottom")
    for fate, style in FATES.items():
        ax.plot([], [], "o", ls="none", color=MASKED, label=fate, **style)
    by_measure = frequencies.set_index(["learner", "measure"])
    for y, name in enumerate(names):
        if (name, "readout") not in by_measure.index:
            continue
        row = by_measure.loc[(name, "readout")]
        erases, keeps = row["kept_high"] < HALF, row["kept_low"] > HALF
        style = FATES["erases" if erases else "keeps" if keeps else "open"]
        ends = [[row["frequency"] - row["ci_low"]], [row["ci_high"] - row["frequency"]]]
        marker, _ = ENDS[row["bound"]]
        x, bars = row["frequency"], np.clip(ends, 0, None)
        ax.errorbar(x, y, xerr=bars, ls="none", marker=marker, color=MASKED, **style)
        if name == "infonce":
            ax.axvspan(row["ci_low"], row["ci_high"], color="0.92", lw=0, zorder=0)
        texts = [f"{max(100 * row['kept'], 0):.0f} %"]
        if (name, "cosine") in by_measure.index:
            cosine = by_measure.loc[(name, "cosine")]
            texts.append(f"{ENDS[cosine['bound']][1]}{cosine['frequency']:.2f}")
        for column, text in zip(COLUMNS, texts, strict=False):
            write(ax, column, y, text, ax.get_yaxis_transform(), "center")


def write(ax: Axes, x: float, y: float, text: str, transform: Transform, vertical: str) -> None:
    """Write a text so many points right of the axes."""
    place = {"xycoords": transform, "xytext": (x, 0), "textcoords": "offset points"}
    ax.annotate(text, (1, y), ha="center", va=vertical, color="0.4", **place)
