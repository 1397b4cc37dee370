"""Stage 5 of the claims: the rows of one part of the theory against what its claims require."""

import textwrap
from collections.abc import Mapping

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from rarefeat.claims.tables import VERDICTS
from rarefeat.run.job import Job

MARKERS = dict(zip(VERDICTS, ["o", "D", "x", ""], strict=True))
COLOURS = dict(zip(VERDICTS, ["#00224e", "#7d7c78", "#c8a200", ""], strict=True))
COLUMNS = 3


def group(tables: Mapping[str, pd.DataFrame], job: Job) -> Figure:
    """A panel for each claim: estimates with their intervals, one below the other by regime, and what is required, shaded."""
    (table,), name = tables.values(), job.part("group", str)
    rows = table[(table["group"] == name) & (table["verdict"] != VERDICTS[3])]
    claims = list(dict.fromkeys(rows["claim_id"]))
    if not claims:
        figure = plt.figure(figsize=(3.6, 1.0))
        figure.text(0.5, 0.5, f"{name}: nothing could be tested", ha="center")
        return figure
    columns = min(COLUMNS, len(claims))
    lines = -(-len(claims) // columns)
    figure, axes = plt.subplots(lines, columns, figsize=(3.6 * columns, 2.6 * lines), squeeze=False)
    for ax in axes.flat[len(claims) :]:
        ax.set_axis_off()
    for ax, claim in zip(axes.flat, claims, strict=False):
        part = rows[rows["claim_id"] == claim].reset_index(drop=True)
        half = [part["estimate"] - part["ci_low"], part["ci_high"] - part["estimate"]]
        for verdict in VERDICTS[:3]:
            at = part.index[part["verdict"] == verdict]
            if len(at):
                ax.errorbar(
                    part["estimate"][at], at, xerr=[side[at] for side in half], fmt=MARKERS[verdict], color=COLOURS[verdict],
                    ms=3.5, lw=0.8,
                )  # fmt: skip
        shade(ax, part["required_low"].iloc[0], part["required_high"].iloc[0])
        ax.set_title(textwrap.fill(f"{claim}: {part['statement'].iloc[0]}", 62), fontsize=5.5)
        ax.set_xlabel(textwrap.fill(part["quantity"].iloc[0], 68), fontsize=5.5)
        ax.tick_params(labelsize=5)
        # Many rows are named by their study, at the first of each.
        studies = part["regime"].str.split(": ").str[0].drop_duplicates()
        labels = part["regime"] if len(part) <= 12 else studies if len(studies) <= 40 else studies[:0]
        ax.set_yticks(labels.index, labels, fontsize=4.5 if len(labels) <= 12 else 3)
        ax.invert_yaxis()
    handles = [Line2D([], [], marker=MARKERS[name], color=COLOURS[name], ls="") for name in VERDICTS[:3]]
    figure.legend(handles, VERDICTS[:3], loc="lower center", ncols=3, fontsize=6, bbox_to_anchor=(0.5, -0.03))
    figure.tight_layout()
    return figure


def shade(ax: plt.Axes, low: float, high: float) -> None:
    """Where a claim holds, with both ends in view."""
    left, right = ax.get_xlim()
    ends = [end for end in (low, high) if end == end]
    pad = 0.05 * (right - left)
    left, right = min(left, *ends) - pad, max(right, *ends) + pad
    ax.axvspan(low if low == low else left, high if high == high else right, color="0.9", zorder=-1)
    ax.set_xlim(left, right)
