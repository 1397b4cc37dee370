"""The figure of the scaling study."""

import itertools
from collections.abc import Mapping

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import LogFormatter, NullLocator

from rarefeat.core.statistics import student_interval
from rarefeat.run.job import Job
from rarefeat.studies.scaling.bounds import bounds

EPS = r"frequency ratio $\varepsilon_{\min}/\varepsilon_{\max}$"


class Plain(LogFormatter):
    """Labels of a logarithmic axis without powers of ten."""

    def __call__(self, x: float, pos: int | None = None) -> str:
        """The label of a tick, where it gets one."""
        return f"{x:g}" if super().__call__(x, pos) else ""


def scaling(tables: Mapping[str, pd.DataFrame], job: Job) -> Figure:
    """Sets of Definition B.1 and what training makes of them against d, with the slopes of the paper's bounds."""
    lucky_sets, trained = tables.values()
    ratios = sorted(lucky_sets["ratio"].unique())
    colours = dict(zip(ratios, sns.color_palette("viridis", len(ratios) + 1), strict=False))
    powers = sorted(trained["d1_power"].unique())
    markers = {key: marker for keys in (ratios, powers) for key, marker in zip(keys, itertools.cycle("osD^v"), strict=False)}
    figure, axes = plt.subplots(2, 2, figsize=(9.0, 6.6), sharex="row")

    def estimates(ax: plt.Axes, rows: pd.DataFrame, ratio: float, exponent: float, **options) -> None:
        """Rows (d, mean, low, high) with a power law of the bound's exponent through the first."""
        mean, colour = rows["mean"], colours[ratio]
        ax.errorbar(
            rows["d"], mean, yerr=[mean - rows["low"], rows["high"] - mean], color=colour, markersize=4.5, linewidth=0.9,
            capsize=2, **options,
        )  # fmt: skip
        ends = np.array([rows["d"].min(), rows["d"].max()])
        ax.plot(ends, mean.iloc[0] * (ends / ends[0]) ** exponent, color=colour, linestyle=(0, (4, 2)), linewidth=0.9)

    for ax, quantity, name in ((axes[0, 0], "lucky_probability", "lucky"), (axes[0, 1], "ordinary_features", "ordinary")):
        columns = {quantity: "mean", f"{name}_ci_low": "low", f"{name}_ci_high": "high"}
        for ratio, rows in lucky_sets[lucky_sets[quantity] > 0].sort_values("d").groupby("ratio"):
            exponent = bounds(ratio)[quantity].exponent
            estimates(ax, rows.rename(columns=columns), ratio, exponent, marker=markers[ratio], label=f"{ratio:g}")
    axes[0, 0].set_ylabel("probability that a neuron is\nlucky for one feature, $t = 0$")
    axes[0, 1].set_ylabel(r"$E\,|\mathcal{N}_i|$ at $t = 0$")

    share = trained.assign(pure_minority_share=trained["pure_minority_neurons"] / trained["m"])
    for ax, quantity in ((axes[1, 0], "pure_minority_share"), (axes[1, 1], "learned_features")):
        for (ratio, power), group in share.groupby(["ratio", "d1_power"]):
            rows = group.groupby(["d", "m"])[quantity].apply(student_interval).apply(pd.Series)
            rows = rows.set_axis(["mean", "sd", "low", "high", "n"], axis=1).reset_index()
            # Series side by side; and what an interval says of values below zero has no place on a logarithmic axis.
            place = ratios.index(ratio) * len(powers) + powers.index(power) - len(ratios) * len(powers) + 1
            rows["d"] = rows["d"] * 1.012 ** (place + rows.groupby("d").cumcount() / 4)
            rows["low"] = rows["low"].clip(lower=rows["mean"] / 30)
            estimates(ax, rows, ratio, bounds(ratio)[quantity].exponent, marker=markers[power], linestyle="none")
    axes[1, 0].set_ylabel("pure in the minority feature, of $m$,\nafter training")
    axes[1, 1].set_ylabel(r"mean $|\mathcal{N}_i|$ after training")
    counted = lucky_sets[lucky_sets["d"].isin(trained["d"]) & lucky_sets["ratio"].isin(trained["ratio"])]
    for ratio, rows in counted.groupby("ratio"):
        axes[1, 0].plot(rows["d"], rows["lucky_probability"], color=colours[ratio], linewidth=0.9)

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
    bound = Line2D([], [], color="0.3", linestyle=(0, (4, 2)), linewidth=0.9, label="exponent of the bound")
    handles, _ = axes[0, 1].get_legend_handles_labels()
    box = {"frameon": False, "loc": "upper left", "bbox_to_anchor": (1.01, 1.02), "fontsize": 8, "alignment": "left"}
    axes[0, 1].legend(handles=[*handles, bound], title=EPS, title_fontsize=8, **box)
    grey = {"color": "0.3", "markersize": 4.5, "linewidth": 0.9}
    handles = [
        *(Line2D([], [], marker=markers[key], linestyle="none", label=f"$d_1 = d^{{{key:g}}}$", **grey) for key in powers),
        Line2D([], [], label="lucky, $t = 0$", **grey),
        bound,
    ]
    axes[1, 1].legend(handles=handles, title="colours as above", title_fontsize=8, **box)
    return figure
