"""The figures of the study of imbalance, from their tables alone."""

from collections.abc import Mapping

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from rarefeat.figures.labels import EPS, INTERVALS, STEP, n_of, name_of, nsr_of, quantity, seeds_of, test_set, with_series
from rarefeat.figures.panels import (
    band,
    beside,
    estimates,
    handle,
    key,
    letter,
    marks,
    median,
    paired,
    panels,
    room,
    step_of,
    within,
    zero,
)  # fmt: skip
from rarefeat.figures.style import COLUMN, LOOKS, PAGE, Look, looks, ordered
from rarefeat.run.job import Job

Tables = Mapping[str, pd.DataFrame]
FOUR = ("aligned_neurons", "max_alignment", "cosine_similarity_balanced", "regression_mse_balanced")
UNTRAINED = ("initial", "ideal")
BEYOND, END = "^", 1.15
BIASLESS = "dense, without a bias"
PAIRED = "pruned by neuron \N{MINUS SIGN} dense,\nsame seed"


def of_arms(table: pd.DataFrame, arms: tuple[str, ...]) -> pd.DataFrame:
    """The rows of these arms."""
    return table[table["arm"].isin(arms)]


def differences(table: pd.DataFrame, series: str, metric: str) -> pd.DataFrame:
    """Estimates by eps_min of what a series adds to dense, seed by seed."""
    return estimates(paired(table, metric, series), "eps_min", metric, quantity(metric).difference)


def fate(tables: Tables, job: Job) -> Figure:
    """What becomes of the rare feature at one noise level, by arm and without a bias: every trained arm of the tables."""
    grid, without_bias = (table[~table["arm"].isin(UNTRAINED)] for table in tables.values())
    level = max(set(grid["nsr"]) & set(without_bias["nsr"]))
    grid, without_bias = (
        grid[grid["nsr"] == level],
        without_bias[(without_bias["nsr"] == level) & (without_bias["arm"] == "dense")],
    )
    table = pd.concat([with_series(grid), without_bias.assign(series=BIASLESS)], ignore_index=True)
    shown = looks([*sorted(set(with_series(grid)["series"]) - {"dense"}), BIASLESS, "dense"])
    shown[BIASLESS] = Look(LOOKS[4].colour, "v", (0, (6, 1.5)), filled=False)
    figure, axes = panels(1, 1, 3.0, PAGE)
    ax, metric = axes[0, 0], quantity("max_alignment")
    width = 0.3 * step_of(table["eps_min"])
    for index, (series, look) in enumerate(shown.items()):
        rows = estimates(table[table["series"] == series], "eps_min", "max_alignment", metric.range)
        marks(ax, beside(rows.index, index, len(shown), width), rows, look)
    room(ax, table["eps_min"])
    within(ax, metric)
    ax.set(
        xlabel=f"rare  $\\leftarrow$   {EPS}   $\\rightarrow$  as frequent as the others",
        ylabel="best neuron's alignment with\nthe rare feature, " + metric.symbol,
    )
    counts = {series: part["seed"].nunique() for series, part in table.groupby("series")}
    common = len(set(counts.values())) == 1
    entries = {
        name_of(series) + ("" if common else f", {n_of(counts[series])}"): handle(shown[series])
        for series in sorted(shown, key=lambda name: (name != "dense", name == BIASLESS, name))
    }
    note = [INTERVALS, *([n_of(*counts.values())] if common else []), nsr_of(table)]
    key(figure, entries, ", ".join(note))
    return figure


def levels_of(grid: pd.DataFrame) -> dict[float, Look]:
    """A look for each noise-to-signal ratio."""
    return ordered(sorted(grid["nsr"].unique()))


def level_names(levels: dict[float, Look]) -> dict[str, object]:
    """Entries of a key for them."""
    return {rf"$\sigma^2 d_1$ = {level:.3g}": handle(look) for level, look in levels.items()}


def gains(ax: Axes, grid: pd.DataFrame, metric: str, levels: dict[float, Look], width: float) -> None:
    """What pruning by neuron adds to dense, by noise."""
    zero(ax)
    for index, (level, look) in enumerate(levels.items()):
        rows = differences(grid[grid["nsr"] == level], "pruned_neuron", metric)
        marks(ax, beside(rows.index, index, len(levels), width), rows, look, line=False)


def alignment(grid: pd.DataFrame, metric: str) -> Figure:
    """Figures 1 and 2: dense above, and below what pruning by neuron adds to it at the same seed."""
    grid = grid.assign(series=grid["arm"])
    levels, what = levels_of(grid), quantity(metric)
    width = 0.5 * step_of(grid["eps_min"])
    figure, (upper, lower) = panels(2, 1, 4.0, COLUMN, sharex=True, height_ratios=[1.4, 1])
    for index, (level, look) in enumerate(levels.items()):
        rows = estimates(grid[(grid["nsr"] == level) & (grid["arm"] == "dense")], "eps_min", metric, what.range)
        marks(upper[0], beside(rows.index, index, len(levels), width), rows, look)
    gains(lower[0], grid, metric, levels, width)
    within(upper[0], what)
    room(upper[0], grid["eps_min"])
    upper[0].set_ylabel((what.short or what.symbol) + ",\ndense")
    lower[0].set(xlabel=EPS, ylabel=PAIRED)
    letter((upper[0], lower[0]))
    figure.align_ylabels()
    key(figure, level_names(levels), f"{INTERVALS}, {seeds_of(grid)}")
    return figure


def quality(grid: pd.DataFrame, metric: str) -> Figure:
    """Figures 3 and 4: above, dense between the encoder at initialisation and the ideal one; below, what pruning adds."""
    grid = grid.assign(series=grid["arm"])
    levels, what = levels_of(grid), quantity(metric)
    width = 0.5 * step_of(grid["eps_min"])
    figure, axes = panels(2, 2, 4.2, PAGE, sharex=True, sharey="row", height_ratios=[1.4, 1])
    for (upper, lower), test in zip(axes.T, ("balanced", "matched"), strict=True):
        column = f"{metric}_{test}"
        for index, (level, look) in enumerate(levels.items()):
            part = grid[grid["nsr"] == level]
            for arm in UNTRAINED:
                rows = estimates(part[part["arm"] == arm], "eps_min", column, what.range)
                band(upper, rows, Look(look.colour, dash=looks([arm])[arm].dash))
            rows = estimates(part[part["arm"] == "dense"], "eps_min", column, what.range)
            marks(upper, beside(rows.index, index, len(levels), width), rows, look)
        gains(lower, grid, column, levels, width)
        upper.set_title(test_set(column))
        lower.set_xlabel(EPS)
    room(axes[0, 0], grid["eps_min"])
    axes[0, 0].set_ylabel(what.symbol)
    axes[1, 0].set_ylabel(PAIRED)
    letter(axes.flat)
    figure.align_ylabels()
    untrained = {name_of(arm): handle(Look("black", dash=looks([arm])[arm].dash)) for arm in UNTRAINED}
    dense = {"dense": handle(Look("black"))}
    key(figure, level_names(levels) | dense | untrained, f"{INTERVALS}, {seeds_of(grid)}")
    return figure


def arms(tables: Tables, job: Job) -> Figure:
    """What each way of pruning changes at one noise level: the difference to dense, seed by seed.

    Pruning by weight comes from the study under the direct simulator, which alone can have it, with that study's seeds.
    """
    paper, direct = (with_series(table) for table in tables.values())
    weight = direct[(direct["arm"] == "pruned_weight") & direct["metric"].isin(FOUR)]
    paper = paper[~paper["arm"].isin(("dense", *UNTRAINED)) & paper["metric"].isin(FOUR)]
    series = {name: part for table in (paper, weight) for name, part in table.groupby("series")}
    shown = looks(series)
    figure, axes = panels(2, 2, 4.0, PAGE, sharex=True)
    for ax, metric in zip(axes.flat, FOUR, strict=True):
        what = quantity(metric)
        zero(ax)
        for index, (name, part) in enumerate(series.items()):
            rows = part[part["metric"] == metric].set_index("eps_min").sort_index()
            low, high = what.difference
            rows = pd.DataFrame(
                {
                    "mean": rows["paired_difference"],
                    "low": rows["paired_ci_low"].clip(lower=low),
                    "high": rows["paired_ci_high"].clip(upper=high),
                }
            )
            marks(ax, beside(rows.index, index, len(series), 0.5 * step_of(rows.index)), rows, shown[name], line=False)
        ax.set_ylabel("change of " + (what.short or what.symbol))
    every = pd.concat(series.values())
    room(axes[0, 0], every["eps_min"])
    for ax in axes[-1]:
        ax.set_xlabel(EPS)
    letter(axes.flat)
    figure.align_ylabels()
    entries = {
        f"{name_of(name)}, {n_of(int(part['n'].min()), int(part['n'].max()))}": handle(shown[name], line=False)
        for name, part in series.items()
    }
    key(figure, entries, f"difference to dense at the same seed, {INTERVALS}")
    return figure


def cross_check(tables: Tables, job: Job) -> Figure:
    """The two simulators at the same points with other seeds: their difference, and all p-values against uniform ones."""
    (tests,) = tables.values()
    # At the noise level with most points; the p-values are those of every level.
    sigma = tests.groupby("sigma")["eps_min"].nunique().idxmax()
    part = with_series(tests[(tests["sigma"] == sigma) & ~tests["arm"].isin(UNTRAINED)])
    shown = looks(sorted(set(part["series"])))
    figure, axes = panels(2, 3, 4.0, PAGE)
    for ax, metric in zip(axes[:, :2].flat, FOUR, strict=True):
        what = quantity(metric)
        zero(ax)
        for index, (name, look) in enumerate(shown.items()):
            rows = part[(part["metric"] == metric) & (part["series"] == name)].set_index("eps_min").sort_index()
            low, high = what.difference
            rows = pd.DataFrame(
                {"mean": rows["difference"], "low": rows["ci_low"].clip(lower=low), "high": rows["ci_high"].clip(upper=high)}
            )
            marks(ax, beside(rows.index, index, len(shown), 0.5 * step_of(part["eps_min"])), rows, look, line=False)
        room(ax, part["eps_min"])
        ax.set_ylabel("reduced \N{MINUS SIGN} direct:\n" + (what.short or what.symbol))
    for ax in axes[1, :2]:
        ax.set_xlabel(EPS)
    for ax in axes[0, :2]:
        ax.tick_params(labelbottom=False)
    axes[0, 2].remove()
    ax = axes[1, 2]
    ax.remove()
    ax = figure.add_subplot(axes[0, 2].get_gridspec()[:, 2])
    p_values = np.sort(tests["p_value"])
    ax.plot([0, 1], [0, 1], color="0.5", lw=0.8, ls="--")
    ax.step([0, *p_values, 1], [*np.arange(len(p_values) + 1) / len(p_values), 1], where="post", color="black")
    ax.set(ylabel="share of tests below", xlim=(0, 1), ylim=(0, 1), box_aspect=1)
    ax.set_xlabel(f"p-value (Mann-Whitney),\n{len(tests)} tests, {(~tests['agrees']).sum()} rejected after Holm")
    letter((*axes[:, :2].flat, ax))
    counts = rf"{n_of(*tests['n_reduced'].unique())} reduced, {n_of(*tests['n_direct'].unique())} direct"
    entries = {name_of(name): handle(look, line=False) for name, look in shown.items()}
    entries |= {"distribution of the p-values": handle(Look("black")), "uniform": handle(Look("0.5", dash="--"))}
    key(figure, entries, f"difference of the means and its 95 % interval, {counts}")
    return figure


def neighbour_regime(tables: Tables, job: Job) -> Figure:
    """The regime of the paper's grid beside its neighbour, and beside itself without a bias."""
    names = ("paper's grid", "neighbouring regime", "without a bias")
    regimes = {name: of_arms(table, ("dense", "pruned_neuron")) for name, table in zip(names, tables.values(), strict=True)}
    colours = dict(zip(names, (LOOKS[0], LOOKS[1], LOOKS[4]), strict=True))
    series = {(name, arm): part for name, table in regimes.items() for arm, part in table.groupby("arm") if len(part)}
    styles = {
        (name, arm): colours[name].but(filled=arm == "dense", dash="-" if arm == "dense" else (0, (2, 1.5)))
        for name, arm in series
    }
    every = pd.concat(regimes.values())
    figure, axes = panels(2, 2, 4.2, PAGE, sharex=True)
    for ax, metric in zip(axes.flat, FOUR, strict=True):
        what = quantity(metric)
        for index, (name, part) in enumerate(series.items()):
            rows = estimates(part, "eps_min", metric, what.range)
            marks(ax, beside(rows.index, index, len(series), 0.5 * step_of(every["eps_min"])), rows, styles[name])
        ax.set_ylabel(what.short or what.symbol)
        within(ax, what)
    room(axes[0, 0], every["eps_min"])
    for ax in axes[-1]:
        ax.set_xlabel(EPS)
    letter(axes.flat)
    figure.align_ylabels()
    entries = {
        f"{name}, {name_of(arm)}, {n_of(part['seed'].nunique())}": handle(styles[name, arm])
        for (name, arm), part in series.items()
    }
    key(figure, entries, f"{INTERVALS}, {nsr_of(every)}", columns=2)
    return figure


def trajectories(tables: Tables, job: Job) -> Figure:
    """Alignment with minority and majority features and the excess loss over training, at up to four eps_min.

    Dense and `oracle_all`. Where every aligned neuron is masked, the loss of the network without the mask grows without bound,
    in some replicas or in most: medians, and an arrow where they are beyond what dense training spans.
    """
    (table,) = tables.values()
    levels = sorted(table["eps_min"].unique())
    chosen = sorted({levels[index] for index in np.linspace(0, len(levels) - 1, 4).round().astype(int)})
    table = table[table["eps_min"].isin(chosen) & table["arm"].isin(["dense", "oracle_all"]) & (table["step"] > 0)]
    at = ["eps_min", "arm", "seed", "step"]
    wide = table.pivot_table(index=at, columns="metric", values="value").reset_index()
    wide["excess_loss"] = wide["loss"] - wide["loss_floor"]
    shown = {"max_alignment": "the rare feature", "majority_alignment": "the others, mean", "excess_loss": "training"}
    colours = ordered(chosen)
    figure, axes = panels(1, 3, 2.6, PAGE)
    beyond = 0.0
    for ax, (metric, title) in zip(axes[0], shown.items(), strict=True):
        what = quantity(metric)
        found = {
            keys: estimates(part, "step", metric, what.range, of=median) for keys, part in wide.groupby(["eps_min", "arm"])
        }
        top = END * max(rows["high"].fillna(rows["mean"]).max() for (_, arm), rows in found.items() if arm == "dense")
        for (eps_min, arm), rows in found.items():
            look, above = colours[eps_min].but(dash=looks([arm])[arm].dash), rows["mean"] > top
            # Marks of their own on each line, where the others have none.
            band(ax, rows[~above].clip(upper=top), look, every=4)
            if above.any():
                # One below the other, so that none hides another.
                place = top * (1 - 0.03 * chosen.index(eps_min))
                ax.plot(rows.index[above], [place] * above.sum(), ls="none", marker=BEYOND, color=look.colour, mfc="white")
            beyond = max(beyond, rows["mean"][above].max() if above.any() else 0.0)
        within(ax, what)
        ax.set(xscale="log", xlabel=STEP, ylabel=what.short or what.symbol, title=title)
    letter(axes[0])
    entries = {rf"$\varepsilon_{{\min}}/\varepsilon_{{\max}}$ = {eps_min:g}": handle(look) for eps_min, look in colours.items()}
    entries |= {name_of(arm): handle(Look("black", dash=look.dash)) for arm, look in looks(["dense", "oracle_all"]).items()}
    if beyond:
        entries |= {f"beyond the axis, up to {beyond:.1g}": handle(Look("black", BEYOND, filled=False), line=False)}
    key(figure, entries, f"median and its 95 % interval, {seeds_of(wide)}", columns=min(4, len(entries)))
    return figure


def alignment_heatmap(tables: Tables, job: Job) -> Figure:
    """Figure 1 of liao_imbalanced_features: the neurons of one dense replica, and the best neuron of each feature in all."""
    (table,) = tables.values()
    first = table["seed"].min()
    one = table[(table["arm"] == "dense") & (table["seed"] == first)]
    matrix = one.pivot(index="neuron", columns="feature", values="squared_cosine")
    best = matrix.idxmax(axis=1)
    matrix = matrix.loc[pd.DataFrame({"best": best, "value": -matrix.max(axis=1)}).sort_values(["best", "value"]).index]
    majority = int((~one.drop_duplicates("feature")["minority"]).sum())
    figure, axes = panels(1, 2, 2.9, PAGE, width_ratios=[1, 1.5])
    ax = axes[0, 0]
    features = matrix.shape[1]
    mesh = ax.pcolormesh(np.arange(features + 1) + 0.5, np.arange(len(matrix) + 1) + 0.5, matrix, vmin=0, vmax=1)
    ax.axvline(majority + 0.5, color="white", lw=1.5)
    ax.set(xlabel="feature $j$, rare right of the line", ylabel="neurons $i$, sorted")
    ax.set(xticks=range(1, features + 1), yticks=[])
    ax.set_title(f"dense, seed {first}")
    figure.colorbar(mesh, ax=ax, label=r"$\cos^2(w_i, M_j)$", aspect=30)
    largest = table.groupby(["arm", "seed", "feature"], as_index=False)["squared_cosine"].max()
    largest["feature"] += 1
    ax, what = axes[0, 1], quantity("squared_cosine")
    names = [arm for arm in ("dense", "pruned_neuron") if arm in set(largest["arm"])]
    for index, arm in enumerate(names):
        part, look = largest[largest["arm"] == arm], looks([arm])[arm]
        places = beside(part["feature"], index, len(names), 0.5)
        ax.plot(places, part["squared_cosine"], look.marker, color=look.colour, ms=2, alpha=0.3, mew=0)
        rows = estimates(part, "feature", "squared_cosine", what.range)
        marks(ax, beside(rows.index, index, len(names), 0.5) + 0.12, rows, look, line=False)
    ax.axvline(majority + 0.5, color="0.5", lw=0.7)
    within(ax, what)
    ax.set(xlabel="feature $j$, rare right of the line", ylabel=what.symbol, xticks=range(1, features + 1))
    letter(axes[0])
    entries = {name_of(arm): handle(looks([arm])[arm], line=False) for arm in names}
    key(figure, entries, f"every seed small; {INTERVALS}, {seeds_of(table)}")
    return figure


def figure1_aligned_neurons(tables: Tables, job: Job) -> Figure:
    """Figure 1 of imbalance_and_pruning."""
    return alignment(*tables.values(), "aligned_neurons")


def figure2_max_alignment(tables: Tables, job: Job) -> Figure:
    """Figure 2 of imbalance_and_pruning."""
    return alignment(*tables.values(), "max_alignment")


def figure3_cosine_similarity(tables: Tables, job: Job) -> Figure:
    """Figure 3 of imbalance_and_pruning."""
    return quality(*tables.values(), "cosine_similarity")


def figure4_regression_mse(tables: Tables, job: Job) -> Figure:
    """Figure 4 of imbalance_and_pruning."""
    return quality(*tables.values(), "regression_mse")
