"""Figures of the study of imbalance, drawn from its tables alone."""

import functools
from collections.abc import Mapping

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.artist import setp
from matplotlib.axes import Axes
from matplotlib.figure import Figure

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
    FREQUENT,
    GREY,
    RARE,
    STYLES,
    SeriesStyle,
    assign_styles,
    sequential_styles,
)
from rarefeat.model.arms import ARMS
from rarefeat.model.thresholds import HALF_LEARNED
from rarefeat.studies.imbalance.doc_tables import bias_levels
from rarefeat.workflow.config.study import Study
from rarefeat.workflow.run.job import Job

Tables = Mapping[str, pd.DataFrame]
UNTRAINED = tuple(name for name, arm in ARMS.items() if not arm.trained)
BEYOND, END = "^", 1.15
FIGURES_1_TO_4 = (
    "aligned_neurons",
    "max_alignment",
    "cosine_similarity_balanced",
    "regression_mse_balanced",
)
BIASLESS = "dense, without a bias"
ENDS = {"at_lowest": SeriesStyle(RARE, "o"), "at_highest": SeriesStyle(FREQUENT, "s")}
END_NAMES = {"at_lowest": "at the lowest frequency", "at_highest": "at the highest"}


def fate(tables: Tables, job: Job) -> Figure:
    """Plot the fate of the rare feature at one noise level: dense replicas with and without a bias,
    and the share that learns it, by arm.
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
    figure.suptitle("Runs that learn the rare feature, with and without a bias")
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
        ax.set_xlabel(EPS)
    left.set(ylabel=metric.symbol, title="every run, dense")
    right.set(
        ylabel=f"share of runs with\na cosine of at least {HALF_LEARNED:g}",
        title="runs that learn it",
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
    """Return the entries of a legend for noise levels: sigma, as in the config."""
    sigmas = grid.drop_duplicates("nsr").set_index("nsr")["sigma"]
    return {rf"noise $\sigma$ = {sigmas[level]:.3g}": look for level, look in levels.items()}


def compared(grid: pd.DataFrame) -> tuple[pd.DataFrame, list[str]]:
    """Return the grid with its series, and the series other than dense, of any arm."""
    grid = add_series_column(grid)
    return grid, sorted(set(grid.loc[~grid["arm"].isin(["dense", *UNTRAINED]), "series"]))


def gains(
    ax: Axes, grid: pd.DataFrame, series: str, metric: str, levels: dict[float, SeriesStyle]
) -> None:
    """Plot the gain of a series over dense at the same seed, by noise."""
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
    ax.set_ylabel(f"{arm_label(series)}\n\N{MINUS SIGN} dense")


def alignment(tables: Tables, job: Job, metric: str) -> Figure:
    """Plot Figures 1 and 2: dense above, and the gain of each other arm below."""
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
    upper.set_ylabel(plotted.short or plotted.symbol)
    axes[-1, 0].set_xlabel(EPS)
    figure.align_ylabels()
    figure.suptitle(f"The {NOUNS[metric]} against frequency")
    return finish_figure(
        figure, axes[:, 0], level_names(grid, levels), f"{INTERVALS}, {seeds_of(grid)}"
    )


NOUNS = {
    "aligned_neurons": "number of aligned neurons",
    "max_alignment": "largest cosine",
    "cosine_similarity": "similarity of pairs",
    "regression_mse": "error of a linear head",
}
"""Names of metrics in titles."""


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
    figure.suptitle("The rare feature under balanced training and under masks")
    counts = table.groupby("series")["seed"].nunique()
    entries = {f"{arm_label(name)}, {n_of(counts[name])}": look for name, look in shown.items()}
    return finish_figure(figure, axes.flat, entries, f"{INTERVALS}, {nsr_of(table)}", columns=2)


def quality(tables: Tables, job: Job, metric: str) -> Figure:
    """Plot Figures 3 and 4: dense, then beside its references, and the gain of each other arm.

    Dense has an axis of its own; below, it stands beside the encoder at initialisation and the
    ideal one.
    """
    grid, others = compared(*tables.values())
    levels, plotted = levels_of(grid), quantity(metric)
    untrained = [arm for arm in UNTRAINED if arm in set(grid["arm"])]
    heights = [1.4, 1, *(1 for _ in others)]
    figure, axes = panels(
        len(heights), 2, 1.5 + 1.1 * sum(heights), sharex=True, sharey="row", height_ratios=heights
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
    axes[0, 0].set_ylabel(f"{plotted.symbol},\nafter training")
    axes[1, 0].set_ylabel("with both\nreferences")
    figure.align_ylabels()
    figure.suptitle(f"The {NOUNS[metric]} against frequency")
    shown = {
        arm_label(arm): SeriesStyle("black", dash=assign_styles([arm])[arm].dash)
        for arm in untrained
    }
    dense = {"after training": SeriesStyle("black")}
    return finish_figure(
        figure,
        axes.flat,
        level_names(grid, levels) | dense | shown,
        f"{INTERVALS}, {seeds_of(grid)}",
    )


def arms(tables: Tables, job: Job) -> Figure:
    """Plot the largest cosine under each mask on the whole scale, and its copies of a neuron.

    Pruning by weight comes from the study under the direct simulator, which alone can have it, with
    that study's seeds.
    """
    paper, direct = (table[table["grid"] == "arms"] for table in tables.values())
    rows = pd.concat(
        [paper[~paper["arm"].isin(UNTRAINED)], direct[direct["arm"] == "pruned_weight"]]
    )
    names = {arm: arm_label(arm) for arm in rows["arm"].unique()}
    names |= {"dense": "without a mask"} if "dense" in names else {}
    places = {arm: -place for place, arm in enumerate(names)}
    height = 0.8 + 0.26 * len(names)
    figure, ((left, right),) = panels(1, 2, height, sharey=True, width_ratios=[3, 1])
    cosines = rows[rows["metric"] == "max_alignment"].set_index("arm")
    for column, look in ENDS.items():
        left.plot(cosines[column], cosines.index.map(places), **look.without_line.line)
        left.text(
            cosines[column].iloc[0],
            0.45,
            END_NAMES[column],
            color=look.colour,
            ha="left" if column == "at_lowest" else "right",
        )
    for arm, row in cosines.dropna(subset="paired_difference").iterrows():
        change = "{paired_difference:+.4f} [{paired_ci_low:+.4f}, {paired_ci_high:+.4f}]"
        left.text(0.5, places[arm], change.format(**row), ha="center", va="center", fontsize=7)
    copies = rows[rows["metric"] == "aligned_neurons"].set_index("arm")
    right.plot(
        copies["at_highest"], copies.index.map(places), **ENDS["at_highest"].without_line.line
    )
    left.set(
        xlim=(-0.04, 1.04),
        ylim=(min(places.values()) - 0.5, 0.9),
        xlabel="largest cosine with the rare feature; as numbers what the\nmask changes, mean over"
        f" all frequencies, {n_of(*cosines['n'])}",
        title="The largest cosine with the rare feature, with and without a mask",
    )
    left.set_yticks(list(places.values()), list(names.values()))
    right.set(xlim=(0, None), xlabel="neurons aligned with it,\nhighest frequency", title="copies")
    right.margins(x=0.1)
    return figure


def printed_bias(tables: Tables, job: Job) -> Figure:
    """Plot Figures 1 to 4 of dense under the bias of the grid and under the printed one."""
    studies = job.config_section("studies", dict[str, Study])
    table = bias_levels(*tables.values()) if len(tables) > 1 else next(iter(tables.values()))
    largest = max(study.training.bias.share for study in studies.values())
    names = {}
    for name in dict.fromkeys(table["study"]):
        bias = studies[name].training.bias
        words = {"follow": "with the norm", "grow": "growing"}.get(bias.rule, bias.rule)
        times = "" if bias.share == largest else f"{bias.share / largest:g} times the "
        names[name] = f"{times}printed bias, {words}"
    styles = {
        series: STYLES[place] for series, place in zip(names.values(), (0, 4, 5), strict=False)
    }
    table = table.assign(series=table["study"].map(names))
    figure, axes = panels(2, 2, 5.2)
    for ax, metric in zip(axes.flat, FIGURES_1_TO_4, strict=True):
        plotted, rows = quantity(metric), table[table["metric"] == metric]
        plot_lines(ax, rows, "eps_min", "value", styles, bounds=plotted.range)
        ax.set(xlabel=EPS, ylabel=plotted.short or plotted.symbol)
        set_y_range(ax, plotted)
        set_x_margins(ax, rows["eps_min"])
    figure.suptitle(
        "The rare feature under the bias of the grid and the printed one", fontsize="medium"
    )
    note = f"{INTERVALS}, {n_of(*table['n'])}"
    return finish_figure(figure, axes.flat, styles, note)


def trajectories(tables: Tables, job: Job) -> Figure:
    """Plot alignments and the excess loss over training at up to four eps_min, of dense and
    `oracle_all`.

    Where every aligned neuron is masked, the loss of the network without the mask grows without
    bound, in some replicas or in most: the figure shows medians, and an arrow where they are beyond
    the range of dense training.
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
        ylabel = "largest cosine" if metric != "excess_loss" else plotted.symbol
        ax.set(xscale="log", xlabel=STEP, ylabel=ylabel, title=title)
    figure.suptitle("Rare and frequent features over training")
    entries = {f"relative frequency {eps_min:g}": look for eps_min, look in colours.items()}
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
    """Plot Figure 1 of liao_imbalanced_features: the neurons of one dense replica, and the best
    neuron of each feature in all of them.
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
    ax.set(xlabel="feature, rare right of the line", ylabel="neurons, sorted")
    ax.set(xticks=range(1, features + 1), yticks=[])
    ax.set_title(f"neurons of one dense run, seed {first}")
    figure.colorbar(mesh, ax=ax, label="squared cosine", aspect=30)
    keys = ["arm", "seed", "feature", "minority"]
    largest = table.groupby(keys, as_index=False)["squared_cosine"].max()
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
        xlabel="feature, rare right of the line",
        ylabel=plotted.symbol,
        xticks=range(1, features + 1),
        title="best neuron of each feature, every run",
    )
    figure.suptitle("Neurons of frequent and of rare features")
    entries = {arm_label(arm): look.without_line for arm, look in names.items()}
    return finish_figure(
        figure, axes[0], entries, f"every seed small; {INTERVALS}, {seeds_of(table)}"
    )


# Figures of imbalance_and_pruning.
figure1_aligned_neurons = functools.partial(alignment, metric="aligned_neurons")
figure2_max_alignment = functools.partial(alignment, metric="max_alignment")
figure3_cosine_similarity = functools.partial(quality, metric="cosine_similarity")
figure4_regression_mse = functools.partial(quality, metric="regression_mse")
