"""Plots of encoders and sweeps.

Every function takes plain data, and draws on axes of matplotlib in the style of the figures.
"""

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ParamSpec, TypeVar, cast

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes

from rarefeat.errors import RarefeatError
from rarefeat.figures.labels import EPS, STEP, add_series_column, arm_label, quantity
from rarefeat.figures.panels import label_ends, mean_interval
from rarefeat.figures.style import (
    COLUMN,
    FREQUENT,
    GLYPHS,
    GREY,
    RARE,
    RC,
    STYLES,
    assign_styles,
    sequential_styles,
)
from rarefeat.stages.aggregate import difference_bounds
from rarefeat.stages.tables import ARM, INDICATORS
from rarefeat.statistics import UNBOUNDED, fraction_interval, student_interval
from rarefeat.workflow.config.names import suggest

P = ParamSpec("P")
R = TypeVar("R")

AXIS_LABELS = {"eps_min": EPS, "sigma": r"noise $\sigma$", "step": STEP}
PANEL_SIZE = (COLUMN, 2.6)
"""Width and height of a panel of a new figure (inches)."""


def project_style(draw: Callable[P, R]) -> Callable[P, R]:
    """Make a function draw in the style of this project's figures."""

    @functools.wraps(draw)
    def draw_in_style(*args: P.args, **kwargs: P.kwargs) -> R:
        with plt.rc_context(cast(Any, RC)):
            result = draw(*args, **kwargs)
            is_interactive = mpl.is_interactive()
        # A notebook's backend sets it as the first figure is made; the context takes it back.
        mpl.interactive(is_interactive)
        return result

    return draw_in_style


def new_axes() -> Axes:
    """Return the axes of a new figure."""
    return plt.subplots(figsize=PANEL_SIZE, layout="constrained")[1]


@project_style
def plot_metrics(trajectory: pd.DataFrame, title: str, ax: Axes | None) -> Axes:
    """Draw how well an encoder learns the rare feature and the others, against the step."""
    ax = ax or new_axes()
    names = {"max_alignment": "rare feature", "majority_alignment": "the others, mean"}
    for (metric, label), colour, dash in zip(
        names.items(), (RARE, FREQUENT), ("-", "--"), strict=True
    ):
        rows = trajectory[trajectory["metric"] == metric]
        ax.plot(rows["step"], rows["value"], color=colour, ls=dash, label=label)
    ax.set(xlabel=STEP, ylabel="largest cosine of a neuron", ylim=(-0.03, 1.03), title=title)
    ax.legend(frameon=False)
    return ax


@project_style
def plot_readout(table: pd.DataFrame, rare_features: Sequence[int], ax: Axes | None) -> Axes:
    """Draw R^2 of a readout of each feature before and after training, with 95 % intervals."""
    ax = ax or new_axes()
    for offset, (name, colour, marker) in enumerate(
        (("r2_untrained", "0.6", "s"), ("r2", FREQUENT, "o"))
    ):
        found = [student_interval(rows[name].to_numpy()) for _, rows in table.groupby("feature")]
        place = np.arange(len(found)) + 0.2 * offset - 0.1
        for x, (mean, _, low, high, _) in zip(place, found, strict=True):
            is_rare = name == "r2" and round(x) in rare_features
            ax.errorbar(
                x, mean, [[mean - low], [high - mean]],
                color=RARE if is_rare else colour, marker=marker, ls="", capsize=2,
            )  # fmt: skip
    ax.set(xlabel="feature (rare ones last)", ylabel="$R^2$ of a linear readout")
    ax.set(title=f"Squares: before training ({table['seed'].nunique()} seeds, 95 % intervals)")
    return ax


@project_style
def plot_neuron(
    history: pd.DataFrame, rare_features: Sequence[int], neuron: int, ax: Axes | None
) -> Axes:
    """Draw |cos(w_i, M_j)| of one neuron with every feature, against the step."""
    ax = ax or new_axes()
    for feature in range(rare_features[-1] + 1):
        is_rare = feature in rare_features
        ax.plot(
            history[feature].abs() / history["norm"],
            color=STYLES[1].colour if is_rare else "0.6",
            ls="--" if is_rare else "-",
            label={0: "frequent features", rare_features[0]: "rare feature"}.get(feature),
        )
    ax.set(xlabel=STEP, ylabel=rf"$|\cos(w_{{{neuron}}}, M_j)|$", ylim=(-0.03, 1.03))
    ax.legend(frameon=False)
    return ax


def check_column(name: str, table: pd.DataFrame, kind: str, columns: Iterable[str]) -> None:
    """Raise RarefeatError unless a name is one of some columns, and the table has it."""
    columns = [column for column in columns if column in table]
    if name not in columns:
        raise RarefeatError(
            f"{name}: no such {kind}{suggest(name, columns)}; there are {', '.join(columns)}"
        )


def pooled_columns(
    table: pd.DataFrame, separate: Sequence[str], settings: Iterable[str]
) -> list[str]:
    """List the settings that differ among rows which an estimate would take together."""
    groups = table.groupby(list(separate), sort=False, dropna=False)
    columns = [name for name in settings if name in table and name not in separate]
    pooled = [name for name in columns if (groups[name].nunique(dropna=False) > 1).any()]
    # A series of an arm tells its keys apart, too.
    return list(dict.fromkeys("arm" if name in ARM else name for name in pooled))


def paired_differences(
    table: pd.DataFrame, metric: str, settings: Sequence[str], column: str, baseline: Any
) -> pd.DataFrame:
    """Return the other rows, with their difference to the baseline of a column as the metric.

    `settings` are the other columns in which rows that are compared agree.
    """
    is_baseline = table[column] == baseline
    keys = [name for name in (*settings, "seed", "step") if name in table]
    first = table[is_baseline].set_index(keys)[metric]
    others = table[~is_baseline]
    index = pd.MultiIndex.from_frame(others[keys])
    if others.empty or not index.isin(first.index).all():
        raise RarefeatError(
            f"paired: needs the {column} {baseline} at each setting, and another {column}"
        )
    return others.assign(**{metric: others[metric].to_numpy() - first.reindex(index).to_numpy()})


@project_style
def plot_sweep(
    table: pd.DataFrame,
    metric: str,
    x: str,
    hue: str | None,
    col: str | None,
    ax: Axes | None,
    settings: Sequence[str],
    options: Mapping[str, Any],
    bounds: tuple[float, float] = UNBOUNDED,
    minus: str = "",
) -> Any:
    """Draw a metric against a column: means and 95 % Student intervals over seeds.

    `table` has a row for each setting and seed, for x = "step" also for each step; columns that
    `options` name tell rows apart, too. Rows of several settings are never averaged. `bounds` are
    those of the metric, and `minus` says what its differences are to.
    """
    check_column(x, table, "column of settings", [*settings, "nsr", "step"])
    for name in filter(None, (hue, col)):
        check_column(name, table, "column of settings", settings)
    more = [value for value in options.values() if isinstance(value, str) and value in table]
    separate = list(dict.fromkeys(filter(None, (x, hue, col, *more))))
    if "arm" in separate and "alpha" in table:
        # A series is an arm with those of its keys in which rows differ.
        table = add_series_column(table).drop(columns="arm").rename(columns={"series": "arm"})
        settings = [name for name in settings if name not in ARM]
    if pooled := pooled_columns(table, separate, settings):
        names, first = " and ".join(pooled), pooled[0]
        keyword, value = first.replace("lambda", "lambda_"), table[first].tolist()[0]
        raise RarefeatError(
            f"{metric} would be averaged over {names}; give hue={first!r} or"
            f" col={pooled[-1]!r}, or choose a value: .select({keyword}={value!r})"
        )
    if not col:
        return draw_lines(ax or new_axes(), table, metric, x, hue, options, bounds, minus)
    if ax is not None:
        raise RarefeatError(f"col={col!r} makes a figure of its own; leave ax out")
    groups = dict(list(table.groupby(col, sort=True)))
    size = PANEL_SIZE[0] * len(groups), PANEL_SIZE[1]
    _, grid = plt.subplots(
        1, len(groups), figsize=size, layout="constrained", sharey=True, squeeze=False
    )
    for panel, value in zip(grid[0], groups, strict=True):
        panel.set_title(arm_label(value) if col == "arm" else f"{col} = {value}")
    return [
        draw_lines(panel, rows, metric, x, hue, options, bounds, minus)
        for panel, rows in zip(grid[0], groups.values(), strict=True)
    ]


def draw_lines(
    ax: Axes,
    table: pd.DataFrame,
    metric: str,
    x: str,
    hue: str | None,
    options: Mapping[str, Any],
    bounds: tuple[float, float],
    minus: str,
) -> Axes:
    """Draw the lines of one panel with their names, and say how many seeds there are."""
    styles: dict[str, Any] = {"color": STYLES[0].colour, "marker": "o"}
    note = f"mean and 95 % interval, n = {table['seed'].nunique()} seeds"
    is_numeric = x != "step" and pd.api.types.is_numeric_dtype(table[x])
    if hue and table[hue].nunique() == 1:
        hue = None
    if hue:
        values = sorted(set(table[hue]), key=lambda value: (value != "dense", value))
        # A difference to dense keeps the colours that its arms have beside dense.
        arms = ["dense", *values] if minus else values
        looks = assign_styles(arms) if hue == "arm" else sequential_styles(values)
        styles = {
            "hue_order": values,
            "palette": {value: style.colour for value, style in looks.items()},
            "style": hue,
            "style_order": values,
            "dashes": False,
            "markers": {value: style.marker for value, style in looks.items()},
            "legend": False,
        }
    elif is_numeric:
        # Each run has its own place, half of them on either side of the mean.
        rank = table.groupby(x)["seed"].rank(pct=True)
        width = 0.75 * np.diff(np.unique(table[x])).min(initial=np.ptp(table[x]))
        place = table[x] + width * (rank - rank.mean())
        ax.plot(place, table[metric], ".", color="black", ms=3.5, zorder=3)
        styles["color"] = GREY
        note = f"mean and 95 % interval; dots: {table['seed'].nunique()} seeds"
    student = functools.partial(
        mean_interval, bounds=difference_bounds(bounds) if minus else bounds
    )
    if hue not in (None, x) and is_numeric:
        # Side by side, so that no interval hides another.
        step = 0.03 * np.ptp(table[x])
        shift = table[hue].map({value: step * k for k, value in enumerate(values)})
        table = table.assign(**{x: table[x] + shift - step * (len(values) - 1) / 2})
    interval = fraction_interval if metric in INDICATORS and not minus else student
    errors = {"errorbar": interval, "err_style": "band" if x == "step" else "bars"}
    sns.lineplot(table, x=x, y=metric, hue=hue, ax=ax, **(errors | styles | dict(options)))
    symbol = quantity(metric).short or quantity(metric).symbol
    ax.set_xlabel(f"{AXIS_LABELS.get(x, x)}\n{note}", linespacing=1.5)
    ax.set_ylabel(f"{symbol}, minus {minus}" if minus else symbol)
    if minus:
        ax.axhline(0, color="0.6", lw=0.8, zorder=0)
    if hue:
        name = arm_label if isinstance(values[0], str) else f"{hue} {{}}".format
        ends = table.groupby([hue, x])[metric].mean().dropna().groupby(level=0).last()
        named = {f"{GLYPHS[looks[value].marker]} {name(value)}": value for value in ends.index}
        label_ends(ax, {text: (ends[value], looks[value].colour) for text, value in named.items()})
    return ax
