"""The figure of Theorems 7.1 and 7.2."""

from collections.abc import Mapping

import pandas as pd
from matplotlib.figure import Figure

from rarefeat.figures.labels import INTERVALS, seeds_of
from rarefeat.figures.panels import ESTIMATED, add_legend, panels, plot_points
from rarefeat.figures.style import GREY, STYLES
from rarefeat.workflow.run.job import Job

LOSSES = {"loss": "spurious bits independent", "loss_tied": "one spurious bit is tied"}
SPURIOUS = {
    "spurious": "spurious bit, transformed",
    "spurious_shared": "spurious bit, shared by the pair",
}


def invariant_features(tables: Mapping[str, pd.DataFrame], job: Job) -> Figure:
    """Plot the identity of Theorem 7.1, and what the optimum encodes, at each norm.

    Inputs: `theorem_numbers`, or the published means.
    """
    (table,) = tables.values()
    table = table[table["result"] == "invariant_features"]
    if "value" in table:
        table = table.assign(mean=table["value"])
    shown = [name for name in ("value", *ESTIMATED) if name in table]
    norms = table["point"].astype(float)
    styles = {
        f"norm $B$ = {norm:g}": look.without_line
        for norm, look in zip(sorted(norms.unique()), (STYLES[0], STYLES[4]), strict=False)
    }
    table = table.assign(series=norms.map(lambda norm: f"norm $B$ = {norm:g}"))
    identity = table[table["quantity"].isin(list(LOSSES))]
    # Both are negative: the ends of a ratio change places.
    ratios = {name: identity[name] / identity["stated"] for name in shown}
    if "ci_low" in ratios:
        ratios |= {"ci_low": ratios["ci_high"], "ci_high": ratios["ci_low"]}
    identity = identity.assign(place=identity["quantity"].map(LOSSES), **ratios)
    bits = table[table["quantity"] == "encoded"]
    bits = bits.assign(place=bits["at"].map(lambda bit: f"invariant bit {bit:g}"))
    others = table[table["quantity"].isin(list(SPURIOUS))]
    encoded = pd.concat([bits, others.assign(place=others["quantity"].map(SPURIOUS))])
    figure, axes = panels(1, 2, 2.0)
    left, right = axes[0]
    for ax, rows in ((left, identity), (right, encoded)):
        rows = rows.drop(columns="mean") if "value" in shown else rows
        order = list(dict.fromkeys(rows["place"]))
        plot_points(ax, rows, "value", "place", styles, order=order, horizontal=True, dodge=0.3)
    left.axvline(1, color=GREY, lw=0.7)
    left.set(xlim=(0, 1.1), xlabel="loss over minus the variance given\nthe invariant features")
    right.set(xlim=(-0.03, 1.03), xlabel="squared distance by a change\nof the bit, over $4 B^2$")
    figure.suptitle("What the optimum of the contrastive loss encodes")
    add_legend(figure, styles, f"{INTERVALS}, {seeds_of(table)}")
    return figure
