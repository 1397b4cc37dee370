"""Figures of neurons along the dial of augmentations, and of image views.

Tables hold replicas, or the published means.
"""

from collections.abc import Mapping

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.ticker import PercentFormatter

from rarefeat.figures.labels import INTERVALS, display_name, n_of, quantity, seeds_of
from rarefeat.figures.panels import (
    add_legend,
    add_panel_letters,
    finish_figure,
    panels,
    plot_effects,
    plot_lines,
    plot_points,
)
from rarefeat.figures.style import MANY, MARKERS, NARROW, STYLES, SeriesStyle, sequential_styles
from rarefeat.studies.augmentation import augmentation

Tables = Mapping[str, pd.DataFrame]
WITHOUT_BIAS = "_without_bias"
OF_BIAS = {"with a bias": STYLES[0], "without a bias": STYLES[4].replace(filled=False)}
DIAL = (
    "random_mask", "mask=0.25", "mask=0.1", "independent_noise", "rho=0.5", "rho=0.9", "identical",
)  # fmt: skip
BEFORE = "before training"
CHANCE = 0.1
"""Accuracy of guessing: digits and CIFAR-10 have ten classes each."""
BINS = np.linspace(0, 1, 21)
MIDDLES = (BINS[1:] + BINS[:-1]) / 2


def pair_name(mask: float, rho: float) -> str:
    """Return the name of a kind of pair in words, by the shares of its mask and shared noise."""
    if mask:
        return f"random mask of {mask:.0%}"
    return {0.0: "noise of its own", 1.0: "identical views"}.get(rho, f"shared noise, {rho:.0%}")


def augmentation_dial(tables: Tables, pairs: dict[str, list[float]]) -> Figure:
    """Plot features with a neuron of their own, for kinds of pair with a bias and without."""
    (table,) = tables.values()
    rows = augmentation(table) if "seed" in table else table
    found = set(rows["study"])
    both = [name for name in DIAL if {name, name + WITHOUT_BIAS} <= found]
    names = {name: pair_name(*pairs[name]) for name in both or DIAL if name in found}
    kinds = rows["study"].str.removesuffix(WITHOUT_BIAS)
    series = (kinds == rows["study"]).map({True: "with a bias", False: "without a bias"})
    rows = rows.assign(place=kinds.map(names), series=series).dropna(subset="place")
    rows = rows[rows["metric"] == "covered_features"]
    styles = {name: look for name, look in OF_BIAS.items() if name in set(rows["series"])}
    figure, ((ax,),) = panels(height=1.1 + 0.25 * len(names), width=NARROW)
    plot_effects(ax, rows, styles, list(names.values()), dodge=0)
    ax.set(xlim=(-0.1, 1), xlabel=f"share of features\n{INTERVALS}, {n_of(*rows['n'])}")
    ax.xaxis.set_major_formatter(PercentFormatter(1))
    figure.suptitle("Features with a neuron of their own, by kind of positive pair")
    return figure


def histograms(rows: pd.DataFrame, keys: list[str], value: str) -> pd.DataFrame:
    """Return the share of rows in each bin of a rate, by group."""
    parts = [
        pd.DataFrame(
            {"rate": MIDDLES, "share": np.histogram(group[value], BINS)[0] / len(group)}
        ).assign(**dict(zip(keys, key, strict=True)))
        for key, group in rows.groupby(keys)
    ]
    return pd.concat(parts)


def augmentation_representations(tables: Tables) -> Figure:
    """Plot firing rates of neurons by kind of pair and under labels: Wen & Li's Figure 3 on
    synthetic data.
    """
    (neurons,) = tables.values()
    trained = neurons[neurons["encoder"] == "trained"]
    labelled = neurons[neurons["encoder"] == "supervised"]
    wanted = {"identical_without_bias": "identical views,\nno bias", "identical": "identical views"}
    drawn = [
        (title, trained[trained["study"] == name])
        for name, title in wanted.items()
        if name in set(neurons["study"])
    ]
    drawn += [("trained on labels", rows) for _, rows in labelled.groupby("study", sort=False)]
    figure, axes = panels(1, len(drawn), 2.2, NARROW, sharey=True)
    for ax, (title, rows) in zip(axes[0], drawn, strict=True):
        shares = histograms(rows, ["seed"], "activity")
        ax.stairs(shares.groupby("rate")["share"].mean(), BINS, color="0.75", fill=True)
        plot_points(ax, shares, "rate", "share", SeriesStyle("0.15"), bounds=(0, 1))
        ax.set(title=title, xlabel=quantity("activity").symbol, xlim=(-0.02, 1.02))
        ax.set_xticks([0, 0.5, 1], ["0", "0.5", "1"])
    axes[0, 0].set(ylabel="share of neurons", ylim=(0, None))
    figure.suptitle("How many inputs activate a neuron: without a bias, with one, and by labels")
    entries = {
        "mean over seeds": Rectangle((0, 0), 1, 1, color="0.75"),
        "95 % interval": SeriesStyle("0.15"),
    }
    return finish_figure(figure, (), entries, seeds_of(neurons))


def augmentation_images(tables: Tables, kinds: list[str]) -> Figure:
    """Plot the accuracy of a linear probe of the features, by kind of views, for each table."""
    views = name_views(kinds).items()
    names = {BEFORE: BEFORE} | {kind: name.removeprefix("views differ in ") for kind, name in views}
    figure, axes = panels(
        len(tables), 1, 0.9 + 0.22 * len(names) * len(tables), NARROW, sharex=True
    )
    for ax, (title, table) in zip(axes[:, 0], tables.items(), strict=True):
        rows = table[table["metric"] == "linear_accuracy"]
        # Before training the kinds are one network.
        initial = rows[(rows["network"] == "initial") & (rows["study"] == kinds[0])]
        rows = pd.concat([initial.assign(study=BEFORE), rows[rows["network"] == "trained"]])
        rows = rows.assign(place=rows["study"].map(names)).dropna(subset="place")
        order = [name for name in names.values() if name in set(rows["place"])]
        look = STYLES[0].without_line
        plot_points(ax, rows, "value", "place", look, order=order, horizontal=True)
        count = rows["seed"].nunique() if "seed" in rows else rows["n"].max()
        ax.set_title(f"{title}, {n_of(count)}" if len(tables) > 1 else n_of(count))
        ax.axvline(CHANCE, color="0.35", lw=0.7, zorder=0)
        ax.text(CHANCE, len(order) - 1, " chance", color="0.35", va="center")
    ax.set(xlim=(0, 1.03), xlabel=f"accuracy\n{INTERVALS}")
    ax.xaxis.set_major_formatter(PercentFormatter(1))
    figure.suptitle("Accuracy of a linear probe, by the augmentation of the views")
    return figure


def name_views(kinds: list[str]) -> dict[str, str]:
    """Return the name of each kind of views in words."""
    words = {kind: display_name(kind.removeprefix("views_")) for kind in kinds}
    return {
        kind: "views alike" if word == "none" else f"views differ in {word}"
        for kind, word in words.items()
    }


def augmentation_embeddings(tables: Tables, kinds: list[str]) -> Figure:
    """Plot firing rates of units by layer, and t-SNE of features, by kind of views."""
    units, embedding = tables.values()
    units = units[units["network"] == "trained"]
    layers = sorted(units["layer"].unique(), key=lambda layer: (layer != "stem", layer))
    shades = sequential_styles(layers)
    labels = sorted(embedding["label"].unique())
    classes = {
        label: SeriesStyle(MANY[i % len(MANY)], MARKERS[i % len(MARKERS)])
        for i, label in enumerate(labels)
    }
    figure, _ = panels(1, 1, 4.2)
    figure.clear()
    above, below = figure.subfigures(2, 1)
    firing = above.subplots(1, len(kinds), sharey=True, squeeze=False)[0]
    maps = below.subplots(1, len(kinds), squeeze=False)[0]
    for rates, plane, (kind, name) in zip(firing, maps, name_views(kinds).items(), strict=True):
        shares = histograms(units[units["study"] == kind], ["layer", "seed"], "firing_rate")
        plot_lines(
            rates, shares, "rate", "share", shades, series_column="layer",
            bounds=(0, 1), band=True, mark_every=3,
        )  # fmt: skip
        rates.set(xlabel="firing rate", title=name.replace(" in ", " in\n"))
        plot_plane(plane, embedding[embedding["study"] == kind], classes)
    firing[0].set(ylim=(0, None), ylabel="share of units")
    maps[0].set_ylabel("t-SNE 2, first seed")
    beside = {"columns": 1, "location": "right center"}
    add_legend(above, {str(layer): look for layer, look in shades.items()}, "layer", **beside)
    entries = {str(label): look.without_line for label, look in classes.items()}
    add_legend(below, entries, "class", **beside)
    add_panel_letters((*firing, *maps))
    return figure


def plot_plane(ax: Axes, plane: pd.DataFrame, classes: dict[int, SeriesStyle]) -> None:
    """Plot places of images, a colour and a marker for each class."""
    for label, look in classes.items():
        rows = plane[plane["label"] == label]
        ax.plot(rows["x"], rows["y"], look.marker, color=look.colour, ms=2, mew=0, rasterized=True)
    ax.set(xticks=[], yticks=[], xlabel="t-SNE 1")
