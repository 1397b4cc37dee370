"""Figures of neurons along the dial of augmentations, and under a rare feature."""

from collections.abc import Mapping

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.ticker import PercentFormatter

from rarefeat.figures.labels import INTERVALS, n_of, quantity, seeds_of
from rarefeat.figures.panels import add_legend, finish_figure, panels, plot_points
from rarefeat.figures.style import STYLES, SeriesStyle
from rarefeat.studies.augmentation.doc_tables import augmentation
from rarefeat.workflow.run.job import Job

Tables = Mapping[str, pd.DataFrame]
WITHOUT_BIAS = "_without_bias"
OF_BIAS = {"with a bias": STYLES[0], "without a bias": STYLES[4].replace(filled=False)}
NAMES = {
    "random_mask": "random mask",
    "independent_noise": "noise of its own",
    "identical": "identical views",
    "supervised": "trained on labels",
}
DIAL = (
    "random_mask",
    "mask=0.25",
    "mask=0.1",
    "independent_noise",
    "rho=0.5",
    "rho=0.9",
    "identical",
)


def pair_name(name: str) -> str:
    """Return the human-readable name of a kind of pair.

    `mask=0.25` and `rho=0.5` have their share.
    """
    kind = name.removesuffix(WITHOUT_BIAS)
    symbol, equal, value = kind.partition("=")
    if equal:
        kind = {
            "mask": f"random mask of {float(value):.0%}",
            "rho": f"shared noise, {float(value):.0%}",
        }.get(symbol, kind)
    return NAMES.get(kind, kind.replace("_", " ")) + (
        ", no bias" if name != kind and name.endswith(WITHOUT_BIAS) else ""
    )


def names_in_table(names: tuple[str, ...], table: pd.DataFrame) -> list[str]:
    """Return the names of the studies that a table has."""
    return [name for name in names if name in set(table["study"])]


def augmentation_dial(tables: Tables, job: Job) -> Figure:
    """Plot features with a neuron of their own, and the error of a head, by kind of pair.

    Inputs: `augmentation`, or the published means.
    """
    (table,) = tables.values()
    rows = augmentation(table) if "seed" in table else table
    biased = names_in_table(DIAL, rows)
    names = [*biased, *names_in_table(tuple(name + WITHOUT_BIAS for name in biased), rows)]
    rows = rows[rows["study"].isin(names)]
    without = rows["study"].str.endswith(WITHOUT_BIAS)
    rows = rows.assign(
        place=rows["study"].str.removesuffix(WITHOUT_BIAS).map(pair_name),
        series=without.map({False: "with a bias", True: "without a bias"}),
    )
    order = [pair_name(name) for name in biased]
    figure, axes = panels(1, 2, 1.1 + 0.22 * max(len(order), 2), sharey=True)
    shown = {
        "covered_features": "features with a neuron of their own",
        "regression_error": "error of a linear head\nover the label's variance",
    }
    for ax, (metric, label) in zip(axes[0], shown.items(), strict=True):
        plot_points(
            ax, rows[rows["metric"] == metric], "value", "place", OF_BIAS, order=order,
            horizontal=True, dodge=0,
        )  # fmt: skip
        ax.set(xlim=(-0.04, 1.04), xlabel=label)
    axes[0, 0].xaxis.set_major_formatter(PercentFormatter(1))
    figure.suptitle("Features with a neuron of their own, and the error of a head")
    entries = {name: look.without_line for name, look in OF_BIAS.items()}
    add_legend(figure, entries, f"{INTERVALS}, {n_of(*rows['n'])}")
    return figure


def augmentation_representations(tables: Tables, job: Job) -> Figure:
    """Plot firing rates of neurons by kind of pair and under labels: Wen & Li's Figure 3 on
    synthetic data.
    """
    (neurons,) = tables.values()
    wanted = (
        "identical" + WITHOUT_BIAS,
        "random_mask" + WITHOUT_BIAS,
        "identical",
        "independent_noise",
        "random_mask",
    )
    names = [(name, "trained") for name in names_in_table(wanted, neurons)]
    names += [
        (name, "supervised")
        for name in neurons[neurons["encoder"] == "supervised"]["study"].unique()
    ]
    figure, axes = panels(1, len(names), 1.8, sharey=True)
    bins = np.linspace(0, 1, 21)
    for ax, (name, encoder) in zip(axes[0], names, strict=True):
        chosen = neurons[(neurons["study"] == name) & (neurons["encoder"] == encoder)]
        counts = np.array(
            [
                np.histogram(neurons_of_seed["activity"], bins)[0] / len(neurons_of_seed)
                for _, neurons_of_seed in chosen.groupby("seed")
            ]
        )
        middles = (bins[1:] + bins[:-1]) / 2
        shares = pd.DataFrame(counts, columns=middles).melt(
            var_name="rate", value_name="share", ignore_index=False
        )
        ax.stairs(counts.mean(0), bins, color="0.75", fill=True)
        plot_points(ax, shares, "rate", "share", SeriesStyle("0.15"), bounds=(0, 1))
        ax.set_title(
            NAMES["supervised"] if encoder == "supervised" else pair_name(name).replace(", ", ",\n")
        )
        ax.set(xlabel=quantity("activity").symbol, xlim=(-0.02, 1.02))
        ax.set_xticks([0, 0.5, 1], ["0", "0.5", "1"])
    axes[0, 0].set(ylabel="share of neurons", ylim=(0, None))
    figure.suptitle("How many inputs activate a neuron, by kind of pair")
    entries = {
        "mean over seeds": Rectangle((0, 0), 1, 1, color="0.75"),
        "95 % interval": SeriesStyle("0.15"),
    }
    return finish_figure(figure, (), entries, seeds_of(neurons))
