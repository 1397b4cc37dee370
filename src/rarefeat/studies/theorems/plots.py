"""Parts of the figures of exact results."""

from typing import Any

import pandas as pd
from matplotlib.axes import Axes

from rarefeat.figures.style import SeriesStyle

STATED = SeriesStyle("0", dash=(0, (4, 1.5)))
SHARE = (0.0, 1.0)


def of_quantity(table: pd.DataFrame, quantity: str) -> pd.DataFrame:
    """Return the rows of a quantity."""
    return table[table["quantity"] == quantity]


def plot_stated(ax: Axes, rows: pd.DataFrame, x: str = "at", **look: Any) -> None:
    """Plot the stated values over x as one line."""
    means = rows.groupby(x)["stated"].mean()
    ax.plot(means.index, means, **(STATED.line | look))


def settings_on(table: pd.DataFrame, axis: str) -> dict[float, str]:
    """Return settings by their value on an axis of numbers, ascending."""
    names = table["setting"].unique()
    return dict(sorted((float(name.removeprefix(f"{axis}=")), name) for name in names))
