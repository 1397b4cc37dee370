"""Parts that figures are made of: seaborn estimates, draws intervals and sets series side by side; looks and keys are ours."""

import functools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure, FigureBase
from matplotlib.lines import Line2D
from scipy.stats import binom, binomtest, gmean

from rarefeat.core.statistics import UNBOUNDED, student_interval
from rarefeat.figures.labels import Quantity
from rarefeat.figures.style import GREY, PAGE, SeriesStyle

Looks = Mapping[Any, SeriesStyle] | SeriesStyle
"""Of each series by its name, in their order; or of the only one."""
ESTIMATED = ["mean", "ci_low", "ci_high"]
"""Columns of a table that has no seeds, but what was estimated over them."""


def panels(
    rows: int = 1, columns: int = 1, height: float = 2.2, width: float = PAGE, **options: Any
) -> tuple[Figure, np.ndarray]:
    """A figure of a printed width (inches) and a total height, and its axes (rows, columns); a letter on each of several."""
    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(rows, columns, squeeze=False, **options)
    return figure, axes


def add_panel_letters(axes: Iterable[Axes]) -> None:
    """a, b, c ... above several panels, for captions and texts to point at."""
    axes = list(axes)
    for ax, character in zip(axes, "abcdefghijklmnopqrstuvwxyz", strict=False):
        if len(axes) > 1:
            ax.set_title(character, loc="left", weight="bold")


def mean_interval(
    values: np.ndarray, inside: tuple[float, float] = UNBOUNDED
) -> tuple[float, float]:
    """Both ends of the 95 % Student interval of the mean over seeds; inside: the quantity's range."""
    return student_interval(values, inside=inside)[2:4]


def median_interval(
    values: np.ndarray, inside: tuple[float, float] = UNBOUNDED
) -> tuple[float, float]:
    """Both ends of the interval of the median over seeds.

    They are order statistics that cover the median with at least 95 %; below 6 seeds the extremes, which cover it less.
    """
    values = np.sort(np.asarray(values, dtype=float))
    values = values[~np.isnan(values)]
    n = len(values)
    if n < 2:
        return np.nan, np.nan
    rank = max(int((2 * binom.cdf(np.arange(n), n, 0.5) <= 0.05).sum()) - 1, 0)
    return max(values[rank], inside[0]), min(values[n - 1 - rank], inside[1])


def share_interval(values: np.ndarray, inside: tuple[float, float] = (0, 1)) -> tuple[float, float]:
    """Both ends of the exact 95 % interval of a share, of replicas that are 0 or 1 (Clopper & Pearson 1934)."""
    low, high = binomtest(int(np.sum(values)), len(values)).proportion_ci(method="exact")
    return float(low), float(high)


def geometric_interval(
    values: np.ndarray, inside: tuple[float, float] = UNBOUNDED
) -> tuple[float, float]:
    """Both ends of the 95 % interval of the geometric mean of positive values."""
    low, high = np.exp(mean_interval(np.log(values)))
    return max(low, inside[0]), min(high, inside[1])


def whole_range(values: np.ndarray, inside: tuple[float, float] = UNBOUNDED) -> tuple[float, float]:
    """The least and the largest value, where there are too few for an interval."""
    return float(np.nanmin(values)), float(np.nanmax(values))


ESTIMATORS = {
    "mean": ("mean", mean_interval),
    "median": ("median", median_interval),
    "share": ("mean", share_interval),
    "geometric": (gmean, geometric_interval),
    "range": ("mean", whole_range),
    "plain": ("mean", None),
}
"""What is estimated over seeds, and its interval."""


def seaborn_arguments(
    table: pd.DataFrame, value: str, looks: Looks, by: str, inside: tuple[float, float], of: str
) -> dict[str, Any]:
    """What seaborn is told of a table of replicas, a row a seed; or of one of estimates, which has no such value."""
    if isinstance(looks, SeriesStyle):
        table, looks = table.assign(**{by: ""}), {"": looks}
    table = table[table[by].isin(list(looks))]
    if value in table:
        estimator, interval = ESTIMATORS[of]
        errorbar = interval and functools.partial(interval, inside=inside)
    else:
        # A mean lies between the ends of its interval: it is the median of the three.
        table = table.assign(**table[ESTIMATED].clip(*inside))
        table = table.melt(
            [name for name in table if name not in ESTIMATED],
            ESTIMATED,
            var_name="end",
            value_name=value,
        )
        estimator, errorbar = "median", ("pi", 100)
    hues = {
        "hue": by,
        "hue_order": list(looks),
        "palette": {name: look.colour for name, look in looks.items()},
    }
    return {
        "data": table.dropna(subset=[value]),
        "estimator": estimator,
        "errorbar": errorbar,
        "legend": False,
        **hues,
    }


def plot_lines(
    ax: Axes,
    table: pd.DataFrame,
    x: str,
    y: str,
    looks: Looks,
    by: str = "series",
    inside: tuple[float, float] = UNBOUNDED,
    of: str = "mean",
    band: bool = False,
    every: int | None = None,
) -> None:
    """Estimates of each series over x, joined. They stand at x itself: an interval that moves aside would move its line.

    Args:
        looks: of the series that the column `by` names.
        inside: the quantity's range.
        of: what is estimated over seeds, a key of ESTIMATORS.
        band: whether intervals are bands, and marks at every such point alone.
    """
    linear(ax.yaxis)
    given = seaborn_arguments(table, y, looks, by, inside, of)
    found = set(given["data"][by])
    if not found:
        return
    before, labels = len(ax.lines), (ax.get_xlabel(), ax.get_ylabel())
    spread = (
        {"err_style": "band", "err_kws": {"alpha": 0.2, "lw": 0}}
        if band
        else {"err_style": "bars", "err_kws": {"elinewidth": 0.8}}
    )
    sns.lineplot(**given, x=x, y=y, ax=ax, **spread)
    drawn = [line for line in ax.lines[before:] if line.get_linestyle() != "None"]
    apply_styles(
        drawn, {name: look for name, look in iter_styles(looks) if name in found}, markevery=every
    )
    if band and not every:
        for line in drawn:
            line.set_marker("")
    ax.set(xlabel=labels[0], ylabel=labels[1])


def plot_points(
    ax: Axes,
    table: pd.DataFrame,
    x: str,
    y: str,
    looks: Looks,
    by: str = "series",
    inside: tuple[float, float] = UNBOUNDED,
    of: str = "mean",
    dodge: float = 0.5,
    order: Sequence[Any] | None = None,
    across: bool = False,
) -> None:
    """Estimates of each series as marks that are not joined, side by side within a share of the distance of places.

    Args:
        x, y: the place and the value; across: the value and the place.
        order: the places where they are names; else they are numbers.
        looks, by, inside, of: as of `plot_lines`.
    """
    linear(ax.xaxis if across else ax.yaxis)
    given = seaborn_arguments(table, x if across else y, looks, by, inside, of)
    if given["data"].empty:
        return
    before, labels = len(ax.lines), (ax.get_xlabel(), ax.get_ylabel())
    places = {"order": list(order)} if order is not None else {"native_scale": True}
    sns.pointplot(
        **given, x=x, y=y, ax=ax, orient="y" if across else "x", linestyle="none", err_kws={"linewidth": 0.8},
        dodge=dodge if len(given["hue_order"]) > 1 else False, **places,
    )  # fmt: skip
    drawn = [line for line in ax.lines[before:] if line.get_linestyle() == "None"]
    apply_styles(
        drawn, dict(iter_styles(looks)), ls="none", markersize=mpl.rcParams["lines.markersize"]
    )
    ax.set(xlabel=labels[0], ylabel=labels[1])


def linear(axis: Axis) -> None:
    """On a logarithmic axis seaborn means the logarithms: the scale of values is set when they are drawn."""
    if axis.get_scale() != "linear":
        raise ValueError(
            "set the scale of the values' axis after they are drawn: else their logarithms are averaged"
        )


def iter_styles(looks: Looks) -> Iterable[tuple[Any, SeriesStyle]]:
    """Looks with the names of their series."""
    return [("", looks)] if isinstance(looks, SeriesStyle) else looks.items()


def apply_styles(drawn: Sequence[Line2D], looks: Mapping[Any, SeriesStyle], **options: Any) -> None:
    """Lines that seaborn has drawn, one of each series, in that series' look, which is told apart without any colour."""
    for line, (name, look) in zip(drawn, looks.items(), strict=True):
        line.set(label=str(name), **look.line | options)


def paired_differences(
    table: pd.DataFrame,
    value: str,
    series: str,
    against: str = "dense",
    at: Sequence[str] = ("eps_min",),
) -> pd.DataFrame:
    """Differences of a series to another at the same seed and point, as rows of `at`, seed, and the value's column."""
    keys = [*at, "seed"]
    one, other = (
        table[table["series"] == name].set_index(keys)[value] for name in (series, against)
    )
    return (one - other).dropna().rename(value).reset_index()


def set_x_margins(ax: Axes, x: Iterable[float]) -> None:
    """Limits of x that leave every mark its place; an axis of one point or two does not look like a grid."""
    places = np.array(sorted(set(x)), dtype=float)
    margin = 0.5 * float(np.diff(places).min()) if len(places) > 1 else 0.1
    ax.set_xlim(places[0] - margin, places[-1] + margin)
    if len(places) <= 4:
        ax.set_xticks(places, [f"{place:g}" for place in places])


def draw_zero_line(ax: Axes, across: bool = False) -> None:
    """The line of no effect."""
    (ax.axvline if across else ax.axhline)(0, color=GREY, lw=0.7, zorder=0.5)


def set_y_range(ax: Axes, quantity: Quantity, pad: float = 0.04) -> None:
    """An axis of y from end to end of a quantity that has two; from 0 on for one that cannot be negative."""
    if np.isfinite(quantity.high) and quantity.low >= 0:
        ax.set_ylim(quantity.low - pad, quantity.high + pad)
    elif quantity.low == 0:
        ax.set_ylim(bottom=-pad * ax.get_ylim()[1])


def add_legend(
    figure: FigureBase,
    entries: dict[str, Any],
    note: str = "",
    columns: int | None = None,
    place: str = "lower center",
    **options: Any,
) -> None:
    """A key outside of all axes, as wide as there is place: looks, or artists, by their labels, below what marks stand for."""
    handles = [
        Line2D([], [], **entry.line) if isinstance(entry, SeriesStyle) else entry
        for entry in entries.values()
    ]
    said = {"title": note or None, "loc": f"outside {place}", **options}
    for count in range(min(columns or len(entries), len(entries)), 0, -1):
        legend = figure.legend(handles, list(entries), ncols=count, **said)
        if (
            count == 1
            or legend.get_window_extent(figure.canvas.get_renderer()).width
            <= 0.98 * figure.bbox.width
        ):
            return
        legend.remove()


def finish_figure(
    figure: Figure,
    axes: Iterable[Axes],
    entries: dict[str, Any],
    note: str = "",
    columns: int | None = None,
) -> Figure:
    """A figure of which all else is drawn, with a letter on some of its panels, and its key."""
    add_panel_letters(axes)
    add_legend(figure, entries, note, columns)
    return figure
