"""The figure of the scaling study."""

from collections.abc import Mapping

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogFormatter, NullLocator

from rarefeat.figures.labels import n_of, quantity
from rarefeat.figures.panels import estimates, handle, key, letter, marks, panels
from rarefeat.figures.style import MARKERS, PAGE, Look, ordered
from rarefeat.run.job import Job
from rarefeat.studies.scaling.bounds import bounds

BOUND = (0, (4, 2))


class Plain(LogFormatter):
    """Labels of a logarithmic axis without powers of ten."""

    def __call__(self, x: float, pos: int | None = None) -> str:
        """The label of a tick, where it gets one."""
        return f"{x:g}" if super().__call__(x, pos) else ""


def bounded(ax: Axes, rows: pd.DataFrame, look: Look, exponent: float, line: bool) -> None:
    """Estimates by d, with a power law of the bound's exponent through the first."""
    marks(ax, rows.index, rows, look, line=line)
    ends = np.array([rows.index.min(), rows.index.max()])
    ax.plot(ends, rows["mean"].iloc[0] * (ends / ends[0]) ** exponent, color=look.colour, ls=BOUND, lw=0.8)


def scaling(tables: Mapping[str, pd.DataFrame], job: Job) -> Figure:
    """Sets of Definition B.1 and what training makes of them against d, with the slopes of the paper's bounds."""
    lucky_sets, trained = tables.values()
    colours = ordered(sorted(lucky_sets["ratio"].unique()))
    powers = dict(zip(sorted(trained["d1_power"].unique()), MARKERS, strict=False))
    figure, axes = panels(2, 2, 5.0, PAGE, sharex="row")
    for ax, value, name in ((axes[0, 0], "lucky_probability", "lucky"), (axes[0, 1], "ordinary_features", "ordinary")):
        columns = {value: "mean", f"{name}_ci_low": "low", f"{name}_ci_high": "high"}
        for ratio, rows in lucky_sets[lucky_sets[value] > 0].rename(columns=columns).groupby("ratio"):
            bounded(ax, rows.set_index("d").sort_index(), colours[ratio], bounds(ratio)[value].exponent, line=True)
    axes[0, 0].set_ylabel("probability that a neuron is\nlucky for one feature, $t = 0$")
    axes[0, 1].set_ylabel(r"$E\,|\mathcal{N}_i|$ at $t = 0$")

    share = trained.assign(pure_minority_share=trained["pure_minority_neurons"] / trained["m"])
    series = len(colours) * len(powers)
    for ax, value in ((axes[1, 0], "pure_minority_share"), (axes[1, 1], "learned_features")):
        what = quantity(value)
        for (ratio, power), group in share.groupby(["ratio", "d1_power"]):
            # A point for each size (d, m), and series side by side.
            rows = pd.concat([estimates(part, "d", value, what.range) for _, part in group.groupby("m")]).sort_index()
            place = list(colours).index(ratio) * len(powers) + list(powers).index(power) - series + 1
            same = rows.groupby(level=0).cumcount()
            rows.index = rows.index * 1.012 ** (place + same / 4)
            # An interval that holds 0 has no lower end on a logarithmic axis.
            rows["low"] = rows["low"].clip(lower=rows["mean"] / 30)
            rows = rows[rows["mean"] > 0]
            if len(rows):
                bounded(ax, rows, colours[ratio].but(marker=powers[power]), bounds(ratio)[value].exponent, line=False)
        ax.set_ylabel(what.symbol)
    counted = lucky_sets[lucky_sets["d"].isin(trained["d"]) & lucky_sets["ratio"].isin(trained["ratio"])]
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
        ax.yaxis.set_major_formatter(Plain())
        ax.yaxis.set_minor_formatter(Plain(minor_thresholds=(1, 0.4)))
    letter(axes.flat)
    figure.align_ylabels()
    entries = {rf"$\varepsilon_{{\min}}/\varepsilon_{{\max}}$ = {ratio:g}": handle(look) for ratio, look in colours.items()}
    entries |= {f"$d_1 = d^{{{power:g}}}$": handle(Look("0.3", marker), line=False) for power, marker in powers.items()}
    entries |= {"lucky at $t = 0$": handle(Look("0.3")), "exponent of the bound": handle(Look("0.3", dash=BOUND))}
    neurons = f"{lucky_sets['neurons'].max():,}".replace(",", "\N{THIN SPACE}")
    counts = n_of(*trained.groupby(["d", "ratio"])["seed"].nunique())
    note = f"mean and 95 % interval: {neurons} initial neurons above, {counts} below"
    key(figure, entries, note, columns=min(5, len(entries)))
    return figure
