"""Figures of the study of imbalance, drawn from its tables alone."""

import functools
from collections.abc import Mapping

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.artist import setp
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from rarefeat.config.study import Study
from rarefeat.core.arms import ARMS
from rarefeat.core.thresholds import HALF_LEARNED
from rarefeat.figures.labels import (
    EPS,
    INTERVALS,
    STEP,
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
    finish_figure,
    paired_differences,
    panels,
    plot_lines,
    plot_points,
    set_x_margins,
    set_y_range,
)
from rarefeat.figures.style import (
    COLUMN,
    GREY,
    STYLES,
    SeriesStyle,
    assign_styles,
    sequential_styles,
)
from rarefeat.run.job import Job

Tables = Mapping[str, pd.DataFrame]
FOUR = ("aligned_neurons", "max_alignment", "cosine_similarity_balanced", "regression_mse_balanced")
UNTRAINED = tuple(name for name, arm in ARMS.items() if not arm.trained)
BEYOND, END = "^", 1.15
BIASLESS = "dense, without a bias"


def fate(tables: Tables, job: Job) -> Figure:
    """Plot the fate of the rare feature at one noise level.

    Every dense replica with and without a bias, and the share of replicas that learn it, by arm.
    """
    grid, without_bias = (table[~table["arm"].isin(UNTRAINED)] for table in tables.values())
    level = max(set(grid["nsr"]) & set(without_bias["nsr"]))
    biasless = without_bias[without_bias["arm"] == "dense"].assign(series=BIASLESS)
    table = pd.concat([add_series_column(grid), biasless], ignore_index=True)
    table = table[table["nsr"] == level]
    table["learned"] = (table["max_alignment"] >= HALF_LEARNED).astype(float)
    shown = assign_styles(["dense", *sorted(set(table["series"]) - {"dense", BIASLESS}), BIASLESS])
    shown[BIASLESS] = SeriesStyle(STYLES[4].colour, "v", (0, (6, 1.5)), filled=False)
    figure, axes = panels(1, 2, 3.1, sharey=True)
    (left, right), metric = axes[0], quantity("max_alignment")
    for side, series in ((-1, "dense"), (1, BIASLESS)):
        replicas = table[table["series"] == series]
        # Each replica has its own place, in the order of the seeds.
        rank = replicas.groupby("eps_min")["seed"].rank(pct=True)
        width = float(np.diff(np.sort(replicas["eps_min"].unique())).min(initial=1.0))
        left.plot(
            replicas["eps_min"] + 0.4 * width * side * rank, replicas["max_alignment"],
            shown[series].marker, ls="none", color=shown[series].colour,
            ms=2, mew=0, alpha=0.6, rasterized=True,
        )  # fmt: skip
    left.axhline(HALF_LEARNED, color=GREY, lw=0.7, zorder=0.5)
    plot_lines(right, table, "eps_min", "learned", shown, estimator="share")
    set_y_range(left, metric)
    for ax in axes[0]:
        set_x_margins(ax, table["eps_min"])
        ax.set_xlabel(f"{EPS}\nrare $\\leftarrow$   $\\rightarrow$ as frequent as the others")
    left.set(
        ylabel="best neuron's alignment with\nthe rare feature, " + metric.symbol,
        title="every replica, dense",
    )
    right.set(
        ylabel=f"share of replicas with\nan alignment of at least {HALF_LEARNED:g}",
        title="replicas that reach it",
    )
    right.tick_params(labelleft=True)
    counts = {series: replicas["seed"].nunique() for series, replicas in table.groupby("series")}
    common = len(set(counts.values())) == 1
    entries = {
        arm_label(series) + ("" if common else f", {n_of(counts[series])}"): look
        for series, look in shown.items()
    }
    note = [
        "share and exact 95 % interval",
        *([n_of(*counts.values())] if common else []),
        nsr_of(table),
    ]
    return finish_figure(figure, axes[0], entries, ", ".join(note))


def levels_of(grid: pd.DataFrame) -> dict[float, SeriesStyle]:
    """Return a style for each noise-to-signal ratio."""
    return sequential_styles(sorted(grid["nsr"].unique()))


def level_names(grid: pd.DataFrame, levels: dict[float, SeriesStyle]) -> dict[str, object]:
    """Return the entries of a legend for noise levels: sigma, as in the config, and the NSR."""
    return {nsr_of(grid[grid["nsr"] == level]): look for level, look in levels.items()}


def compared(grid: pd.DataFrame) -> tuple[pd.DataFrame, list[str]]:
    """Return the grid with its series, and the series other than dense, of any arm."""
    grid = add_series_column(grid)
    return grid, sorted(set(grid.loc[~grid["arm"].isin(["dense", *UNTRAINED]), "series"]))


def gains(
    ax: Axes, grid: pd.DataFrame, series: str, metric: str, levels: dict[float, SeriesStyle]
) -> None:
    """Plot the gain of a series over dense at the same seed, by noise.

    Parameters
    ----------
    ax : Axes
        Panel.
    grid : DataFrame
        Grid table with a column `series`.
    series, metric : str
        Series that is compared with dense, and column of the table.
    levels : dict
        Style of each noise-to-signal ratio.
    """
    draw_zero_line(ax)
    added = paired_differences(grid, metric, series, axes=("nsr", "eps_min"))
    plot_points(
        ax,
        added,
        "eps_min",
        metric,
        levels,
        series_column="nsr",
        bounds=quantity(metric).difference,
    )
    ax.set_ylabel(f"{arm_label(series)} \N{MINUS SIGN} dense,\nsame seed")


def alignment(tables: Tables, job: Job, metric: str) -> Figure:
    """Plot Figures 1 and 2: dense above, and the gain of each other arm below.

    Parameters
    ----------
    tables : mapping
        The grid table.
    job : Job
        Job of the figure; unused.
    metric : str
        Column of the table.
    """
    (grid,) = tables.values()
    grid, others = compared(grid)
    levels, plotted = levels_of(grid), quantity(metric)
    heights = [1.4, *(1 for _ in others)]
    figure, axes = panels(
        len(heights), 1, 4.0 * sum(heights) / 2.4, COLUMN, sharex=True, height_ratios=heights
    )
    upper, *lower = axes[:, 0]
    plot_lines(
        upper,
        grid[grid["arm"] == "dense"],
        "eps_min",
        metric,
        levels,
        series_column="nsr",
        bounds=plotted.range,
    )
    for ax, series in zip(lower, others, strict=True):
        gains(ax, grid, series, metric, levels)
    set_y_range(upper, plotted)
    set_x_margins(upper, grid["eps_min"])
    upper.set_ylabel((plotted.short or plotted.symbol) + ",\ndense")
    axes[-1, 0].set_xlabel(EPS)
    figure.align_ylabels()
    return finish_figure(
        figure, axes[:, 0], level_names(grid, levels), f"{INTERVALS}, {seeds_of(grid)}"
    )


def baselines(tables: Tables, job: Job) -> Figure:
    """Plot Figures 1 and 2 at one noise level for the arms of the grid and for balanced training.

    The first table is the grid's. Those of baselines follow by the name STUDY_grid: dense trainings
    on other data.
    """
    (_, grid), *others = tables.items()
    balanced = [table.assign(arm=name.removesuffix("_grid")) for name, table in others]
    shared = set.intersection(*(set(table["nsr"]) for table in (grid, *balanced)))
    trained = grid[~grid["arm"].isin(UNTRAINED)]
    table = add_series_column(pd.concat([trained, *balanced], ignore_index=True))
    table = table[table["nsr"] == max(shared)]
    shown = assign_styles(dict.fromkeys(table["series"]))
    figure, axes = panels(1, 2, 2.4)
    for ax, metric in zip(axes[0], ("aligned_neurons", "max_alignment"), strict=True):
        plotted = quantity(metric)
        plot_lines(ax, table, "eps_min", metric, shown, bounds=plotted.range)
        ax.set(xlabel=EPS, ylabel=plotted.short or plotted.symbol)
        set_y_range(ax, plotted)
        set_x_margins(ax, table["eps_min"])
    counts = table.groupby("series")["seed"].nunique()
    entries = {f"{arm_label(name)}, {n_of(counts[name])}": look for name, look in shown.items()}
    return finish_figure(figure, axes.flat, entries, f"{INTERVALS}, {nsr_of(table)}", columns=2)


def quality(tables: Tables, job: Job, metric: str) -> Figure:
    """Plot Figures 3 and 4: dense, then beside its references, and the gain of each other arm.

    Dense has an axis of its own; below, it stands beside the encoder at initialisation and the
    ideal one.

    Parameters
    ----------
    tables : mapping
        The grid table alone.
    job : Job
        Job of the figure; unused.
    metric : str
        Column of the table, without its suffix for the test set.
    """
    grid, others = compared(*tables.values())
    levels, plotted = levels_of(grid), quantity(metric)
    untrained = [arm for arm in UNTRAINED if arm in set(grid["arm"])]
    heights = [1.4, 1, *(1 for _ in others)]
    figure, axes = panels(
        len(heights), 2, 4.0 * sum(heights) / 2.4, sharex=True, sharey="row", height_ratios=heights
    )
    for (upper, beside, *lower), test in zip(axes.T, ("balanced", "matched"), strict=True):
        column = f"{metric}_{test}"
        for arm in untrained:
            plain = {
                level: SeriesStyle(look.colour, dash=assign_styles([arm])[arm].dash)
                for level, look in levels.items()
            }
            plot_lines(
                beside,
                grid[grid["arm"] == arm],
                "eps_min",
                column,
                plain,
                series_column="nsr",
                bounds=plotted.range,
                band=True,
            )
        for ax in (upper, beside):
            plot_lines(
                ax,
                grid[grid["arm"] == "dense"],
                "eps_min",
                column,
                levels,
                series_column="nsr",
                bounds=plotted.range,
            )
        for ax, series in zip(lower, others, strict=True):
            gains(ax, grid, series, column, levels)
        upper.set_title(test_set_name(column))
    setp(axes[1:, 1], ylabel="")
    setp(axes[-1], xlabel=EPS)
    set_x_margins(axes[0, 0], grid["eps_min"])
    axes[0, 0].set_ylabel(plotted.symbol + ",\ndense")
    axes[1, 0].set_ylabel("the same, beside\nits references")
    figure.align_ylabels()
    shown = {
        arm_label(arm): SeriesStyle("black", dash=assign_styles([arm])[arm].dash)
        for arm in untrained
    }
    dense = {"dense": SeriesStyle("black")}
    return finish_figure(
        figure,
        axes.flat,
        level_names(grid, levels) | dense | shown,
        f"{INTERVALS}, {seeds_of(grid)}",
    )


def four(table: pd.DataFrame, shown: dict[str, SeriesStyle], axes: np.ndarray, label: str) -> None:
    """Plot estimated differences over eps_min, a panel for each of the four metrics.

    Parameters
    ----------
    table : DataFrame
        Rows with `metric`, `eps_min`, `series`, an estimate and its interval.
    shown : dict
        Style of each series.
    axes : ndarray of Axes of shape (2, 2)
        Panels.
    label : str
        Beginning of the label of each y axis.
    """
    for ax, metric in zip(axes.flat, FOUR, strict=True):
        plotted = quantity(metric)
        draw_zero_line(ax)
        plot_points(
            ax,
            table[table["metric"] == metric],
            "eps_min",
            "value",
            shown,
            bounds=plotted.difference,
        )
        set_x_margins(ax, table["eps_min"])
        ax.set_ylabel(label + (plotted.short or plotted.symbol))
    setp(axes[-1], xlabel=EPS)
    for ax in axes[0]:
        ax.tick_params(labelbottom=False)


def arms(tables: Tables, job: Job) -> Figure:
    """Plot the paired difference to dense of each way of pruning at one noise level.

    Pruning by weight comes from the study under the direct simulator, which alone can have it, with
    that study's seeds.
    """
    paper, direct = (
        add_series_column(table[table["metric"].isin(FOUR)]) for table in tables.values()
    )
    table = pd.concat(
        [paper[~paper["arm"].isin(("dense", *UNTRAINED))], direct[direct["arm"] == "pruned_weight"]]
    )
    columns = {"paired_difference": "mean", "paired_ci_low": "ci_low", "paired_ci_high": "ci_high"}
    table = table.drop(columns=[*columns.values()], errors="ignore").rename(columns=columns)
    shown = assign_styles(dict.fromkeys(table["series"]))
    figure, axes = panels(2, 2, 4.0)
    four(table, shown, axes, "change of ")
    figure.align_ylabels()
    counts = {name: n_of(*rows["n"]) for name, rows in table.groupby("series")}
    entries = {
        f"{arm_label(name)}, {counts[name]}": look.without_line for name, look in shown.items()
    }
    return finish_figure(
        figure, axes.flat, entries, f"difference to dense at the same seed, {INTERVALS}"
    )


def cross_check(tables: Tables, job: Job) -> Figure:
    """Plot the differences of the two simulators, and all p-values against uniform ones."""
    (tests,) = tables.values()
    # At the noise level with most points; the p-values are those of every level.
    sigma = tests.groupby("sigma")["eps_min"].nunique().idxmax()
    at_sigma = add_series_column(tests[(tests["sigma"] == sigma) & ~tests["arm"].isin(UNTRAINED)])
    shown = assign_styles(sorted(set(at_sigma["series"])))
    figure, axes = panels(2, 3, 4.0)
    four(
        at_sigma.rename(columns={"difference": "mean"}),
        shown,
        axes[:, :2],
        "reduced \N{MINUS SIGN} direct:\n",
    )
    axes[0, 2].remove()
    ax = axes[1, 2]
    ax.remove()
    ax = figure.add_subplot(axes[0, 2].get_gridspec()[:, 2])
    p_values = np.sort(tests["p_value"])
    ax.plot([0, 1], [0, 1], color="0.5", lw=0.8, ls="--")
    ax.step(
        [0, *p_values, 1],
        [*np.arange(len(p_values) + 1) / len(p_values), 1],
        where="post",
        color="black",
    )
    ax.set(ylabel="share of tests below", xlim=(0, 1), ylim=(0, 1), box_aspect=1)
    ax.set_xlabel(
        f"p-value (Mann-Whitney),\n{len(tests)} tests, {(~tests['agrees']).sum()} rejected after"
        " Holm"
    )
    counts = (
        rf"{n_of(*tests['n_reduced'].unique())} reduced, {n_of(*tests['n_direct'].unique())} direct"
    )
    entries = {arm_label(name): look.without_line for name, look in shown.items()}
    entries |= {
        "distribution of the p-values": SeriesStyle("black"),
        "uniform": SeriesStyle("0.5", dash="--"),
    }
    return finish_figure(
        figure,
        (*axes[:, :2].flat, ax),
        entries,
        f"difference of the means and its 95 % interval, {counts}",
    )


def neighbour_regime(tables: Tables, job: Job) -> Figure:
    """Plot the paper's grid beside its neighbouring regime, and without a bias."""
    names = ("paper's grid", "neighbouring regime", "without a bias")
    table = pd.concat(
        table.assign(regime=name) for name, table in zip(names, tables.values(), strict=True)
    )
    table = table[table["arm"].isin(("dense", "pruned_neuron"))]
    table["series"] = table["regime"] + ", " + table["arm"].map(arm_label)
    shown = {}
    for (name, arm, series), rows in table.groupby(["regime", "arm", "series"], sort=False):
        look = dict(zip(names, (STYLES[0], STYLES[1], STYLES[4]), strict=True))[name]
        dense = arm == "dense"
        shown[series] = (
            look.replace(filled=dense, dash="-" if dense else (0, (2, 1.5))),
            n_of(rows["seed"].nunique()),
        )
    figure, axes = panels(2, 2, 4.2, sharex=True)
    for ax, metric in zip(axes.flat, FOUR, strict=True):
        plotted = quantity(metric)
        plot_lines(
            ax,
            table,
            "eps_min",
            metric,
            {series: look for series, (look, _) in shown.items()},
            bounds=plotted.range,
        )
        ax.set_ylabel(plotted.short or plotted.symbol)
        set_y_range(ax, plotted)
    set_x_margins(axes[0, 0], table["eps_min"])
    setp(axes[-1], xlabel=EPS)
    figure.align_ylabels()
    entries = {f"{series}, {n}": look for series, (look, n) in shown.items()}
    return finish_figure(figure, axes.flat, entries, f"{INTERVALS}, {nsr_of(table)}", columns=2)


def printed_bias(tables: Tables, job: Job) -> Figure:
    """Plot what Figures 1 to 4 show under the bias of the grid and under the printed one."""
    studies = job.config_section("studies", dict[str, Study])
    rows = []
    for name, table in tables.items():
        bias = studies[name.removesuffix("_grid")].training.bias
        rows.append(table.assign(series=f"share {bias.share:g}, {bias.rule}"))
    table = pd.concat(rows)
    shared = set.intersection(*(set(one["nsr"]) for one in tables.values()))
    table = table[(table["arm"] == "dense") & (table["nsr"] == max(shared))]
    shown = assign_styles(dict.fromkeys(table["series"]))
    figure, axes = panels(2, 2, 4.2, sharex=True)
    for ax, metric in zip(axes.flat, FOUR, strict=True):
        plotted = quantity(metric)
        plot_lines(ax, table, "eps_min", metric, shown, bounds=plotted.range)
        ax.set_ylabel(plotted.short or plotted.symbol)
        set_y_range(ax, plotted)
    set_x_margins(axes[0, 0], table["eps_min"])
    setp(axes[-1], xlabel=EPS)
    figure.align_ylabels()
    note = f"{INTERVALS}, {seeds_of(table)}, {nsr_of(table)}"
    return finish_figure(figure, axes.flat, shown, note)


def trajectories(tables: Tables, job: Job) -> Figure:
    """Plot alignments and the excess loss over training, at up to four eps_min.

    Dense and `oracle_all`. Where every aligned neuron is masked, the loss of the network
    without the mask grows without bound, in some replicas or in most: the figure shows medians,
    and an arrow where they are beyond the range of dense training.
    """
    (table,) = tables.values()
    levels = sorted(table["eps_min"].unique())
    chosen = sorted(
        {levels[index] for index in np.linspace(0, len(levels) - 1, 4).round().astype(int)}
    )
    table = table[
        table["eps_min"].isin(chosen)
        & table["arm"].isin(["dense", "oracle_all"])
        & (table["step"] > 0)
    ]
    keys = ["eps_min", "arm", "seed", "step"]
    wide = table.pivot_table(index=keys, columns="metric", values="value").reset_index()
    wide["excess_loss"] = wide["loss"] - wide["loss_floor"]
    shown = {
        "max_alignment": "the rare feature",
        "majority_alignment": "the others, mean",
        "excess_loss": "training",
    }
    colours = sequential_styles(chosen)
    figure, axes = panels(1, 3, 2.6)
    beyond = 0.0
    for ax, (metric, title) in zip(axes[0], shown.items(), strict=True):
        plotted = quantity(metric)
        for arm in ("dense", "oracle_all"):
            # Marks of their own on each line, where the others have none.
            styles = {
                eps_min: look.replace(dash=assign_styles([arm])[arm].dash)
                for eps_min, look in colours.items()
            }
            options = {
                "series_column": "eps_min",
                "bounds": plotted.range,
                "estimator": "median",
                "band": True,
                "mark_every": 4,
            }
            plot_lines(ax, wide[wide["arm"] == arm], "step", metric, styles, **options)
            if arm == "dense":
                bottom, top = ax.get_ylim()[0], END * ax.dataLim.y1
        medians = (
            wide.groupby(["eps_min", "step", "arm"])[metric].median().xs("oracle_all", level="arm")
        )
        beyond = max(beyond, medians[medians > top].max() if (medians > top).any() else 0.0)
        for eps_min, look in colours.items():
            # One below the other, so that none hides another.
            place = top * (1 - 0.03 * chosen.index(eps_min))
            above = (
                medians[eps_min][lambda values, top=top: values > top]
                if eps_min in medians
                else medians[:0]
            )
            ax.plot(
                above.index,
                [place] * len(above),
                ls="none",
                marker=BEYOND,
                color=look.colour,
                mfc="white",
            )
        ax.set_ylim(bottom, top)
        set_y_range(ax, plotted)
        ax.set(xscale="log", xlabel=STEP, ylabel=plotted.short or plotted.symbol, title=title)
    entries = {
        rf"$\varepsilon_{{\min}}/\varepsilon_{{\max}}$ = {eps_min:g}": look
        for eps_min, look in colours.items()
    }
    entries |= {
        arm_label(arm): SeriesStyle("black", dash=look.dash)
        for arm, look in assign_styles(["dense", "oracle_all"]).items()
    }
    if beyond:
        digit, exponent = f"{beyond:.0e}".split("e")
        above = rf"beyond the axis, up to ${digit} \times 10^{{{int(exponent)}}}$"
        entries |= {above: SeriesStyle("black", BEYOND, filled=False).without_line}
    return finish_figure(
        figure, axes[0], entries, f"median and its 95 % interval, {seeds_of(wide)}", columns=4
    )


def alignment_heatmap(tables: Tables, job: Job) -> Figure:
    """Plot Figure 1 of liao_imbalanced_features.

    The neurons of one dense replica, and the best neuron of each feature in all replicas.
    """
    (table,) = tables.values()
    first = table["seed"].min()
    one = table[(table["arm"] == "dense") & (table["seed"] == first)]
    matrix = one.pivot(index="neuron", columns="feature", values="squared_cosine")
    best = matrix.idxmax(axis=1)
    matrix = matrix.loc[
        pd.DataFrame({"best": best, "value": -matrix.max(axis=1)})
        .sort_values(["best", "value"])
        .index
    ]
    majority = int((~one.drop_duplicates("feature")["minority"]).sum())
    figure, axes = panels(1, 2, 2.9, width_ratios=[1, 1.5])
    ax = axes[0, 0]
    features = matrix.shape[1]
    mesh = ax.pcolormesh(
        np.arange(features + 1) + 0.5, np.arange(len(matrix) + 1) + 0.5, matrix, vmin=0, vmax=1
    )
    ax.axvline(majority + 0.5, color="white", lw=1.5)
    ax.set(xlabel="feature $j$, rare right of the line", ylabel="neurons $i$, sorted")
    ax.set(xticks=range(1, features + 1), yticks=[])
    ax.set_title(f"dense, seed {first}")
    figure.colorbar(mesh, ax=ax, label=r"$\cos^2(w_i, M_j)$", aspect=30)
    largest = table.groupby(["arm", "seed", "feature"], as_index=False)["squared_cosine"].max()
    largest["feature"] += 1
    ax, plotted = axes[0, 1], quantity("squared_cosine")
    names = assign_styles(sorted(set(largest["arm"]), key=lambda arm: (arm != "dense", arm)))
    hues = {
        "hue": "arm",
        "hue_order": list(names),
        "palette": {arm: look.colour for arm, look in names.items()},
    }
    small = {
        "jitter": False,
        "dodge": True,
        "native_scale": True,
        "size": 2,
        "alpha": 0.3,
        "rasterized": True,
    }
    sns.stripplot(largest, x="feature", y="squared_cosine", ax=ax, legend=False, **hues, **small)
    plot_points(
        ax,
        largest,
        "feature",
        "squared_cosine",
        names,
        series_column="arm",
        bounds=plotted.range,
        dodge=0.4,
    )
    ax.axvline(majority + 0.5, color="0.5", lw=0.7)
    set_y_range(ax, plotted)
    ax.set(
        xlabel="feature $j$, rare right of the line",
        ylabel=plotted.symbol,
        xticks=range(1, features + 1),
    )
    entries = {arm_label(arm): look.without_line for arm, look in names.items()}
    return finish_figure(
        figure, axes[0], entries, f"every seed small; {INTERVALS}, {seeds_of(table)}"
    )


# Figures of imbalance_and_pruning.
figure1_aligned_neurons = functools.partial(alignment, metric="aligned_neurons")
figure2_max_alignment = functools.partial(alignment, metric="max_alignment")
figure3_cosine_similarity = functools.partial(quality, metric="cosine_similarity")
figure4_regression_mse = functools.partial(quality, metric="regression_mse")
