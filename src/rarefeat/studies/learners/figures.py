"""Figure of the study of learners."""

from collections.abc import Mapping

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from rarefeat.figures.labels import EPS, n_of
from rarefeat.figures.panels import add_legend, panels
from rarefeat.figures.style import MASKED, NARROW

LABELS = {
    "infonce": "InfoNCE, the paper's",
    "symmetric": "loss: symmetric InfoNCE",
    "nt_xent": "loss: NT-Xent",
    "spectral": "loss: spectral",
    "barlow_twins": "loss: Barlow Twins",
    "vicreg": "loss: VICReg",
    "supervised": "loss: supervised",
    "relu": "encoder: ReLU neurons",
    "linear": "encoder: linear neurons",
    "mlp": "encoder: two layers",
    "attention": "encoder: trained attention",
    "adam": "optimiser: Adam",
    "adamw": "optimiser: AdamW",
    "momentum": "optimiser: momentum",
}
"""Words for the one thing in which a learner differs from the paper's; else its name."""
PAIRS = {"returning": "pairs that come back", "fresh": "pairs seen once"}
ERASED, KEPT, OPEN = "erased where it never occurs", "kept where it never occurs", "open"
FATES = {ERASED: {"mfc": MASKED}, KEPT: {"mfc": "w"}, OPEN: {"mfc": "0.75"}}
"""Filling of a mark, by what a run without the rare feature does with what random weights hold."""
ENDS = {"at most": "<", "above": ">", "": "o"}
"""Marker of frequencies, which may lie beyond the grid."""
HALF = 0.5
"""Share of the untrained R^2 below which the feature is erased, and above which it is kept."""


def lockout(tables: Mapping[str, pd.DataFrame], order: list[str]) -> Figure:
    """Draw from which frequency on half of the runs of a learner learn, a row for each learner.

    The learner that learns the rarest feature comes first, by the first kind of pairs.
    """
    by_end = {name.rpartition("_")[2]: table for name, table in tables.items()}
    # A published table has no value where a run's has an empty text.
    frequencies = by_end["frequencies"].fillna({"bound": ""}).dropna(subset=["frequency"])
    frequencies = frequencies[frequencies["measure"] == "readout"]
    kinds = [kind for kind in PAIRS if kind in frequencies["pairs"].to_numpy()] or ["returning"]
    first = frequencies[frequencies["pairs"] == kinds[0]].set_index("learner")["frequency"]
    names = list(first.reindex(order).sort_values(kind="stable").index)
    figure, (axes,) = panels(1, len(kinds), 1.2 + 0.21 * len(order), NARROW, sharey=True)
    for ax, kind in zip(axes, kinds, strict=True):
        plot_board(ax, frequencies[frequencies["pairs"] == kind], names)
        ax.set(title=PAIRS[kind] if len(kinds) > 1 else "", xlabel=EPS)
    axes[0].set(
        yticks=range(len(names)),
        yticklabels=[LABELS.get(name, name.replace("_", " ")) for name in names],
    )
    axes[0].invert_yaxis()
    figure.suptitle("Frequency from which half of the runs learn the rare feature")
    entries = {
        label: handle
        for ax in axes
        for handle, label in zip(*ax.get_legend_handles_labels(), strict=True)
    }
    note = f"95 % intervals, {n_of(*frequencies['n'])}; an arrow: beyond the grid"
    add_legend(figure, entries, note)
    return figure


def plot_board(ax: Axes, frequencies: pd.DataFrame, names: list[str]) -> None:
    """Draw the frequency of each learner, filled by what it does with a feature that is absent."""
    for row in frequencies.itertuples():
        erases, keeps = row.kept_high < HALF, row.kept_low > HALF
        fate = ERASED if erases else KEPT if keeps else OPEN
        ends = [[row.frequency - row.ci_low], [row.ci_high - row.frequency]]
        x, bars, marker = row.frequency, np.clip(ends, 0, None), ENDS[row.bound]
        y = names.index(row.learner)
        ax.errorbar(x, y, xerr=bars, ls="none", marker=marker, color=MASKED, **FATES[fate])
        ax.plot([], [], "o", ls="none", color=MASKED, **FATES[fate], label=fate)
        if row.learner == "infonce":
            ax.axvspan(row.ci_low, row.ci_high, color="0.92", lw=0, zorder=0)
            place = (row.ci_low + row.ci_high) / 2, len(names) - 1
            ax.text(*place, "the paper's\nlearner", ha="center", color="0.4")
