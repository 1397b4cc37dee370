"""Building blocks of figures: panels, estimates with intervals, and legends.

Seaborn estimates, draws intervals and dodges series; styles and legends are our own.
"""

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
from scipy.stats import binom

from rarefeat.figures.style import GREY, PAGE, SeriesStyle
from rarefeat.statistics import UNBOUNDED, student_interval

Styles = Mapping[Any, SeriesStyle] | SeriesStyle
"""Style of each series by its name, in their order; or of the only series."""
ESTIMATED = ["mean", "ci_low", "ci_high"]
"""Columns of a table of estimates over seeds."""


def panels(
    rows: int = 1, columns: int = 1, height: float = 2.2, width: float = PAGE, **options: Any
) -> tuple[Figure, np.ndarray]:
    """Make a figure with a grid of axes, an array of as many rows and columns."""
    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(rows, columns, squeeze=False, **options)
    return figure, axes


def add_panel_letters(axes: Iterable[Axes]) -> None:
    """Write the letters a, b, c ... above panels, for captions; none above a single panel."""
    axes = list(axes)
    for ax, character in zip(axes, "abcdefghijklmnopqrstuvwxyz", strict=False):
        if len(axes) > 1:
            ax.set_title(character, loc="left", weight="bold")


def mean_interval(
    values: np.ndarray, bounds: tuple[float, float] = UNBOUNDED
) -> tuple[float, float]:
    """Compute the 95 % Student interval of the mean over seeds, clipped to bounds."""
    return student_interval(values, inside=bounds)[2:4]


def median_interval(
    values: np.ndarray, bounds: tuple[float, float] = UNBOUNDED
) -> tuple[float, float]:
    """Compute the 95 % interval of the median over seeds by order statistics, within bounds."""
    values = np.sort(np.asarray(values, dtype=float))
    values = values[~np.isnan(values)]
    n = len(values)
    if n < 2:
        return np.nan, np.nan
    rank = max(int((2 * binom.cdf(np.arange(n), n, 0.5) <= 0.05).sum()) - 1, 0)
    return max(values[rank], bounds[0]), min(values[n - 1 - rank], bounds[1])


INTERVALS = {"mean": mean_interval, "median": median_interval}
"""Interval of each estimator over seeds."""


def seaborn_arguments(
    table: pd.DataFrame,
    value: str,
    styles: Styles,
    series_column: str,
    bounds: tuple[float, float],
    estimator: str = "mean",
) -> dict[str, Any]:
    """Return the arguments of seaborn for a table of replicas or of estimates."""
    if isinstance(styles, SeriesStyle):
        table, styles = table.assign(**{series_column: ""}), {"": styles}
    table = table[table[series_column].isin(list(styles))]
    if value in table:
        function, errorbar = estimator, functools.partial(INTERVALS[estimator], bounds=bounds)
    else:
        # A mean lies between the ends of its interval: it is the median of the three.
        table = table.assign(**table[ESTIMATED].clip(*bounds))
        table = table.melt(
            [name for name in table if name not in ESTIMATED],
            ESTIMATED,
            var_name="end",
            value_name=value,
        )
        function, errorbar = "median", ("pi", 100)
    hues = {
        "hue": series_column,
        "hue_order": list(styles),
        "palette": {name: style.colour for name, style in styles.items()},
    }
    return {
        "data": table.dropna(subset=[value]),
        "estimator": function,
        "errorbar": errorbar,
        "legend": False,
        **hues,
    }


def plot_lines(
    ax: Axes,
    table: pd.DataFrame,
    x: str,
    y: str,
    styles: Styles,
    series_column: str = "series",
    bounds: tuple[float, float] = UNBOUNDED,
    estimator: str = "mean",
    band: bool = False,
    mark_every: int | None = None,
) -> None:
    """Plot the estimates of each series over x, joined by lines.

    Series are not dodged: a line that is moved aside would seem to rise earlier or later.
    """
    check_linear(ax.yaxis)
    arguments = seaborn_arguments(table, y, styles, series_column, bounds, estimator)
    names = set(arguments["data"][series_column])
    if not names:
        return
    n_before, labels = len(ax.lines), (ax.get_xlabel(), ax.get_ylabel())
    spread = (
        {"err_style": "band", "err_kws": {"alpha": 0.2, "lw": 0}}
        if band
        else {"err_style": "bars", "err_kws": {"elinewidth": 0.8}}
    )
    sns.lineplot(**arguments, x=x, y=y, ax=ax, **spread)
    lines = [line for line in ax.lines[n_before:] if line.get_linestyle() != "None"]
    plotted = {name: style for name, style in iter_styles(styles) if name in names}
    apply_styles(lines, plotted, markevery=mark_every)
    if band and not mark_every:
        for line in lines:
            line.set_marker("")
    ax.set(xlabel=labels[0], ylabel=labels[1])


def plot_points(
    ax: Axes,
    table: pd.DataFrame,
    x: str,
    y: str,
    styles: Styles,
    series_column: str = "series",
    bounds: tuple[float, float] = UNBOUNDED,
    dodge: float = 0.5,
    order: Sequence[Any] | None = None,
    horizontal: bool = False,
) -> None:
    """Plot one marker with an error bar per series and position, without connecting lines.

    Markers of different series at one position are dodged.
    """
    check_linear(ax.xaxis if horizontal else ax.yaxis)
    arguments = seaborn_arguments(table, x if horizontal else y, styles, series_column, bounds)
    if arguments["data"].empty:
        return
    n_before, labels = len(ax.lines), (ax.get_xlabel(), ax.get_ylabel())
    positions = {"order": list(order)} if order is not None else {"native_scale": True}
    sns.pointplot(
        **arguments,
        x=x,
        y=y,
        ax=ax,
        orient="y" if horizontal else "x",
        linestyle="none",
        err_kws={"linewidth": 0.8},
        dodge=dodge if len(arguments["hue_order"]) > 1 else False,
        **positions,
    )
    lines = [line for line in ax.lines[n_before:] if line.get_linestyle() == "None"]
    markersize = mpl.rcParams["lines.markersize"]
    apply_styles(lines, dict(iter_styles(styles)), ls="none", markersize=markersize)
    ax.set(xlabel=labels[0], ylabel=labels[1])


def plot_effects(
    ax: Axes, table: pd.DataFrame, styles: Mapping[str, SeriesStyle], order: Sequence[str] = (),
    dodge: float = 0.3,
) -> None:  # fmt: skip
    """Plot estimates of series in each place, in order or by difference; joined if not dodged."""
    ends = table.pivot(index="place", columns="series", values="mean")[list(styles)]
    ends = ends.loc[list(order) or ends.diff(axis=1).iloc[:, -1].sort_values().index]
    if not dodge:
        look = {"color": GREY, "lw": 0.7, "zorder": 0.6}
        ax.hlines(range(len(ends)), ends.min(axis=1), ends.max(axis=1), **look)
    plot_points(
        ax, table, "estimate", "place", styles, order=list(ends.index), horizontal=True, dodge=dodge
    )
    first, last = (ends.iloc[row].dropna().sort_values() for row in (0, -1))
    label_first(ax, first, styles)
    if list(first.index) != list(last.index) == list(first.index[::-1]):
        # Names above alone would be read as headings, down to rows where the order turns round.
        ax.set_ylim(len(ends) + 0.3, -0.5)
        for name, x in last.items():
            ax.text(x, len(ends) - 0.4, name, color=styles[name].colour, ha="center", va="top")


def plot_groups(
    ax: Axes,
    table: pd.DataFrame,
    styles: Mapping[str, SeriesStyle],
    groups: Mapping[str, Sequence[str]],
) -> None:
    """Plot estimates of series in each place, in groups of places below headings."""
    order = [name for head, places in groups.items() if len(places) for name in (head, *places)]
    plot_points(ax, table, "estimate", "place", styles, order=order, horizontal=True, dodge=0)
    for label in ax.get_yticklabels():
        label.set_weight("bold" if label.get_text() in groups else "normal")
    ax.tick_params(axis="y", length=0)


def label_first(ax: Axes, means: pd.Series, styles: Mapping[str, SeriesStyle]) -> None:
    """Write the name of each series above its mark in the first row; of three, two stand aside."""
    sides = ("right", "center", "left") if len(means) > 2 else ("center", "center")
    for (name, x), side in zip(means.sort_values().items(), sides, strict=False):
        ax.text(x, -0.5, f" {name} ", color=styles[name].colour, ha=side, va="bottom")


def check_linear(axis: Axis) -> None:
    """Raise ValueError for an axis of values that is not linear.

    Seaborn averages logarithms on a logarithmic axis.
    """
    if axis.get_scale() != "linear":
        raise ValueError(
            f"axis of values: must be linear when they are plotted, got {axis.get_scale()}; set its"
            " scale afterwards, else logarithms are averaged"
        )


def iter_styles(styles: Styles) -> Iterable[tuple[Any, SeriesStyle]]:
    """Return pairs of a series' name and its style; the only series has an empty name."""
    return [("", styles)] if isinstance(styles, SeriesStyle) else styles.items()


def apply_styles(
    lines: Sequence[Line2D], styles: Mapping[Any, SeriesStyle], **options: Any
) -> None:
    """Give lines that seaborn has drawn, one of each series, the style of the series."""
    for line, (name, style) in zip(lines, styles.items(), strict=True):
        line.set(label=str(name), **style.line | options)


def paired_differences(
    table: pd.DataFrame,
    value: str,
    series: str,
    against: str = "dense",
    axes: Sequence[str] = ("eps_min",),
) -> pd.DataFrame:
    """Compute the differences of a series to another one at the same cell and seed."""
    keys = [*axes, "seed"]
    minuend, subtrahend = (
        table[table["series"] == name].set_index(keys)[value] for name in (series, against)
    )
    return (minuend - subtrahend).dropna().rename(value).reset_index()


def spacing(x: Iterable[float], of_one: float = 0.2) -> float:
    """Return the smallest distance between positions, `of_one` if there is one alone."""
    return float(np.diff(np.unique(list(x))).min()) if len(set(x)) > 1 else of_one


def set_x_margins(ax: Axes, x: Iterable[float]) -> None:
    """Set limits of x with room for every marker; with four positions or fewer, ticks at each."""
    positions, margin = sorted(set(x)), 0.5 * spacing(x)
    ax.set_xlim(positions[0] - margin, positions[-1] + margin)
    if len(positions) <= 4:
        ax.set_xticks(positions, [f"{position:g}" for position in positions])


def draw_zero_line(ax: Axes, vertical: bool = False) -> None:
    """Draw the line of no effect, horizontal, or vertical if `vertical`."""
    (ax.axvline if vertical else ax.axhline)(0, color=GREY, lw=0.7, zorder=0.5)


def add_legend(
    figure: FigureBase,
    entries: dict[str, Any],
    note: str = "",
    columns: int | None = None,
    location: str = "lower center",
    **options: Any,
) -> None:
    """Add a legend outside of all axes, in as many columns as there is room for."""
    handles = [
        Line2D([], [], **entry.line) if isinstance(entry, SeriesStyle) else entry
        for entry in entries.values()
    ]
    settings = {"title": note or None, "loc": f"outside {location}", **options}
    for count in range(min(columns or len(entries), len(entries)), 0, -1):
        legend = figure.legend(handles, list(entries), ncols=count, **settings)
        if (
            count == 1
            or legend.get_window_extent(figure.canvas.get_renderer()).width
            <= 0.98 * figure.bbox.width
        ):
            return
        legend.remove()


def titled(figure: Figure, title: str, note: str, **look: Any) -> Figure:
    """Write a title above a figure that is drawn, and a note below it; return it."""
    figure.suptitle(title)
    figure.supxlabel(note, **look)
    return figure


def title_with_key(figure: Figure, title: str, styles: Mapping[str, SeriesStyle]) -> None:
    """Write a title, and below it mark and name of each series in one row."""
    figure.suptitle(f"{title}\n")
    handles = [Line2D([], [], label=name, **look.line) for name, look in styles.items()]
    below = 1 - 0.19 / figure.get_figheight()
    figure.legend(
        handles=handles, ncols=len(styles), loc="upper center", bbox_to_anchor=(0.5, below),
        labelcolor=[look.colour for look in styles.values()], borderpad=0, borderaxespad=0,
    )  # fmt: skip


def label_ends(
    ax: Axes, ends: Mapping[str, tuple[float, str]], x: float = 1.02, least: float = 0.09
) -> None:
    """Write the name of each line beside its end; names of one end stand in their order."""
    low, high = ax.get_ylim()
    step = least * (high - low)
    names = sorted(ends, key=lambda name: round(ends[name][0] / (high - low), 2))
    places = [ends[name][0] for name in names]
    for i in range(1, len(places)):
        places[i] = max(places[i], places[i - 1] + step)
    # Names that would lie above the panel push those below them down.
    for i in reversed(range(len(places))):
        places[i] = min(places[i], high - step * (len(places) - 1 - i))
    for name, y in zip(names, places, strict=True):
        ax.text(x, y, name, color=ends[name][1], va="center", transform=ax.get_yaxis_transform())


def finish_figure(
    figure: Figure,
    axes: Iterable[Axes],
    entries: dict[str, Any],
    note: str = "",
    columns: int | None = None,
) -> Figure:
    """Add letters and a legend to a figure of which all else is drawn, and return it."""
    add_panel_letters(axes)
    add_legend(figure, entries, note, columns)
    return figure
