"""The claims of one part of the theory: a row for each, its regimes as marks on the scale of what it requires."""

import textwrap
from collections.abc import Mapping

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from rarefeat.claims.tables import VERDICTS
from rarefeat.claims.verdict import line
from rarefeat.run.job import Job

SHOWN = VERDICTS[:3]
MARKERS = dict(zip(SHOWN, ["o", "X", "D"], strict=True))
COLOURS = dict(zip(SHOWN, ["#00224e", "#b8860b", "#9a9a9a"], strict=True))
HEIGHT = 0.42
"""Of a row, in inches."""
REACH = 1.5
"""Marks further out than this multiple of what most regimes span stand at the edge, as an arrow."""


def group(tables: Mapping[str, pd.DataFrame], job: Job) -> Figure:
    """Every claim of a part: the primary regime large with its 95 % interval, the others small, what is required shaded.

    Each row has a scale of its own, that of its quantity. Regimes that are not tested or have diverged are counted, not drawn.
    """
    (table,), name = tables.values(), job.part("group", str)
    return draw(table[table["group"] == name], name)


def draw(rows: pd.DataFrame, name: str) -> Figure:
    """The figure of the rows of one part."""
    claims = list(dict.fromkeys(rows["claim_id"]))
    if not claims:
        figure = plt.figure(figsize=(3.6, 1.0))
        figure.text(0.5, 0.5, f"{name}: no claim is measured", ha="center")
        return figure
    figure, axes = plt.subplots(len(claims), 1, figsize=(7.4, HEIGHT * len(claims) + 0.95), squeeze=False)
    for ax, claim in zip(axes[:, 0], claims, strict=True):
        row(ax, claim, rows[rows["claim_id"] == claim])
    handles = [Line2D([], [], marker=MARKERS[verdict], color=COLOURS[verdict], ls="", ms=4) for verdict in SHOWN]
    handles += [Line2D([], [], marker="o", color="0.3", ls="-", ms=7, mfc="none"), plt.Rectangle((0, 0), 1, 1, color="0.88")]
    height = figure.get_figheight()
    figure.subplots_adjust(left=0.17, right=0.66, top=1 - 0.16 / height, bottom=0.75 / height, hspace=1.3)
    figure.legend(handles, [*SHOWN, "primary regime, 95 %", "required"], loc="lower center", ncols=5, fontsize=7, frameon=False)
    return figure


def row(ax: plt.Axes, claim: str, part: pd.DataFrame) -> None:
    """One claim."""
    seen = part[part["verdict"].isin(SHOWN)]
    low, high = limits(seen, part["required_low"].iloc[0], part["required_high"].iloc[0])
    ax.axvspan(max(part["required_low"].iloc[0], low), min(part["required_high"].iloc[0], high), color="0.88", lw=0)
    for verdict in SHOWN:
        some = seen[(seen["verdict"] == verdict) & ~seen["primary"]]
        for marker, chosen in arrows(some["estimate"], low, high, MARKERS[verdict]):
            ax.plot(chosen, np.zeros(len(chosen)), marker, color=COLOURS[verdict], ms=4, alpha=0.75, mew=0.5, mec="white")
    for entry in seen[seen["primary"]].itertuples():
        colour = COLOURS[entry.verdict]
        ends = np.clip([entry.ci_low, entry.ci_high], low, high)
        ax.plot(ends, [0.45, 0.45], color=colour, lw=1.4)
        ax.plot(np.clip(entry.estimate, low, high), 0.45, MARKERS[entry.verdict], color=colour, ms=7, mew=0.5, mec="white")
    ax.set(xlim=(low, high), ylim=(-0.5, 0.95), yticks=[])
    ax.tick_params(labelsize=6, length=2, pad=1)
    ax.locator_params(axis="x", nbins=5)
    ax.spines[["left", "top", "right"]].set_visible(False)
    primary = part.loc[part["primary"], "verdict"]
    said = primary.iloc[0] if len(primary) else VERDICTS[-1]
    ax.text(-0.02, 0.5, claim, transform=ax.transAxes, ha="right", va="center", fontsize=7.5)
    others = part.loc[~part["primary"], "verdict"]
    text = f"{said}; " + (f"others: {line(others)}" if len(others) else "no other regime")
    ax.text(1.02, 0.5, textwrap.fill(text, 52), transform=ax.transAxes, ha="left", va="center", fontsize=6)


def limits(seen: pd.DataFrame, low: float, high: float) -> tuple[float, float]:
    """Ends of a row's scale: the finite ends of what is required, the primary interval, and what most regimes span."""
    values = [*seen["estimate"].quantile([0.1, 0.5, 0.9]), *seen.loc[seen["primary"], ["ci_low", "ci_high"]].to_numpy().ravel()]
    values = [value for value in [*values, low, high] if np.isfinite(value)]
    left, right = (min(values), max(values)) if values else (0.0, 1.0)
    pad = 0.5 * (REACH - 1) * (right - left) or 0.5 * abs(left) or 0.5
    return left - pad, right + pad


def arrows(values: pd.Series, low: float, high: float, marker: str) -> list[tuple[str, np.ndarray]]:
    """Marks with their places; those beyond the scale at its ends."""
    values = values.to_numpy()
    below, above = values < low, values > high
    return [
        (marker, values[~below & ~above]),
        ("<", np.full(below.sum(), low)),
        (">", np.full(above.sum(), high)),
    ]
