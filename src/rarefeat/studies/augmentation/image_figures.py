"""The figure of image views: Wen & Li's Figures 3 and 4 by kind of augmentation."""

from collections.abc import Mapping

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from rarefeat.figures.labels import INTERVALS, display_name, quantity, seeds_of
from rarefeat.figures.panels import add_legend, add_panel_letters, panels, plot_lines, plot_points
from rarefeat.figures.style import MANY, MARKERS, STYLES, SeriesStyle, sequential_styles
from rarefeat.run.job import Job

METRICS = (
    "linear_accuracy",
    "knn_accuracy",
    "separation",
    "crop_invariance",
    "intensity_invariance",
)


def augmentation_images(tables: Mapping[str, pd.DataFrame], job: Job) -> Figure:
    """Plot firing rates, t-SNE and metrics of features by kind of views.

    The rates are by layer, a column for each kind; below are the metrics of what the features
    keep and forget.
    """
    kinds = job.config_section("kinds", list[str])
    metrics, units, embedding = tables.values()
    names = {kind: display_name(kind.removeprefix("views_")) for kind in kinds}
    layers = sorted(units["layer"].unique(), key=lambda layer: (layer != "stem", layer))
    shades, bins = sequential_styles(layers), np.linspace(0, 1, 21)
    middles = (bins[1:] + bins[:-1]) / 2
    figure, _ = panels(1, 1, 6.2)
    figure.clear()
    beside = {"columns": 1, "location": "right center"}
    above, middle, below = figure.subfigures(3, 1, height_ratios=[1.15, 1.25, 1])
    firing = above.subplots(1, len(kinds), sharey=True, squeeze=False)[0]
    for ax, kind in zip(firing, kinds, strict=True):
        trained = units[(units["study"] == kind) & (units["network"] == "trained")]
        rates = [
            pd.DataFrame(
                {
                    "layer": layer,
                    "rate": middles,
                    "share": np.histogram(rows["firing_rate"], bins)[0] / len(rows),
                }
            )
            for (layer, _), rows in trained.groupby(["layer", "seed"])
        ]
        plot_lines(
            ax,
            pd.concat(rates),
            "rate",
            "share",
            shades,
            series_column="layer",
            bounds=(0, 1),
            band=True,
            mark_every=3,
        )
        ax.set(xlabel="firing rate of a unit", title=names[kind])
    firing[0].set(ylim=(0, None), ylabel="share of units")
    add_legend(above, {str(layer): look for layer, look in shades.items()}, "layer", **beside)

    maps = middle.subplots(1, len(kinds), squeeze=False)[0]
    labels = sorted(embedding["label"].unique())
    classes = {
        label: SeriesStyle(MANY[index % len(MANY)], MARKERS[index % len(MARKERS)])
        for index, label in enumerate(labels)
    }
    for ax, kind in zip(maps, kinds, strict=True):
        plane = embedding[embedding["study"] == kind]
        for label, look in classes.items():
            rows = plane[plane["label"] == label]
            ax.plot(
                rows["x"], rows["y"], look.marker, color=look.colour, ms=2, mew=0, rasterized=True
            )
        ax.set(xticks=[], yticks=[], xlabel="t-SNE 1")
    maps[0].set_ylabel("t-SNE 2, first seed")
    add_legend(
        middle,
        {str(label): look.without_line for label, look in classes.items()},
        "class",
        **beside,
    )

    ax = below.subplots()
    trained, initial = (
        metrics[metrics["network"] == network] for network in ("trained", "initial")
    )
    series = {names[kind]: trained[trained["study"] == kind] for kind in kinds}
    # Before training the kinds are one network.
    series["before training"] = initial[initial["study"] == kinds[0]]
    styles = dict(zip(series, (*STYLES[: len(kinds)], SeriesStyle("0.55", "v")), strict=True))
    shown = [metric for metric in METRICS if metric in set(metrics["metric"])]
    symbols = {metric: quantity(metric).symbol for metric in shown}
    every = pd.concat(rows.assign(series=name) for name, rows in series.items())
    for metric in shown:
        # Each within its own range.
        rows = every[every["metric"] == metric].assign(metric=symbols[metric])
        plot_points(
            ax,
            rows,
            "metric",
            "value",
            styles,
            bounds=quantity(metric).range,
            order=list(symbols.values()),
        )
    ax.set(ylabel="share, or mean cosine", ylim=(min(0, ax.get_ylim()[0]), 1.03))
    add_legend(
        below,
        {name: look.without_line for name, look in styles.items()},
        f"{INTERVALS},\n{seeds_of(metrics)}",
        **beside,
    )
    add_panel_letters((*firing, *maps, ax))
    return figure
