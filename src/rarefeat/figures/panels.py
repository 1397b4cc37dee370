"""Parts that figures are made of: estimates with intervals inside their range, marks, bands, paired differences, keys."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from scipy.stats import binom

from rarefeat.core.statistics import ANYWHERE, student_interval
from rarefeat.figures.labels import Quantity
from rarefeat.figures.style import GREY, PAGE, Look


def panels(
    rows: int = 1, columns: int = 1, height: float = 2.2, width: float = PAGE, **options: Any
) -> tuple[Figure, np.ndarray]:
    """A figure of a printed width (inches) and a total height, and its axes (rows, columns); a letter on each of several."""
    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(rows, columns, squeeze=False, **options)
    return figure, axes


def letter(axes: Iterable[Axes]) -> None:
    """a, b, c ... above the panels, for captions and texts to point at."""
    for ax, character in zip(axes, "abcdefghijklmnopqrstuvwxyz", strict=False):
        ax.set_title(character, loc="left", weight="bold")


def estimate(values: np.ndarray, inside: tuple[float, float] = ANYWHERE) -> tuple[float, float, float, int]:
    """Mean over seeds, both ends of its 95 % Student interval, and n; inside: the quantity's range."""
    mean, _, low, high, n = student_interval(values, inside=inside)
    return mean, low, high, n


def median(values: np.ndarray, inside: tuple[float, float] = ANYWHERE) -> tuple[float, float, float, int]:
    """Median over seeds, both ends of its interval, and n.

    The ends are order statistics that cover the median with at least 95 %; below 6 seeds the extremes, which cover it less.
    """
    values = np.sort(np.asarray(values, dtype=float))
    values = values[~np.isnan(values)]
    n = len(values)
    if n < 2:
        return (values[0] if n else np.nan), np.nan, np.nan, n
    rank = max(int((2 * binom.cdf(np.arange(n), n, 0.5) <= 0.05).sum()) - 1, 0)
    return float(np.median(values)), max(values[rank], inside[0]), min(values[n - 1 - rank], inside[1]), n


def estimates(
    table: pd.DataFrame, by: str, value: str, inside: tuple[float, float] = ANYWHERE, of: Any = estimate
) -> pd.DataFrame:
    """Rows mean, low, high, n by the values of a column, over the seeds of each."""
    rows = {key: of(part[value].to_numpy(), inside) for key, part in table.groupby(by)}
    return pd.DataFrame.from_dict(rows, orient="index", columns=["mean", "low", "high", "n"]).rename_axis(by)


def paired(
    table: pd.DataFrame, value: str, series: str, against: str = "dense", at: Sequence[str] = ("eps_min",)
) -> pd.DataFrame:
    """Differences of a series to another at the same seed and point, as rows of `at`, seed, and the value's column."""
    keys = [*at, "seed"]
    one, other = (table[table["series"] == name].set_index(keys)[value] for name in (series, against))
    return (one - other).dropna().rename(value).reset_index()


def marks(ax: Axes, x: Any, rows: pd.DataFrame, look: Look, label: str = "", line: bool = True, across: bool = False) -> None:
    """Means as marks with their intervals, joined by a line or not; across: the values run along x."""
    spread = np.abs([rows["mean"] - rows["low"], rows["high"] - rows["mean"]])
    options = look.line | {"ls": look.dash if line else "none"}
    places = (rows["mean"], x) if across else (x, rows["mean"])
    options |= {"xerr" if across else "yerr": spread, "elinewidth": 0.8, "capsize": 1.6, "capthick": 0.8}
    ax.errorbar(*places, label=label or None, **options)


def band(ax: Axes, rows: pd.DataFrame, look: Look, label: str = "", every: int | None = None) -> None:
    """Means as a line with a band for the intervals; every: marks on every such point, none if not given."""
    options = look.line | {"marker": look.marker if every else ""}
    ax.plot(rows.index, rows["mean"], label=label or None, markevery=every, **options)
    ax.fill_between(rows.index, rows["low"], rows["high"], color=look.colour, alpha=0.2, lw=0)


def beside(x: Any, index: int, of: int, width: float) -> np.ndarray:
    """Places of the index-th of several series, side by side within a width, so that no interval hides another."""
    return np.asarray(x, dtype=float) + width * ((index + 0.5) / of - 0.5)


def step_of(x: Iterable[float]) -> float:
    """The smallest distance of neighbouring places, but no more than a share of all; 0.1 for a single one."""
    places = np.unique(np.asarray(list(x), dtype=float))
    return min(float(np.diff(places).min()), float(np.ptp(places)) / 6) if len(places) > 1 else 0.1


def room(ax: Axes, x: Iterable[float]) -> None:
    """Limits of x that leave every mark its place; an axis of one point or two does not look like a grid."""
    places = sorted(set(x))
    margin = 0.5 * step_of(places) if len(places) > 2 else 0.25 * (places[-1] - places[0]) or 0.1
    ax.set_xlim(places[0] - margin, places[-1] + margin)
    if len(places) <= 4:
        ax.set_xticks(places, [f"{place:g}" for place in places])


def zero(ax: Axes, across: bool = False) -> None:
    """The line of no effect."""
    (ax.axvline if across else ax.axhline)(0, color=GREY, lw=0.7, zorder=0.5)


def within(ax: Axes, quantity: Quantity, pad: float = 0.04) -> None:
    """An axis of y from end to end of a quantity that has two; from 0 on for one that cannot be negative."""
    if np.isfinite(quantity.high) and quantity.low >= 0:
        ax.set_ylim(quantity.low - pad, quantity.high + pad)
    elif quantity.low == 0:
        ax.set_ylim(bottom=-pad * ax.get_ylim()[1])


def handle(look: Look, line: bool = True) -> Line2D:
    """Of a series, for a key."""
    return Line2D([], [], **(look.line | {"ls": look.dash if line else "none"}))


def key(
    figure: Figure, entries: dict[str, Any], note: str = "", columns: int | None = None, place: str = "lower center"
) -> None:
    """A key outside of all axes, as wide as there is place: handles by their labels, below what the marks stand for."""
    for count in range(min(columns or len(entries), len(entries)), 0, -1):
        legend = figure.legend(list(entries.values()), list(entries), title=note or None, loc=f"outside {place}", ncols=count)
        if count == 1 or legend.get_window_extent(figure.canvas.get_renderer()).width <= 0.98 * figure.bbox.width:
            return
        legend.remove()
