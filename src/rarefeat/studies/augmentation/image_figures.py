"""Figures of image views: Wen & Li's Figures 3 and 4 by kind of augmentation."""

from collections.abc import Mapping

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from rarefeat.figures.labels import INTERVALS, display_name, n_of
from rarefeat.figures.panels import (
    add_legend,
    add_panel_letters,
    panels,
    plot_lines,
    plot_points,
)
from rarefeat.figures.style import GREY, MANY, MARKERS, STYLES, SeriesStyle, sequential_styles
from rarefeat.workflow.run.job import Job

METRICS = {
    "linear_accuracy": "a linear probe reads the class",
    "knn_accuracy": "nearest neighbours read the class",
    "separation": "variance between classes",
    "crop_invariance": "a crop does not move them",
    "intensity_invariance": "nor a change of intensity",
    "colour_invariance": "nor a change of colour",
    "firing_rate": "a unit of the last block fires",
}
"""What is measured of features, in words."""
BEFORE = "before training"


def augmentation_images(tables: Mapping[str, pd.DataFrame], job: Job) -> Figure:
    """Plot what the features of images keep and forget, by kind of views and before training.

    Inputs: `augmentation_images`, or the published means. Config: `kinds`.
    """
    (table,) = tables.values()
    return plot_image_views(table, job.config_section("kinds", list[str]))


def plot_image_views(table: pd.DataFrame, kinds: list[str]) -> Figure:
    """Plot metrics of features by kind of views."""
    names = name_views(kinds)
    # Before training the kinds are one network.
    before = (table["network"] == "initial") & (table["study"] == kinds[0])
    rows = table[(table["network"] == "trained") | before]
    series = rows["study"].map(names).where(rows["network"] == "trained", BEFORE)
    rows = rows.assign(place=rows["metric"].map(METRICS), series=series).dropna(subset=["place"])
    looks = (STYLES[0], STYLES[2], STYLES[4], STYLES[3])[: len(kinds)]
    styles = dict(zip(names.values(), looks, strict=False)) | {BEFORE: SeriesStyle(GREY, "v")}
    order = [name for name in METRICS.values() if name in set(rows["place"])]
    figure, ((ax,),) = panels(height=1.0 + 0.3 * len(order))
    plot_points(ax, rows, "value", "place", styles, order=order, horizontal=True, dodge=0.4)
    ax.set(xlim=(min(-0.03, ax.get_xlim()[0]), 1.03), xlabel="share, or mean cosine")
    ax.set_title("What the features of an image hold, by what its two views differ in")
    count = table["seed"].nunique() if "seed" in table else table["n"].max()
    entries = {name: look.without_line for name, look in styles.items()}
    add_legend(figure, entries, f"{INTERVALS}, {n_of(count)}")
    return figure


def name_views(kinds: list[str]) -> dict[str, str]:
    """Return the name of each kind of views in words."""
    words = {kind: display_name(kind.removeprefix("views_")) for kind in kinds}
    return {
        kind: "views alike" if word == "none" else f"views differ in {word}"
        for kind, word in words.items()
    }


def augmentation_embeddings(tables: Mapping[str, pd.DataFrame], job: Job) -> Figure:
    """Plot firing rates of units by layer, and t-SNE of features, a column for each kind of views.

    Inputs: `augmentation_images_units`, `augmentation_images_embedding`. Config: `kinds`.
    """
    kinds = job.config_section("kinds", list[str])
    units, embedding = tables.values()
    names = name_views(kinds)
    layers = sorted(units["layer"].unique(), key=lambda layer: (layer != "stem", layer))
    shades, bins = sequential_styles(layers), np.linspace(0, 1, 21)
    middles = (bins[1:] + bins[:-1]) / 2
    figure, _ = panels(1, 1, 4.2)
    figure.clear()
    beside = {"columns": 1, "location": "right center"}
    above, middle = figure.subfigures(2, 1)
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
        ax.set(xlabel="firing rate", title=names[kind].replace(" in ", " in\n"))
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

    add_panel_letters((*firing, *maps))
    return figure
