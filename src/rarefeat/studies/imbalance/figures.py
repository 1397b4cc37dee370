"""Figures of the study of imbalance, drawn from its tables alone."""

import functools
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.artist import setp
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from rarefeat.figures.labels import (
    EPS,
    INTERVALS,
    STEP,
    TEST_SETS,
    add_series_column,
    arm_label,
    n_of,
    nsr_of,
    quantity,
    seeds_of,
    test_set_name,
)
from rarefeat.figures.panels import (
    draw_zero_line,
    label_ends,
    paired_differences,
    panels,
    plot_lines,
    plot_points,
    set_x_margins,
    spacing,
    title_with_key,
)
from rarefeat.figures.style import (
    COLUMN,
    GREY,
    NARROW,
    RARE,
    STYLES,
    SeriesStyle,
    assign_styles,
    sequential_styles,
)
from rarefeat.model.arms import ARMS
from rarefeat.model.thresholds import HALF_LEARNED
from rarefeat.studies.imbalance import GATE
from rarefeat.studies.imbalance.measure import compare_changes

Tables = Mapping[str, pd.DataFrame]
Styles = Mapping[Any, SeriesStyle]
UNTRAINED = tuple(name for name, arm in ARMS.items() if not arm.trained)
TITLES = {
    "aligned_neurons": "Neurons aligned with the rare feature",
    "max_alignment": "Largest cosine with the rare feature",
    "cosine_similarity": "Similarity of positive pairs",
    "regression_mse": "Error of a linear head",
}
NOISE = 0.05, 0.45, 1.25, 2.8125, 5.0
"""NSR of Figures 1 to 4; each has one look in all of them."""


def fate(tables: Tables) -> Figure:
    """Plot the best neuron of every dense replica at one noise level, with and without a bias."""
    grid, without_bias = (table[table["arm"] == "dense"] for table in tables.values())
    level = max(set(grid["nsr"]) & set(without_bias["nsr"]))
    biasless = STYLES[4].replace(marker="v")
    figure, ((ax,),) = panels(height=2.9, width=NARROW)
    for side, table, look, name, y in (
        (-1, grid, STYLES[0], "with", 1.06), (1, without_bias, biasless, "without", 0.42)
    ):  # fmt: skip
        replicas = table[table["nsr"] == level]
        # Each replica has its own place, in the order of the seeds.
        rank = replicas.groupby("eps_min")["seed"].rank(pct=True)
        width = 0.4 * spacing(replicas["eps_min"], 1.0)
        ax.plot(
            replicas["eps_min"] + width * side * rank, replicas["max_alignment"],
            look.marker, ls="none", color=look.colour, ms=2, mew=0, alpha=0.6, rasterized=True,
        )  # fmt: skip
        label = f"{name} a bias, {n_of(replicas['seed'].nunique())}"
        ax.text(grid["eps_min"].max(), y, label, color=look.colour, ha="right")
    ax.axhline(HALF_LEARNED, color=GREY, lw=0.7, zorder=0.5)
    set_x_margins(ax, grid["eps_min"])
    ax.set(xlabel=EPS, ylabel=quantity("max_alignment").symbol, ylim=(-0.04, 1.14))
    figure.suptitle("The best neuron for the rare feature in every run, with and without a bias")
    figure.supxlabel(f"above the line a run has learned it; {nsr_of(replicas)}", size=7)
    return figure


def compared(grid: pd.DataFrame) -> tuple[pd.DataFrame, list[str], dict[float, SeriesStyle]]:
    """Return the grid with its series, those other than dense, and a style for each noise level."""
    grid = add_series_column(grid).round({"nsr": 6})
    others = sorted(set(grid.loc[~grid["arm"].isin(["dense", *UNTRAINED]), "series"]))
    present = sorted(set(grid["nsr"]))
    looks = sequential_styles(sorted({*NOISE, *present}))
    return grid, others, {nsr: looks[nsr] for nsr in present}


def measured(tables: Tables, metric: str) -> Figure:
    """Plot Figures 1 to 4, by test set: no mask above, and below what each other arm changes."""
    grid, others, levels = compared(*tables.values())
    plotted, heights = quantity(metric), [1.4, *(1 for _ in others)]
    columns = [name for name in (metric, *(metric + name for name in TEST_SETS)) if name in grid]
    figure, axes = panels(
        len(heights), len(columns), 3.7 * sum(heights) / 2.4, NARROW,
        sharex=True, sharey="row", height_ratios=heights,
    )  # fmt: skip
    dense = grid[grid["arm"] == "dense"]
    # In two narrow columns the marks of all frequencies would touch.
    below = grid[grid["eps_min"].isin(sorted(set(grid["eps_min"]))[:: -len(columns)])]
    width = min(0.5, 0.125 * (len(levels) - 1)) * spacing(below["eps_min"])
    for column, (upper, *lower) in zip(columns, axes.T, strict=True):
        plot_lines(upper, dense, "eps_min", column, levels, "nsr", plotted.range)
        upper.set_title(test_set_name(column) or "no mask")
        for ax, series in zip(lower, others, strict=True):
            draw_zero_line(ax)
            added = paired_differences(below, column, series, axes=("nsr", "eps_min"))
            # Seaborn dodges by a share of the distance in this panel, 1 if it has one position.
            dodge = width / spacing(added["eps_min"], 1.0)
            plot_points(
                ax, added, "eps_min", column, levels, "nsr", plotted.difference, dodge=dodge
            )
            ax.set_title("change by the mask")
        for ax in (upper, *lower):
            setp(ax.lines, markersize=3.6 if len(columns) == 1 else 2.7)
        set_x_margins(upper, below["eps_min"])
        upper.set_xlim(left=0)
    axes[0, 0].set_ylabel(plotted.symbol)
    for ax, series in zip(axes[1:, 0], others, strict=True):
        ax.set_ylabel(f"{arm_label(series)}\n\N{MINUS SIGN} no mask")
    figure.align_ylabels()
    figure.supxlabel(f"{EPS}\n{INTERVALS}, {seeds_of(grid)}; changes at the same seed")
    names = {f"NSR {nsr:.3g}": look for nsr, look in levels.items()}
    title_with_key(figure, f"{TITLES[metric]}, and the change by a mask", names)
    return figure


# Figures of imbalance_and_pruning.
figure1_aligned_neurons = functools.partial(measured, metric="aligned_neurons")
figure2_max_alignment = functools.partial(measured, metric="max_alignment")
figure3_cosine_similarity = functools.partial(measured, metric="cosine_similarity")
figure4_regression_mse = functools.partial(measured, metric="regression_mse")


LABELS = {
    "as_trained": (0.57, 0.8),
    "no_bias": (0.01, 0.62),
    "bias_later": (0.27, 0.76),
    "as_printed": (0.64, 0.2),
    "oversampled_pairs": (0.04, 1.1),
    "pruned": (0.54, 0.6),
}
"""Where names stand in the figure of the gate."""


def gate(tables: Tables) -> Figure:
    """Plot the share of runs that learn the rare feature, as trained and with one change each."""
    table = compare_changes(*tables.values()) if len(tables) > 1 else next(iter(tables.values()))
    styles = assign_styles(["dense", *list(LABELS)[1:-1], "pruned_neuron"]).values()
    shown = dict(zip(LABELS, styles, strict=True))
    shown["pruned"] = shown["pruned"].without_line.replace(filled=False)
    # In grey the palette's own yellow and pink are pale.
    shown["bias_later"] = shown["bias_later"].replace(colour="#A66A00")
    shown["oversampled_pairs"] = shown["oversampled_pairs"].replace(colour="#AA4486")
    # Lines would lie on each other where no run learns the feature, or every run does.
    table = table.sort_values("eps_min", ignore_index=True)
    learned = table.groupby("way")["mean"]
    idle = (learned.shift(-1) == 0) | (learned.shift() == 1) & (table["way"] != "oversampled_pairs")
    table = table.assign(eps_min=table["eps_min"] + 0.018 * (table["way"] == "pruned"))[~idle]
    figure, ((ax,),) = panels(height=3.3, width=NARROW)
    plot_lines(ax, table, "eps_min", "share", shown, "way", bounds=(0, 1))
    for way, (x, y) in LABELS.items():
        # A mark before a name would be read as a point.
        name = GATE.get(way, "pruned\n(open)")
        ax.text(x, y, name, color=shown[way].colour, va="center")
    ax.set(xlabel=EPS, ylabel="runs that learn the rare feature", ylim=(-0.04, 1.18))
    ax.set_yticks([0, 0.25, 0.5, 0.75, 1])
    ax.yaxis.set_major_formatter(PercentFormatter(1))
    ax.set_xlim(0, 1.02)
    figure.suptitle("Runs that learn the rare feature, as trained and with one change")
    figure.supxlabel(f"exact 95 % intervals, {n_of(*table['n'])}")
    return figure


def trajectories(tables: Tables) -> Figure:
    """Plot the largest cosine of dense by step at up to four eps_min, and the bias over the norm.

    The embedding of a feature whose cosine is below the bias over the norm is cut off by the gate.
    """
    (table,) = tables.values()
    levels = sorted(table["eps_min"].unique())
    chosen = [levels[i] for i in np.unique(np.linspace(0, len(levels) - 1, 4).round().astype(int))]
    table = table[table["eps_min"].isin(chosen) & (table["arm"] == "dense") & (table["step"] > 0)]
    rows = table[table["metric"] == "max_alignment"]
    gate = table[table["metric"] == "bias_share"].groupby("step")["value"].median()
    styles = sequential_styles(chosen)
    figure, ((ax,),) = panels(height=2.7, width=NARROW)
    plot_lines(
        ax, rows, "step", "value", styles, series_column="eps_min", estimator="median",
        bounds=(0, 1), band=True, mark_every=4,
    )  # fmt: skip
    ax.fill_between(gate.index, gate, step="post", color="0.9", lw=0, zorder=0)
    # The table of a short run may have no step with a bias.
    for step in gate.index[gate > 0][:1]:
        ax.text(step, 0.17, "gate shut for\nthe best neuron", color="0.35")
    ax.set(xscale="log", xlabel=STEP, ylabel="cosine of the best neuron", ylim=(-0.02, 1.04))
    ax.xaxis.set_major_formatter("{x:,.0f}")
    last = rows[rows["step"] == rows["step"].max()].groupby("eps_min")["value"].median()
    names = {eps: f"{look.glyph} frequency {eps:g}" for eps, look in styles.items()}
    label_ends(ax, {names[eps]: (last[eps], styles[eps].colour) for eps in chosen})
    figure.suptitle("The best neuron's cosine with the rare feature, over training")
    figure.supxlabel(f"median and its 95 % interval, {seeds_of(rows)}")
    return figure


def alignment_heatmap(tables: Tables) -> Figure:
    """Plot Figure 1 of liao_imbalanced_features: the neurons of one dense replica."""
    (table,) = tables.values()
    first = table["seed"].min()
    one = table[(table["arm"] == "dense") & (table["seed"] == first)]
    matrix = one.pivot(index="neuron", columns="feature", values="squared_cosine") ** 0.5
    order = pd.DataFrame({"best": matrix.idxmax(axis=1), "value": -matrix.max(axis=1)})
    matrix = matrix.loc[order.sort_values(["best", "value"]).index]
    figure, ((ax,),) = panels(height=3.4, width=COLUMN)
    ax.pcolormesh(matrix, cmap="Greys", vmin=0, vmax=1, edgecolor="0.85", lw=0.3)
    counts = (matrix >= HALF_LEARNED).sum()
    for is_rare, features in one.drop_duplicates("feature").groupby("minority")["feature"]:
        colour = RARE if is_rare else "black"
        place = {"color": colour, "ha": "center", "va": "bottom"}
        name = "rare features" if is_rare else "frequent features"
        ax.text(features.mean() + 0.5, -0.3, name, **place)
        ax.set_xticks(features + 0.5, counts[features], color=colour, minor=is_rare)
    ax.axvline(features.min(), color=RARE, lw=1.5)
    ax.tick_params(which="both", length=0, labelsize=7.5)
    ax.set(yticks=[], ylabel=f"{len(matrix)} neurons", ylim=(len(matrix), 0))
    ax.set_xlabel(f"neurons that point along it: cosine of at least {HALF_LEARNED:g}")
    figure.suptitle("Which feature each neuron points along")
    figure.supxlabel(f"white: cosine 0, black: 1; one run, no mask, seed {first}", size=7)
    return figure
