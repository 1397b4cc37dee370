"""The figure of the scaling study."""

from collections.abc import Mapping

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogFormatter, NullLocator

from rarefeat.figures.labels import n_of, quantity
from rarefeat.figures.panels import finish_figure, panels, plot_lines, plot_points
from rarefeat.figures.style import MARKERS, SeriesStyle, sequential_styles
from rarefeat.run.job import Job
from rarefeat.studies.scaling.exponent_bounds import bounds

BOUND = (0, (4, 2))


class PlainLogFormatter(LogFormatter):
    """Labels of a logarithmic axis without powers of ten."""

    def __call__(self, x: float, pos: int | None = None) -> str:
        """Return the label of a tick, empty where it gets none."""
        return f"{x:g}" if super().__call__(x, pos) else ""


def bound(ax: Axes, first: pd.Series, last: float, exponent: float, look: SeriesStyle) -> None:
    """Plot a power law of the bound's exponent from the first point to the last d.

    Parameters
    ----------
    ax : Axes
        Panel.
    first : Series
        First point, with `d` and `mean`.
    last : float
        Last d.
    exponent : float
        Exponent of the bound.
    look : SeriesStyle
        Style whose colour the line has.
    """
    ends = np.array([first["d"], last])
    ax.plot(ends, first["mean"] * (ends / ends[0]) ** exponent, color=look.colour, ls=BOUND, lw=0.8)


def scaling(tables: Mapping[str, pd.DataFrame], job: Job) -> Figure:
    """Plot sets of Definition B.1 at initialisation and after training against d.

    Lines have the slopes of the paper's bounds.
    """
    lucky_sets, trained = tables.values()
    colours = sequential_styles(sorted(lucky_sets["ratio"].unique()))
    powers = dict(zip(sorted(trained["d1_power"].unique()), MARKERS, strict=False))
    figure, axes = panels(2, 2, 5.0, sharex="row")
    for ax, value, name in (
        (axes[0, 0], "lucky_probability", "lucky"),
        (axes[0, 1], "ordinary_features", "ordinary"),
    ):
        columns = {value: "mean", f"{name}_ci_low": "ci_low", f"{name}_ci_high": "ci_high"}
        rows = lucky_sets[lucky_sets[value] > 0].rename(columns=columns).sort_values("d")
        plot_lines(ax, rows, "d", "value", colours, series_column="ratio")
        for ratio, points in rows.groupby("ratio"):
            bound(
                ax, points.iloc[0], points["d"].max(), bounds(ratio)[value].exponent, colours[ratio]
            )
    axes[0, 0].set_ylabel("probability that a neuron is\nlucky for one feature, $t = 0$")
    axes[0, 1].set_ylabel(r"$E\,|\mathcal{N}_i|$ at $t = 0$")

    share = trained.assign(pure_minority_share=trained["pure_minority_neurons"] / trained["m"])
    both = share[["ratio", "d1_power"]].apply(tuple, axis=1)
    styles = {pair: colours[pair[0]].replace(marker=powers[pair[1]]) for pair in sorted(set(both))}
    # A point for each size (d, m), and series side by side.
    same = share.groupby(["d", "ratio", "d1_power"])["m"].rank("dense") - 1
    place = share["d"] * 1.012 ** (both.map(list(styles).index) - len(styles) + 1 + same / 4)
    share = share.assign(series=both.map(str), place=place)
    for ax, value in ((axes[1, 0], "pure_minority_share"), (axes[1, 1], "learned_features")):
        plotted = quantity(value)
        # A logarithmic axis cannot show a mean of 0, nor the lower end of an interval that holds 0.
        plot_points(
            ax,
            share,
            "place",
            value,
            {str(pair): look for pair, look in styles.items()},
            bounds=plotted.range,
            dodge=0,
        )
        for (ratio, power), look in styles.items():
            means = (
                share[both == (ratio, power)]
                .groupby(["d", "m"])[value]
                .mean()
                .rename("mean")
                .reset_index()
            )
            means = means[means["mean"] > 0]
            if len(means):
                bound(ax, means.iloc[0], means["d"].max(), bounds(ratio)[value].exponent, look)
        ax.set_ylim(
            bottom=0.5
            * min(
                share.groupby(["series", "place"])[value].mean().loc[lambda mean: mean > 0],
                default=0.1,
            )
        )
        ax.set_ylabel(plotted.symbol)
    counted = lucky_sets[
        lucky_sets["d"].isin(trained["d"]) & lucky_sets["ratio"].isin(trained["ratio"])
    ]
    for ratio, rows in counted[counted["lucky_probability"] > 0].sort_values("d").groupby("ratio"):
        axes[1, 0].plot(rows["d"], rows["lucky_probability"], color=colours[ratio].colour)

    for ax, table in zip(axes.flat, (lucky_sets, lucky_sets, trained, trained), strict=True):
        ax.set(xscale="log", yscale="log", xlabel="number of features $d$")
        values = sorted(table["d"].unique())
        # A label needs a twelfth of the axis.
        ticks = [values[-1]]
        for d in reversed(values):
            ticks += [d] if np.log(ticks[-1] / d) > np.log(values[-1] / values[0]) / 12 else []
        ax.set_xticks(ticks, labels=ticks)
        ax.xaxis.set_minor_locator(NullLocator())
    for ax in axes[:, 1]:
        ax.yaxis.set_major_formatter(PlainLogFormatter())
        ax.yaxis.set_minor_formatter(PlainLogFormatter(minor_thresholds=(1, 0.4)))
    figure.align_ylabels()
    entries = {
        rf"$\varepsilon_{{\min}}/\varepsilon_{{\max}}$ = {ratio:g}": look
        for ratio, look in colours.items()
    }
    entries |= {
        f"$d_1 = d^{{{power:g}}}$": SeriesStyle("0.3", marker).without_line
        for power, marker in powers.items()
    }
    entries |= {
        "lucky at $t = 0$": SeriesStyle("0.3"),
        "exponent of the bound": SeriesStyle("0.3", dash=BOUND),
    }
    neurons = f"{lucky_sets['neurons'].max():,}".replace(",", "\N{THIN SPACE}")
    counts = n_of(*trained.groupby(["d", "ratio"])["seed"].nunique())
    note = f"mean and 95 % interval: {neurons} initial neurons above, {counts} below"
    return finish_figure(figure, axes.flat, entries, note, columns=5)
