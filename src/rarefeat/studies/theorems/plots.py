"""Parts of the figures of exact results, and the figure of Theorems 7.1 and 7.2.

It is apart from `invariant_features.py`, since an edit of that file measures all small theorems.
"""

from collections.abc import Mapping
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from rarefeat.figures.labels import INTERVALS, seeds_of
from rarefeat.figures.panels import panels, plot_points, titled
from rarefeat.figures.style import NARROW, STYLES, SeriesStyle
from rarefeat.studies.theorems.results import of_quantity

STATED = SeriesStyle("0", dash=(0, (4, 1.5)))
SHARE = (0.0, 1.0)


def plot_stated(ax: Axes, rows: pd.DataFrame, **look: Any) -> None:
    """Plot the stated values over their places as one line."""
    means = rows.groupby("at")["stated"].mean()
    ax.plot(means.index, means, **(STATED.line | look))


def invariant_features(tables: Mapping[str, pd.DataFrame]) -> Figure:
    """Plot how far the optimum of Theorem 7.2 moves with each bit, at the largest norm."""
    (table,) = tables.values()
    table = table[table["result"] == "invariant_features"]
    table = table[table["point"] == max(table["point"], key=float)]
    names = {
        "spurious": "spurious bit that a pair redraws",
        "spurious_shared": "spurious bit that a pair shares",
    }
    bits = of_quantity(table, "encoded")
    bits = bits.assign(place=bits["at"].map(lambda bit: f"invariant bit {bit:g}"))
    others = table[table["quantity"].isin(list(names))]
    rows = pd.concat([bits, others.assign(place=others["quantity"].map(names))])
    order = list(dict.fromkeys(rows["place"]))
    figure, ((ax,),) = panels(height=1.9, width=NARROW)
    look = STYLES[0].without_line
    plot_points(ax, rows, "value", "place", look, order=order, horizontal=True)
    ax.set(xlim=(-0.03, 1.03), xlabel="squared distance (1: the largest possible)")
    return titled(
        figure,
        "How far the best contrastive embedding moves if a bit flips",
        f"{INTERVALS}, {seeds_of(table)}",
    )
