"""Accuracy and Delta_20 against rho by arm, the gain by pruning, and how training went."""

from collections.abc import Mapping

import matplotlib.pyplot as plt
import pandas as pd
import seaborn as sns
from matplotlib.figure import Figure

from rarefeat.config.images import ImageArm
from rarefeat.core.statistics import student_interval
from rarefeat.run.job import Job

ARM = list(ImageArm.model_fields)
DENSE = "dense"


def named(table: pd.DataFrame) -> pd.DataFrame:
    """With a column `series`: the arm in words, and what was pretrained on."""
    words = {}
    for key in set(table[ARM].itertuples(index=False, name=None)):
        arm = ImageArm(**dict(zip(ARM, key, strict=True)))
        words[key] = arm.label.replace("_", " ").replace("-alpha=", ", alpha ").replace("-threshold=", ", ")
    series = [words[key] for key in table[ARM].itertuples(index=False, name=None)]
    balanced = table["split"] == "balanced"
    return table.assign(
        series=[f"{name}, balanced images" if is_ else name for name, is_ in zip(series, balanced, strict=True)]
    )


def longtail(tables: Mapping[str, pd.DataFrame], job: Job) -> Figure:
    """Four panels of one data set: two metrics of the balanced probe, the paired gains, and kNN accuracy over training."""
    summary, trajectories = tables.values()
    summary, trajectories = named(summary[summary["probe"] == "balanced"]), named(trajectories)
    names = [DENSE, *sorted(set(summary["series"]) - {DENSE})]
    # Dark to light, so that order survives greyscale; markers tell the series apart without colour.
    style = dict(zip(names, zip(sns.color_palette("cividis", len(names)), "osD^vPX*<>", strict=False), strict=True))
    figure, axes = plt.subplots(2, 2, figsize=(7.6, 5.6))
    for ax, metric, column, label in (
        (axes[0, 0], "accuracy", "mean", "linear-probe accuracy"),
        (axes[0, 1], "delta_20", "mean", r"$\Delta_{20}$: head less tail accuracy"),
        (axes[1, 0], "accuracy", "paired_difference", "gain in accuracy over dense"),
    ):
        part = summary[summary["metric"] == metric].dropna(subset=[column])
        low, high = ("paired_ci_low", "paired_ci_high") if column != "mean" else ("ci_low", "ci_high")
        for index, (name, line) in enumerate(part.sort_values("rho").groupby("series")):
            colour, marker = style[name]
            # Side by side, so that no interval hides another.
            x = line["rho"] * 1.04 ** (index - part["series"].nunique() / 2)
            spread = [line[column] - line[low], line[high] - line[column]]
            dashes = "--" if line["split"].iloc[0] == "balanced" else "-"
            ax.errorbar(x, line[column], yerr=spread, color=colour, marker=marker, ms=4, lw=1, ls=dashes, capsize=2)
        if column != "mean":
            ax.axhline(0, color="0.5", lw=0.8)
        ticks = sorted(summary["rho"].unique())
        ax.set(xscale="log", xlabel=r"imbalance ratio $\rho$", ylabel=label)
        ax.set_xticks(ticks, [f"{rho:g}" for rho in ticks])
        ax.minorticks_off()
    rho = trajectories["rho"].max()
    part = trajectories[(trajectories["metric"] == "knn_accuracy") & (trajectories["rho"] == rho)]
    for name, line in part.groupby("series"):
        colour, marker = style[name]
        at = [(epoch, *student_interval(values["value"].to_numpy())) for epoch, values in line.groupby("epoch")]
        course = pd.DataFrame(at, columns=["epoch", "mean", "sd", "low", "high", "n"])
        axes[1, 1].plot(course["epoch"], course["mean"], color=colour, marker=marker, ms=3, lw=1)
        axes[1, 1].fill_between(course["epoch"], course["low"], course["high"], color=colour, alpha=0.2, lw=0)
    axes[1, 1].set(xlabel="epoch", ylabel=rf"kNN accuracy, $\rho$ = {rho:g}")
    handles = [
        plt.Line2D([], [], color=style[name][0], marker=style[name][1], ms=4, lw=1, ls="--" if "balanced" in name else "-")
        for name in names
    ]
    figure.tight_layout(rect=(0, 0.08, 1, 1))
    figure.legend(handles, names, loc="lower center", ncols=min(3, len(names)), fontsize=7)
    return figure
