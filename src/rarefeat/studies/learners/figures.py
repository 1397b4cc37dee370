"""Figure of the study of learners."""

from collections.abc import Mapping

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from rarefeat.figures.labels import FREQUENCY, n_of
from rarefeat.figures.panels import panels
from rarefeat.figures.style import DENSE, GREY, MASKED, NARROW

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
ENDS = {"at most": "<", "above": ">", "": "o"}
"""Marker of frequencies, which may lie beyond the grid."""


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
        ax.set(title=PAIRS[kind] if len(kinds) > 1 else "")
    labels = [LABELS.get(name, name.replace("_", " ")) for name in names]
    axes[0].set_yticks(range(len(names)), labels)
    axes[0].invert_yaxis()
    figure.suptitle("How frequent the rare feature must be for half of the runs to learn it")
    beyond = {
        f"; arrow: {row.bound} {row.frequency:g}" for row in frequencies.itertuples() if row.bound
    }
    note = f"{FREQUENCY}\n95 % intervals, {n_of(*frequencies['n'])}"
    figure.supxlabel(note + "".join(sorted(beyond)))
    return figure


def plot_board(ax: Axes, frequencies: pd.DataFrame, names: list[str]) -> None:
    """Draw the frequency of each learner, with a line at the paper's."""
    for row in frequencies.itertuples():
        ends = [[row.frequency - row.ci_low], [row.ci_high - row.frequency]]
        x, y, bars = row.frequency, names.index(row.learner), np.clip(ends, 0, None)
        colour = DENSE if row.learner == "infonce" else MASKED
        ax.errorbar(x, y, xerr=bars, color=colour, marker=ENDS[row.bound])
        if row.learner == "infonce":
            ax.axvline(x, color=GREY, lw=0.7, zorder=0)
