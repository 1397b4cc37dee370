"""Figures of neurons along the dial of augmentations, and under a rare feature."""

from collections.abc import Mapping

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.ticker import LogLocator

from rarefeat.figures.labels import (
    INTERVALS,
    STEP,
    add_series_column,
    arm_label,
    quantity,
    seeds_of,
)
from rarefeat.figures.panels import (
    draw_zero_line,
    finish_figure,
    mean_interval,
    paired_differences,
    panels,
    plot_lines,
    plot_points,
    set_y_range,
)
from rarefeat.figures.style import GREY, STYLES, SeriesStyle, assign_styles
from rarefeat.run.job import Job

Tables = Mapping[str, pd.DataFrame]
WITHOUT_BIAS = "_without_bias"
LEARNED_BIAS = "_learned_bias"
# Kinds of pairs of every panel: names of studies without their suffixes.
PAIRS = ("random_mask", "independent_noise", "identical", "mask_and_redrawn")
OF_PAIR = dict(zip(PAIRS, STYLES, strict=False)) | {
    "identical" + WITHOUT_BIAS: STYLES[2].replace(filled=False, dash=(0, (2, 1))),
    "raw": SeriesStyle(GREY, "v", (0, (1, 1))),
    "oracle": SeriesStyle(GREY, "P", (0, (6, 2))),
}
NAMES = {
    "random_mask": "random mask",
    "independent_noise": "noise of its own",
    "identical": "identical views",
    "mask_and_redrawn": "random mask, nuisance redrawn",
    "raw": "head on the input",
    "oracle": "head on the oracle",
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
    "identical" + WITHOUT_BIAS,
)


def pair_name(name: str) -> str:
    """Return the human-readable name of a kind of pair.

    `mask=0.25` and `rho=0.5` have their symbol.
    """
    kind = name.removesuffix(WITHOUT_BIAS)
    symbol, equal, value = kind.partition("=")
    if equal:
        kind = {
            "mask": rf"random mask, $q$ = {value}",
            "rho": rf"shared noise, $\rho$ = {value}",
        }.get(symbol, kind)
    return NAMES.get(kind, kind.replace("_", " ")) + (
        ", no bias" if name != kind and name.endswith(WITHOUT_BIAS) else ""
    )


def names_in_table(names: tuple[str, ...], table: pd.DataFrame) -> list[str]:
    """Return the names of the studies that a table has."""
    return [name for name in names if name in set(table["study"])]


def augmentation_stages(tables: Tables, job: Job) -> Figure:
    """Plot features, nuisance and a learned bias over training, and the error of heads.

    Heads are against the number of labels.
    """
    final, course = tables.values()
    course = course[course["step"] > 0]
    figure, axes = panels(2, 2, 4.6)
    shown: list[str] = []
    four = (*PAIRS[:3], "identical" + WITHOUT_BIAS)
    for ax, studies, metric, title in (
        (axes[0, 0], {name: name for name in four}, "share_features", "features in the weights"),
        (
            axes[0, 1],
            {
                "identical": "colour_identical",
                "random_mask": "colour_mask",
                "mask_and_redrawn": "colour_mask_and_redrawn",
            },
            "share_colour",
            "a dense nuisance in the weights",
        ),
        (
            axes[1, 0],
            {name: name + LEARNED_BIAS for name in PAIRS[:3]},
            "bias_share",
            "a bias that is learned",
        ),
    ):
        rows = course[(course["metric"] == metric) & course["study"].isin(studies.values())]
        styles = {study: OF_PAIR[kind] for kind, study in studies.items()}
        plot_lines(
            ax,
            rows,
            "step",
            "value",
            styles,
            series_column="study",
            bounds=quantity(metric).range,
            band=True,
            mark_every=4,
        )
        shown += [kind for kind, study in studies.items() if study in set(rows["study"])]
        ax.set(xscale="log", xlabel=STEP, ylabel=quantity(metric).symbol, title=title)
        set_y_range(ax, quantity(metric))
    draw_zero_line(axes[1, 0])
    ax, heads = axes[1, 1], final[final["metric"] == "regression_error"]
    of_head = heads["study"].where(heads["encoder"] == "trained", heads["encoder"])
    heads = heads.assign(series=of_head)[of_head.isin([*four, "raw", "oracle"])]
    styles = {name: look for name, look in OF_PAIR.items() if name in set(heads["series"])}
    # A head with fewer labels than it needs errs by any factor: means of logarithms, and so a
    # logarithmic axis.
    plot_lines(ax, heads, "labels", "value", styles, estimator="geometric")
    shown += styles
    ax.axhline(1, color=GREY, lw=0.7, zorder=0.5)
    labels = sorted(heads["labels"].unique())
    ax.set(
        xscale="log",
        yscale="log",
        xlabel="labels $n$",
        title="heads",
        ylabel="test MSE / label variance,\ngeometric mean",
    )
    ax.set_xticks(labels, [f"{count:g}" for count in labels])
    ax.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5), numticks=6))
    ax.yaxis.set_major_formatter("{x:g}")
    ax.minorticks_off()
    if len(labels) == 1:
        ax.set_xlim(labels[0] / 2, labels[0] * 2)
    entries = {pair_name(name): look for name, look in OF_PAIR.items() if name in shown}
    return finish_figure(figure, axes.flat, entries, f"{INTERVALS}, {seeds_of(final)}", columns=4)


def augmentation_dial(tables: Tables, job: Job) -> Figure:
    """Plot neurons, coverage, activity and noise at the end of training by kind of pair."""
    (final,) = tables.values()
    shown = (
        "singletons",
        "covered_features",
        "features_per_neuron",
        "activity",
        "noise_cosine",
        "noise_left",
    )
    names = names_in_table(DIAL, final)
    figure, axes = panels(2, 3, 1.5 + 0.3 * len(names), sharey=True)
    for ax, metric in zip(axes.flat, shown, strict=True):
        plotted = quantity(metric)
        oracle = final[(final["metric"] == metric) & (final["encoder"] == "oracle")][
            "value"
        ].to_numpy()
        if len(oracle):
            ax.axvspan(*mean_interval(oracle, plotted.range), color="0.85", lw=0)
            ax.axvline(oracle.mean(), color=GREY, ls=(0, (6, 2)), lw=1)
        rows = final[(final["metric"] == metric) & (final["encoder"] == "trained")]
        rows = rows.assign(study=rows["study"].map(pair_name))
        plot_points(
            ax,
            rows,
            "value",
            "study",
            STYLES[0],
            bounds=plotted.range,
            order=[pair_name(name) for name in names],
            horizontal=True,
        )
        ax.set_xlabel(plotted.symbol)
        ax.margins(x=0.08)
        ax.locator_params(axis="x", nbins=5)
    entries = {"trained encoder": STYLES[0].without_line}
    if "oracle" in set(final["encoder"]):
        entries["oracle"] = SeriesStyle(GREY, dash=(0, (6, 2)))
    return finish_figure(
        figure, axes.flat, entries, f"{INTERVALS}, {seeds_of(final[final['study'].isin(names)])}"
    )


def augmentation_imbalance(tables: Tables, job: Job) -> Figure:
    """Plot the alignment with a rare feature by kind of pair, and the gain of masks.

    Pairs have a random mask or independent noise, with and without a bias.
    """
    (final,) = tables.values()
    start, metric = "imbalance_", "minority_alignment"
    chosen = final[
        final["study"].str.startswith(start)
        & (final["encoder"] == "trained")
        & (final["metric"] == metric)
    ]
    chosen = add_series_column(chosen)
    pairs = [pair + bias for bias in ("", WITHOUT_BIAS) for pair in PAIRS[:2]]
    places = {
        (start + pair, eps_min): rf"{pair_name(pair)}, {eps_min:g}"
        for pair in pairs
        for eps_min in sorted(chosen[chosen["study"] == start + pair]["eps_min"].unique())
    }
    masks = assign_styles(sorted(set(chosen["series"]) - {"dense"}))
    figure, axes = panels(1, 2, 1.4 + 0.26 * len(places), sharey=True)
    (left, right), plotted, order = axes[0], quantity(metric), list(places.values())
    draw_zero_line(right, vertical=True)

    def placed(table: pd.DataFrame) -> pd.DataFrame:
        return table.assign(
            place=[places.get(key) for key in zip(table["study"], table["eps_min"], strict=True)]
        )

    plot_points(
        left,
        placed(chosen),
        "value",
        "place",
        assign_styles(["dense"]),
        bounds=plotted.range,
        order=order,
        horizontal=True,
    )
    gains = [
        paired_differences(chosen, "value", series, axes=("study", "eps_min")).assign(series=series)
        for series in masks
    ]
    if gains:
        added = placed(pd.concat(gains))
        plot_points(
            right,
            added,
            "value",
            "place",
            masks,
            bounds=plotted.difference,
            order=order,
            horizontal=True,
        )
    left.set_ylabel(r"pairs, and $\varepsilon_{\min}/\varepsilon_{\max}$")
    left.set(xlabel=plotted.symbol + ", dense", xlim=(-0.03, 1.03))
    right.set_xlabel("change by a mask, same seed")
    right.locator_params(axis="x", nbins=5)
    entries = {
        arm_label(series): look.without_line
        for series, look in (assign_styles(["dense"]) | masks).items()
    }
    return finish_figure(figure, axes[0], entries, f"{INTERVALS}, {seeds_of(chosen)}")


def augmentation_representations(tables: Tables, job: Job) -> Figure:
    """Plot firing rates of neurons by kind of pair and under labels.

    Wen & Li's Figure 3 on synthetic data.
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
    entries = {
        "mean over seeds": Rectangle((0, 0), 1, 1, color="0.75"),
        "95 % interval": SeriesStyle("0.15"),
    }
    return finish_figure(figure, (), entries, seeds_of(neurons))
