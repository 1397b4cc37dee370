"""What encoders and sweeps look like: axes of seaborn, and the small table of a notebook."""

import functools
import html
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import matplotlib.pyplot as plt
import numpy as np
import seaborn as sns
from matplotlib.axes import Axes

from rarefeat.chain.aggregate import column_bounds
from rarefeat.chain.tables import METRICS
from rarefeat.config.names import suggest
from rarefeat.core.errors import RarefeatError
from rarefeat.core.statistics import UNBOUNDED
from rarefeat.figures.labels import EPS, STEP, add_series_column, arm_label, quantity
from rarefeat.figures.panels import mean_interval
from rarefeat.figures.style import COLUMN, RC, STYLES, assign_styles, sequential_styles

if TYPE_CHECKING:
    from rarefeat.api.encoder import Encoder
    from rarefeat.api.sweeps import Sweep

AXES = {"eps_min": EPS, "sigma": r"noise $\sigma$", "step": STEP}
SIZE = (COLUMN, 2.6)
"""Of a new figure, in inches."""


def new_axes() -> Axes:
    """Axes of a new figure."""
    return plt.subplots(figsize=SIZE, layout="constrained")[1]


def project_style(draw: Callable[..., Axes]) -> Callable[..., Axes]:
    """Draws in the style of this project's figures."""

    @functools.wraps(draw)
    def drawn(*arguments: Any) -> Axes:
        with plt.rc_context(RC):
            return draw(*arguments)

    return drawn


@project_style
def plot_metrics(encoder: "Encoder", ax: Axes | None) -> Axes:
    """How well the rare feature and the others are learned, over the steps."""
    ax = ax or new_axes()
    names = {"max_alignment": "rare feature", "majority_alignment": "the others, mean"}
    for (metric, label), look in zip(names.items(), STYLES, strict=False):
        rows = encoder.trajectory[encoder.trajectory["metric"] == metric]
        ax.plot(rows["step"], rows["value"], color=look.colour, ls=look.dash, label=label)
    ax.set(xlabel=STEP, ylabel=quantity("max_alignment").symbol, ylim=(-0.03, 1.03))
    ax.set_title(
        rf"{arm_label(encoder.arm.arm)}, $\varepsilon_{{\min}}$ = {encoder.eps_min:g}, seed {encoder.seed}"
    )
    ax.legend(frameon=False)
    return ax


@project_style
def plot_neuron(encoder: "Encoder", neuron: int, ax: Axes | None) -> Axes:
    """|cos(w_i, M_j)| of one neuron with every feature, over the steps."""
    course, ax = encoder.neuron_history(neuron), ax or new_axes()
    rare = encoder.rare_features
    for feature in range(encoder.data.d):
        is_rare = feature in rare
        label = {0: "frequent features", rare[0]: "rare feature"}.get(feature)
        values = course[feature].abs() / course["norm"]
        ax.plot(
            values,
            color=STYLES[1].colour if is_rare else "0.6",
            ls="--" if is_rare else "-",
            label=label,
        )
    ax.set(xlabel=STEP, ylabel=rf"$|\cos(w_{{{neuron}}}, M_j)|$", ylim=(-0.03, 1.03))
    ax.legend(frameon=False)
    return ax


@project_style
def sweep_axes(
    sweep: "Sweep", metric: str, x: str, hue: str | None, ax: Axes | None, options: dict[str, Any]
) -> Axes:
    """A metric of a sweep against one of its columns: means and 95 % Student intervals over seeds."""
    if x == "step":
        table = sweep.trajectories[sweep.trajectories["metric"] == metric].rename(
            columns={"value": metric}
        )
        known = sorted(set(sweep.trajectories["metric"]))
    else:
        table, known = sweep.table.copy(), [*METRICS]
    if metric not in known or table.empty:
        raise RarefeatError(
            f"plot: {metric}: no such metric{suggest(metric, known)}; there are {', '.join(known)}"
        )
    for name in (x, hue):
        if name is not None and name not in table:
            raise RarefeatError(
                f"plot: {name}: no such column{suggest(name, table)}; there are {', '.join(table)}"
            )
    if mixed := [
        name
        for name in (*sweep.axes, "eps_min", "sigma")
        if name not in (x, hue) and table[name].nunique() > 1
    ]:
        raise RarefeatError(
            f"plot: the sweep has several {mixed[0]}; choose one: .at({mixed[0]}={table[mixed[0]].iloc[0]})"
        )
    bounds = column_bounds(METRICS[metric]) if metric in METRICS else UNBOUNDED
    known_looks = None
    if hue == "arm":
        table = add_series_column(table).drop(columns="arm").rename(columns={"series": "arm"})
        known_looks = assign_styles(
            sorted(set(table["arm"]), key=lambda name: (name != "dense", name))
        )
    elif hue:
        known_looks = sequential_styles(sorted(set(table[hue])))
    styles = {"color": STYLES[0].colour, "marker": "o"}
    if known_looks:
        styles = {
            "hue_order": [*known_looks],
            "palette": {name: look.colour for name, look in known_looks.items()},
        }
        styles |= {"style": hue, "style_order": [*known_looks], "dashes": False}
        styles |= {"markers": {name: look.marker for name, look in known_looks.items()}}

    ax = ax or new_axes()
    interval = functools.partial(mean_interval, inside=bounds)
    how = {"errorbar": interval, "err_style": "band" if x == "step" else "bars"} | styles | options
    sns.lineplot(table, x=x, y=metric, hue=hue, ax=ax, **how)
    ax.set(xlabel=AXES.get(x, x), ylabel=quantity(metric).short or quantity(metric).symbol)
    if legend := ax.get_legend():
        for text in legend.get_texts():
            text.set_text(arm_label(text.get_text()))
        title = "" if hue == "arm" else f"{hue}, "
        at = {"bbox_to_anchor": (0.5, 1), "ncols": 3, "columnspacing": 1}
        sns.move_legend(
            ax, "lower center", **at, title=f"{title}n = {table['seed'].nunique()} seeds"
        )
    return ax


def sparkline(values: Iterable[float], low: float = 0.0, high: float = 1.0) -> str:
    """A line of values as a small picture."""
    values = np.clip(
        (np.nan_to_num(np.asarray(list(values), dtype=float)) - low) / (high - low), 0, 1
    )
    places = " ".join(
        f"{90 * i / max(len(values) - 1, 1):.1f},{18 - 16 * value:.1f}"
        for i, value in enumerate(values)
    )
    return f'<svg width="94" height="20"><polyline points="{places}" fill="none" stroke="currentColor"/></svg>'


def html_table(rows: Iterable[Sequence[str]], title: str) -> str:
    """A table whose cells may be pictures."""
    lines = ("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<b>{html.escape(title)}</b><table>{''.join(lines)}</table>"


def encoder_html(encoder: "Encoder") -> str:
    """An encoder in a notebook."""
    course = encoder.trajectory[encoder.trajectory["metric"] == "max_alignment"]["value"]
    rows = [(name, f"{value:.3g}") for name, value in encoder.metrics.items()]
    rows += [("T1", str(encoder.T1)), ("max_alignment over the steps", sparkline(course))]
    at = f"eps_min = {encoder.eps_min:g}, sigma = {encoder.sigma:g}, seed {encoder.seed}, {encoder.training.T} steps"
    return html_table(rows, f"Encoder, {arm_label(encoder.arm.arm)}: {at}")


def sweep_html(sweep: "Sweep") -> str:
    """A sweep in a notebook: max_alignment of each arm against eps_min."""
    table, rows = add_series_column(sweep.table), [("arm", "max_alignment", "against eps_min", "n")]
    for series, part in table.groupby("series"):
        means = part.groupby("eps_min")["max_alignment"].mean()
        span = " to ".join(f"{value:.3g}" for value in (means.iloc[0], means.iloc[-1]))
        rows.append(
            (html.escape(arm_label(series)), span, sparkline(means), str(part["seed"].nunique()))
        )
    return html_table(rows, repr(sweep))
