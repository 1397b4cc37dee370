"""Parts of the figures of exact results, and the figure of Theorems 7.1 and 7.2.

It is apart from `invariant_features.py`, since an edit of that file measures all small theorems.
"""

from collections.abc import Mapping
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from rarefeat.figures.labels import INTERVALS, seeds_of
from rarefeat.figures.panels import ESTIMATED, add_legend, panels, plot_points
from rarefeat.figures.style import GREY, STYLES, SeriesStyle
from rarefeat.studies.theorems.results import of_quantity

STATED = SeriesStyle("0", dash=(0, (4, 1.5)))
SHARE = (0.0, 1.0)


def plot_stated(ax: Axes, rows: pd.DataFrame, x: str = "at", **look: Any) -> None:
    """Plot the stated values over x as one line."""
    means = rows.groupby(x)["stated"].mean()
    ax.plot(means.index, means, **(STATED.line | look))


def invariant_features(tables: Mapping[str, pd.DataFrame]) -> Figure:
    """Plot the identity of Theorem 7.1, and what the optimum encodes, at each norm."""
    (table,) = tables.values()
    table = table[table["result"] == "invariant_features"]
    norms = table["point"].astype(float)
    styles = {
        f"norm $B$ = {norm:g}": look.without_line
        for norm, look in zip(sorted(norms.unique()), (STYLES[0], STYLES[4]), strict=False)
    }
    table = table.assign(series=norms.map(lambda norm: f"norm $B$ = {norm:g}"))
    losses = {"loss": "spurious bits independent", "loss_tied": "one spurious bit is tied"}
    identity = table[table["quantity"].isin(list(losses))]
    shown = [name for name in ("value", *ESTIMATED) if name in table]
    ratios = {name: identity[name] / identity["stated"] for name in shown}
    if "ci_low" in ratios:
        # Both are negative: the ends of a ratio change places.
        ratios |= {"ci_low": ratios["ci_high"], "ci_high": ratios["ci_low"]}
    identity = identity.assign(place=identity["quantity"].map(losses), **ratios)
    names = {
        "spurious": "spurious bit, transformed",
        "spurious_shared": "spurious bit, shared by the pair",
    }
    bits = of_quantity(table, "encoded")
    bits = bits.assign(place=bits["at"].map(lambda bit: f"invariant bit {bit:g}"))
    others = table[table["quantity"].isin(list(names))]
    encoded = pd.concat([bits, others.assign(place=others["quantity"].map(names))])
    figure, ((left, right),) = panels(1, 2, 2.0)
    for ax, rows in ((left, identity), (right, encoded)):
        order = list(dict.fromkeys(rows["place"]))
        plot_points(ax, rows, "value", "place", styles, order=order, horizontal=True, dodge=0.3)
    left.axvline(1, color=GREY, lw=0.7)
    left.set(xlim=(0, 1.1), xlabel="loss over minus the variance given\nthe invariant features")
    right.set(xlim=(-0.03, 1.03), xlabel="squared distance by a change\nof the bit, over $4 B^2$")
    figure.suptitle("What the optimum of the contrastive loss encodes")
    add_legend(figure, styles, f"{INTERVALS}, {seeds_of(table)}")
    return figure
