"""The image part of the study of augmentation: Wen & Li's Figures 3 and 4 by kind of augmentation."""

from collections.abc import Mapping

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.figure import Figure

from rarefeat.core.statistics import student_interval
from rarefeat.run.job import Job

METRICS = {
    "linear_accuracy": "linear probe",
    "knn_accuracy": "nearest neighbours",
    "separation": "variance between classes",
    "crop_invariance": "invariance to crops",
    "intensity_invariance": "invariance to intensity",
}
MARKERS = "osD^vPX*<>"


def augmentation_images(tables: Mapping[str, pd.DataFrame], job: Job) -> Figure:
    """A row for each of: firing rates by layer, t-SNE of the features; below, what the features keep and forget."""
    kinds = job.part("kinds", list[str])
    metrics, units, embedding = tables.values()
    names = {kind: kind.removeprefix("views_").replace("_", " ") for kind in kinds}
    layers = sorted(units["layer"].unique(), key=lambda layer: (layer != "stem", layer))
    shades = sns.color_palette("cividis", len(layers) + 1)
    figure = plt.figure(figsize=(7.6, 7.4), layout="constrained")
    grid = figure.add_gridspec(3, len(kinds), height_ratios=[1, 1.2, 1.1])
    bins = np.linspace(0, 1, 21)
    firing = grid[0, :].subgridspec(1, len(kinds)).subplots(sharey=True, squeeze=False)[0]
    for column, kind in enumerate(kinds):
        ax = firing[column]
        trained = units[(units["study"] == kind) & (units["network"] == "trained")]
        for layer, colour, style in zip(layers, shades, ("-", "--", "-.", ":", "-"), strict=False):
            part = trained[trained["layer"] == layer]
            shares = np.array([np.histogram(seed["firing_rate"], bins)[0] / len(seed) for _, seed in part.groupby("seed")])
            mean, half = shares.mean(0), np.array([student_interval(values)[3] - values.mean() for values in shares.T])
            centres = (bins[1:] + bins[:-1]) / 2
            ax.plot(centres, mean, color=colour, ls=style, lw=1, label=layer)
            ax.fill_between(centres, (mean - half).clip(0), mean + half, color=colour, alpha=0.2, lw=0)
        ax.set(xlabel="firing rate of a unit", ylabel="share of units" if not column else "")
        ax.set_title(names[kind], fontsize=9)
        if not column:
            ax.legend(fontsize=6)

        ax = figure.add_subplot(grid[1, column])
        points = embedding[(embedding["study"] == kind) & (embedding["network"] == "trained")]
        labels = sorted(points["label"].unique())
        for label, colour, marker in zip(labels, sns.color_palette("cividis", len(labels)), MARKERS, strict=False):
            part = points[points["label"] == label]
            ax.scatter(part["x"], part["y"], color=colour, marker=marker, s=6, lw=0, label=label)
        ax.set(xticks=[], yticks=[], xlabel="t-SNE 1", ylabel="t-SNE 2" if not column else "")
        if column == len(kinds) - 1:
            ax.legend(fontsize=5, ncols=1, loc="center left", bbox_to_anchor=(1, 0.5), title="digit", title_fontsize=6)
    firing[0].set_ylim(bottom=0)
    ax = figure.add_subplot(grid[2, :])
    trained, initial = (metrics[metrics["network"] == network] for network in ("trained", "initial"))
    series = {names[kind]: trained[trained["study"] == kind] for kind in kinds}
    # Before training the kinds are one network.
    series["before training"] = initial[initial["study"] == kinds[0]]
    colours = sns.color_palette("cividis", len(series))
    for index, (name, part) in enumerate(series.items()):
        intervals = [student_interval(part[part["metric"] == metric]["value"].to_numpy()) for metric in METRICS]
        mean, low, high = (np.array([interval[k] for interval in intervals]) for k in (0, 2, 3))
        x = np.arange(len(METRICS)) + 0.12 * (index - len(series) / 2)
        spread = [mean - low, high - mean]
        ax.errorbar(x, mean, yerr=spread, color=colours[index], fmt=MARKERS[index], ms=4, lw=1, capsize=2, label=name)
    ax.set_xticks(range(len(METRICS)), METRICS.values(), fontsize=7)
    ax.set_ylabel("share, or mean cosine")
    ax.legend(fontsize=6)
    return figure
