"""The figures of the study of imbalance, from their tables alone."""

from collections.abc import Mapping

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.figure import Figure

from rarefeat.core.statistics import student_interval
from rarefeat.run.job import Job

Tables = Mapping[str, pd.DataFrame]
EPS = r"frequency ratio $\varepsilon_{\min}/\varepsilon_{\max}$"
NSR = r"NSR $\sigma^2 d_1$"
SYMBOLS = {
    "aligned_neurons": r"neurons with $|\cos(w_i, M_{j^\star})| \geq 0.3$",
    "max_alignment": r"$\max_i\ |\cos(w_i, M_{j^\star})|$",
    "cosine_similarity": r"mean $\cos(f(X_n), f(Y_n))$",
    "regression_mse": r"test MSE (label$^2$)",
}
TEST_SETS = {"_balanced": "balanced test set", "_matched": "test set at training frequencies"}
ARM_NAMES = {
    "dense": "dense",
    "pruned_neuron": "pruned by neuron",
    "pruned_weight": "pruned by weight",
    "oracle_all": "oracle, all neurons",
    "oracle_gated": "oracle, up to the majority's norm",
    "initial": "at initialisation",
    "ideal": "ideal encoder",
}
# Dark to light, so that order survives greyscale; dashes and markers tell the arms apart without colour.
ARM_COLOURS = dict(zip(ARM_NAMES, sns.color_palette("cividis", 5) + [(0.45, 0.45, 0.45)] * 2, strict=True))
DASHES = dict(zip(ARM_NAMES, ["", (4, 2), (1, 1), (5, 1, 1, 1), (3, 1, 1, 1, 1, 1), (1, 2), (6, 3)], strict=True))
MARKERS = dict(zip(ARM_NAMES, ["o", "s", "^", "D", "X", "v", "P"], strict=True))


def interval(values: pd.Series) -> tuple[float, float]:
    """The 95 % Student interval of the mean over seeds, for seaborn."""
    _, _, low, high, _ = student_interval(np.asarray(values, dtype=float))
    return low, high


def within(table: pd.DataFrame, arms: list[str]) -> pd.DataFrame:
    """The rows of these arms."""
    return table[table["arm"].isin(arms)]


def label_axes(ax: plt.Axes, metric: str) -> None:
    """Symbols on the axes, and the test set above them."""
    ax.set(xlabel=EPS, ylabel=SYMBOLS[metric.removesuffix("_balanced").removesuffix("_matched")])
    ax.set_title(next((title for suffix, title in TEST_SETS.items() if metric.endswith(suffix)), ""), fontsize=9)


def curves(ax: plt.Axes, table: pd.DataFrame, metric: str, hue: str, palette: dict, legend: bool, **options) -> None:
    """Mean over seeds against eps_min with 95 % bands; dashes and markers by arm."""
    options = {"style": "arm", "dashes": DASHES, "markers": MARKERS, "markersize": 4, "errorbar": interval} | options
    sns.lineplot(
        table, x="eps_min", y=metric, hue=hue, palette=palette, ax=ax, legend=legend, err_kws={"alpha": 0.18}, **options
    )
    label_axes(ax, metric)


def legend(ax: plt.Axes, titles: dict[str, str], names: dict[str, str]) -> None:
    """Seaborn's legend with titles and names for people, outside the axes."""
    handles, labels = ax.get_legend_handles_labels()
    labels = [titles.get(label, names.get(label, label)) for label in labels]
    ax.legend(handles, labels, frameon=False, loc="upper left", bbox_to_anchor=(1.01, 1.02), fontsize=8)


def by_nsr(axes: list[plt.Axes], grid: pd.DataFrame, metrics: list[str], arms: list[str]) -> None:
    """A panel per metric, every NSR of the block in each, and one legend."""
    table = within(grid, arms).assign(NSR=lambda rows: rows["nsr"].map("{:.3g}".format))
    levels = table.sort_values("nsr")["NSR"].unique()
    palette = dict(zip(levels, sns.color_palette("viridis", len(levels) + 1), strict=False))
    for ax, metric in zip(axes, metrics, strict=True):
        curves(ax, table, metric, "NSR", palette, ax is axes[-1], hue_order=list(levels), style_order=arms)
    legend(axes[-1], {"NSR": NSR, "arm": "arm"}, ARM_NAMES)


def alignment(grid: pd.DataFrame, metric: str) -> Figure:
    """Figures 1 and 2."""
    figure, ax = plt.subplots(figsize=(5.0, 3.2))
    by_nsr([ax], grid, [metric], ["dense", "pruned_neuron"])
    return figure


def quality(grid: pd.DataFrame, metric: str) -> Figure:
    """Figures 3 and 4: above, dense and pruned on both test distributions; below, between floor and ceiling."""
    metrics = [f"{metric}_balanced", f"{metric}_matched"]
    figure, axes = plt.subplots(2, 2, figsize=(8.6, 6.2), sharex=True)
    by_nsr(list(axes[0]), grid, metrics, ["dense", "pruned_neuron"])
    by_nsr(list(axes[1]), grid, metrics, ["initial", "dense", "ideal"])
    return figure


FOUR = ["aligned_neurons", "max_alignment", "cosine_similarity_balanced", "regression_mse_balanced"]


def arms(tables: Tables, job: Job) -> Figure:
    """What each way of pruning changes at one noise level: the difference to dense, seed by seed.

    Pruning by weight comes from the study under the direct simulator, which alone can have it, with that study's seeds.
    """
    paper, direct = tables.values()
    shown = ["pruned_neuron", "pruned_weight", "oracle_all", "oracle_gated"]
    table = pd.concat([within(paper, ["pruned_neuron", "oracle_all", "oracle_gated"]), within(direct, ["pruned_weight"])])
    figure, axes = plt.subplots(2, 2, figsize=(8.4, 6.0), sharex=True)
    for ax, metric in zip(axes.flat, FOUR, strict=True):
        ax.axhline(0, color="0.6", linewidth=0.8)
        for offset, arm in zip((-0.015, -0.005, 0.005, 0.015), shown, strict=True):
            rows = table[(table["arm"] == arm) & (table["metric"] == metric)]
            mean = rows["paired_difference"]
            ax.errorbar(
                rows["eps_min"] + offset, mean, yerr=[mean - rows["paired_ci_low"], rows["paired_ci_high"] - mean],
                label=f"{ARM_NAMES[arm]} ({rows['n'].max()} seeds)", color=ARM_COLOURS[arm], marker=MARKERS[arm], markersize=4,
                linewidth=0.8, capsize=2,
            )  # fmt: skip
        label_axes(ax, metric)
        ax.set_ylabel("difference to dense:\n" + ax.get_ylabel())
    legend(axes[0, 1], {}, {})
    return figure


def cross_check(tables: Tables, job: Job) -> Figure:
    """The two simulators at the same cells with other seeds, and all p-values of the cross-check against uniform ones."""
    paper, direct, tests = tables.values()
    shown = ["dense", "pruned_neuron", "oracle_all", "oracle_gated"]
    simulators = {"reduced": paper, "direct": direct}
    table = pd.concat(
        [within(part, shown).assign(simulator=f"{name}, {part['seed'].nunique()} seeds") for name, part in simulators.items()],
        ignore_index=True,
    )
    palette = dict(zip(table["simulator"].unique(), sns.color_palette("cividis", 4)[::2], strict=True))
    figure, axes = plt.subplots(2, 3, figsize=(12.2, 6.2))
    for ax, metric in zip((*axes[0, :2], *axes[1, :2]), FOUR, strict=True):
        curves(ax, table, metric, "simulator", palette, ax is axes[0, 1], style_order=shown)
    handles, labels = axes[0, 1].get_legend_handles_labels()
    axes[0, 1].get_legend().remove()
    axes[0, 2].legend(handles, [ARM_NAMES.get(label, label) for label in labels], frameon=False, loc="center left")
    axes[0, 2].axis("off")
    p_values = np.sort(tests["p_value"])
    ax = axes[1, 2]
    ax.plot([0, 1], [0, 1], color="0.6", linewidth=0.8, linestyle="--", label="uniform")
    ax.step(p_values, np.arange(1, len(p_values) + 1) / len(p_values), where="post", color="black", linewidth=1.2)
    ax.set(xlabel="p-value (Mann-Whitney)", ylabel="share of tests below", xlim=(0, 1), ylim=(0, 1))
    ax.set_title(f"{len(tests)} tests, {(~tests['agrees']).sum()} rejected after Holm", fontsize=9)
    ax.legend(frameon=False, loc="upper left", fontsize=8)
    return figure


def neighbour_regime(tables: Tables, job: Job) -> Figure:
    """The regime of the paper's grid beside its neighbour, and beside itself without a bias."""
    paper, neighbour, without_bias = tables.values()
    shown = ["dense", "pruned_neuron"]
    regimes = {"paper's grid": within(paper, shown), "neighbouring": neighbour, "without bias": without_bias}
    table = pd.concat([part.assign(regime=name) for name, part in regimes.items()], ignore_index=True)
    palette = dict(zip(regimes, sns.color_palette("viridis", 4), strict=False))
    figure, axes = plt.subplots(2, 2, figsize=(8.4, 6.0), sharex=True)
    for ax, metric in zip(axes.flat, FOUR, strict=True):
        curves(ax, table, metric, "regime", palette, ax is axes[0, 1], style_order=shown)
    legend(axes[0, 1], {"regime": "regime", "arm": "arm"}, ARM_NAMES)
    return figure


def trajectories(tables: Tables, job: Job) -> Figure:
    """Alignment with minority and majority features over training, at four values of eps_min, dense and under two oracles."""
    (table,) = tables.values()
    levels = sorted(table["eps_min"].unique())
    chosen = [levels[index] for index in np.linspace(0, len(levels) - 1, 4).round().astype(int)]
    table = table[table["eps_min"].isin(chosen) & table["arm"].isin(["dense", "oracle_all", "oracle_gated"])]
    shown = ["max_alignment", "majority_alignment", "loss"]
    names = [
        r"minority: $\max_i |\cos(w_i, M_{j^\star})|$",
        r"majority: mean over $j$ of $\max_i |\cos(w_i, M_j)|$",
        "training InfoNCE (nat)",
    ]
    palette = dict(zip(sorted(set(chosen)), sns.color_palette("viridis", len(set(chosen)) + 1), strict=False))
    figure, axes = plt.subplots(1, 3, figsize=(11.6, 3.2))
    for ax, metric, name in zip(axes, shown, names, strict=True):
        sns.lineplot(
            table[(table["metric"] == metric) & (table["step"] > 0)],
            x="step", y="value", hue="eps_min", palette=palette, style="arm", style_order=["dense", "oracle_all", "oracle_gated"], dashes=DASHES,
            errorbar=interval, err_kws={"alpha": 0.18}, ax=ax, legend=ax is axes[-1],
        )  # fmt: skip
        # Where the oracle masks every aligned neuron the loss of the dense network grows without bound.
        ax.set(xscale="log", yscale="log" if metric == "loss" else "linear", xlabel=r"training step $t$", ylabel=name)
    legend(axes[-1], {"eps_min": r"$\varepsilon_{\min}/\varepsilon_{\max}$", "arm": "arm"}, ARM_NAMES)
    return figure


def alignment_heatmap(tables: Tables, job: Job) -> Figure:
    """Figure 1 of liao_imbalanced_features: the first 13 neurons of one replica, and every replica in summary."""
    (table,) = tables.values()
    shown = [("dense", "dense"), ("pruned_neuron", "pruned by neuron")]
    first = table["seed"].min()
    figure, axes = plt.subplots(1, 3, figsize=(11.2, 3.6), width_ratios=[1, 1.15, 1.3])
    for ax, (arm, name) in zip(axes, shown, strict=False):
        one = table[(table["arm"] == arm) & (table["seed"] == first) & (table["neuron"] < 13)]
        matrix = one.pivot(index="neuron", columns="feature", values="squared_cosine")
        matrix.index, matrix.columns = matrix.index + 1, matrix.columns + 1
        sns.heatmap(
            matrix, vmin=0, vmax=1, cmap="cividis", ax=ax, cbar=ax is axes[1],
            cbar_kws={"label": r"squared cosine $\langle w_i, M_j\rangle^2 / \|w_i\|^2$"},
        )  # fmt: skip
        ax.axvline((~one.drop_duplicates("feature")["minority"]).sum(), color="white", linewidth=1.5)
        ax.set(xlabel="feature $j$ (minority right of the line)", ylabel="neuron $i$", title=f"{name}, seed {first}")
        ax.tick_params(axis="y", rotation=0)
    largest = table.groupby(["arm", "seed", "feature"], as_index=False)["squared_cosine"].max()
    largest["feature"] += 1
    order = [arm for arm, _ in shown]
    sns.pointplot(
        largest, x="feature", y="squared_cosine", hue="arm", hue_order=order, palette=ARM_COLOURS,
        dodge=0.35, errorbar=interval,
        linestyle="none", markers=[MARKERS[arm] for arm in order], markersize=4, err_kws={"linewidth": 1.2}, ax=axes[2],
    )  # fmt: skip
    sns.stripplot(
        largest, x="feature", y="squared_cosine", hue="arm", hue_order=order, palette=ARM_COLOURS,
        dodge=True, jitter=False, size=2, alpha=0.5,
        ax=axes[2], legend=False,
    )  # fmt: skip
    seeds = table["seed"].nunique()
    axes[2].set(xlabel="feature $j$", ylabel=r"$\max_i$ squared cosine", ylim=(0, 1.05), title=f"{seeds} seeds, all neurons")
    legend(axes[2], {}, ARM_NAMES)
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
