"""Tables from which docs/studies/imbalance.md is filled in."""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import pandas as pd

from rarefeat.model.thresholds import ALIGNED_COSINE, HALF_LEARNED, PURE_COSINE
from rarefeat.statistics import student_interval
from rarefeat.studies.experiment import means_by, means_of
from rarefeat.studies.imbalance import BIASES, GATE
from rarefeat.studies.imbalance.measure import FIGURES, compare_changes, page_statistic

METRICS = ["aligned_neurons", "max_alignment", "majority_alignment", "pure_neurons",
           "pure_minority_neurons", "cosine_similarity_balanced", "cosine_similarity_matched",
           "regression_mse_balanced", "regression_mse_matched",
           "mask_minority_overlap", "diverged"]  # fmt: skip
BIAS_METRICS = ["aligned_neurons", "max_alignment", "majority_alignment", "energy_ratio",
                "cosine_similarity_balanced", "cosine_similarity_matched",
                "cosine_similarity_alive_balanced", "empty_share",
                "regression_mse_balanced", "regression_mse_matched"]  # fmt: skip
EMPTY = {
    metric: (metric, "figure_3")
    for metric in ("cosine_similarity_balanced", "cosine_similarity_alive_balanced", "empty_share")
}
"""What Figure 3 counts as 0, and what it is without these pairs."""
DEVICE_METRICS = ["learned", "max_alignment", "majority_alignment", "cosine_similarity_balanced",
                  "regression_mse_balanced", "final_loss"]  # fmt: skip
TREND = ["grid", "sigma", "nsr", "arm", "metric", "slope", "ci_low", "ci_high", "n", "at_lowest",
         "at_highest", "paired_difference", "paired_ci_low", "paired_ci_high"]  # fmt: skip
LEVELS = (*BIASES, "printed_71", "printed_100")
"""Studies of Figures 1 to 4 under a bias each, the last two of config/printed_bias.yaml."""
STUDIES = ("paper", "neighbour", "without_bias")
ATTENTION = ("fixed", "trained", "trained_without_decay", "decayed")
"""Studies of config/attention.yaml, without their prefix."""
HEAT_RANGES = {
    "largest_squared_cosine": (0, 1),
    "aligned_neurons": (0, math.inf),
    "neurons_of_a_feature": (0, 1),
}
EXPLORED = ("confirmation", "without_bias", "neighbour", "printed_follow")
"""Studies of the interactive page."""
FIRST_STEP = 100
"""First recorded step that it shows."""


def trends(table: pd.DataFrame, grid: pd.DataFrame) -> pd.DataFrame:
    """Return trends in eps_min of the metrics that the figures show, with the NSR."""
    table = table.assign(nsr=table["sigma"].map(grid.groupby("sigma")["nsr"].first()))
    return table.loc[table["metric"].isin(METRICS), TREND].reset_index(drop=True)


def convergence(table: pd.DataFrame) -> pd.DataFrame:
    """Return by eps_min dense's excess loss after T/2, its change from before, T1 and the end."""
    dense = table[table["arm"] == "dense"]
    keys, T = ["eps_min", "sigma", "seed", "step"], dense["step"].max()
    wide = dense.pivot_table(index=keys, columns="metric", values="value").reset_index()
    wide["excess"] = wide["loss"] - wide["loss_floor"]
    rows = []
    for eps_min, course in wide.groupby("eps_min"):
        earlier, later = (
            course[course["step"].between(*span, "right")].groupby("seed")["excess"].mean()
            for span in ((T / 4, T / 2), (T / 2, T))
        )
        mean, _, low, high, n = student_interval((later / earlier - 1).to_numpy())
        ends = course[course["step"] == T][["T1", "max_alignment", "majority_alignment"]].mean()
        row = {"eps_min": eps_min, "excess_loss": later.mean(), "change": mean}
        rows.append(row | {"ci_low": low, "ci_high": high, **ends, "n": n})
    return pd.DataFrame(rows)


def fates(grid: pd.DataFrame) -> pd.DataFrame:
    """Return shares of dense replicas not aligned with the rare feature, learned, and pure."""
    dense = grid[grid["arm"] == "dense"]
    best = dense["max_alignment"]
    fate = {
        "unaligned": best < ALIGNED_COSINE,
        "learned": best >= HALF_LEARNED,
        "pure": best > PURE_COSINE,
    }
    dense = dense.assign(**{name: holds.astype(float) for name, holds in fate.items()})
    table = means_by(dense, ["sigma", "eps_min"], (), shares=fate)
    return table.rename(columns={"quantity": "fate", "mean": "share"})


def count_learned(*trajectories: pd.DataFrame) -> pd.DataFrame:
    """Count dense replicas of EXPLORED that have learned it, by step, at a common noise."""
    dense = [table[table["arm"] == "dense"] for table in trajectories]
    sigma = max(set.intersection(*(set(table["sigma"]) for table in dense)))
    rows = []
    for study, table in zip(EXPLORED, dense, strict=False):
        best = table[(table["metric"] == "max_alignment") & (table["sigma"] == sigma)]
        counts = best["value"].ge(HALF_LEARNED).groupby([best["eps_min"], best["step"]])
        counts = counts.agg(learned="sum", n="size").reset_index()
        rows.append(counts[counts["step"] >= min(FIRST_STEP, counts["step"].max())])
        rows[-1].insert(0, "study", study)
    return pd.concat(rows).assign(sigma=sigma).reset_index(drop=True)


def changes(studies: Sequence[str], pushes: Sequence[str]) -> tuple[tuple[str, ...], Callable]:
    """Return what compares studies of two kinds, of this one and of `fate`, with the first."""
    sources = (*(f"{name}.gate_grid" for name in studies), *(f"{name}_fate" for name in pushes))
    return sources, partial(compare_changes, names=(*studies, *pushes))


def compare_attention(*grids: pd.DataFrame) -> pd.DataFrame:
    """Compare trained W_Q and W_K with fixed ones, and with ones that decay alone, by seed."""
    ways = dict(zip(ATTENTION, grids, strict=True))
    control = {way: ways[way] for way in ("decayed", "trained")}
    parts = [compare_ways(some).assign(beside=next(iter(some))) for some in (ways, control)]
    return pd.concat(parts, ignore_index=True)


def compare_ways(ways: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Compare the replicas of each way with the first way's at the same point and seed."""
    first = next(iter(ways))
    ways = {way: rows.set_index(["eps_min", "sigma", "seed"]) for way, rows in ways.items()}
    common = set.intersection(*(set(rows.index) for rows in ways.values()))
    rows = []
    for way, replicas in ways.items():
        replicas = replicas[replicas.index.isin(common)].sort_index()
        for point, group in replicas.groupby(["eps_min", "sigma"]):
            learned = int((group["max_alignment"] >= HALF_LEARNED).sum())
            for metric in ("aligned_neurons", "max_alignment", "majority_alignment"):
                change = group[metric] - ways[first].loc[group.index, metric]
                mean, _, low, high, n = student_interval(change.to_numpy())
                paired = mean, low, high
                rows.append((*point, way, metric, group[metric].mean(), *paired, learned, n))
    paired = ["paired_difference", "paired_ci_low", "paired_ci_high"]
    keys = ["eps_min", "sigma", "way", "metric", "mean"]
    return pd.DataFrame(rows, columns=[*keys, *paired, "learned", "n"])


def bias_levels(*grids: pd.DataFrame) -> pd.DataFrame:
    """Return what dense ends with under each bias, by frequency, at a common noise."""
    sigma = max(set.intersection(*(set(grid["sigma"]) for grid in grids)))
    parts = []
    for study, grid in zip(LEVELS, grids, strict=True):
        dense = grid[(grid["arm"] == "dense") & (grid["sigma"] == sigma)]
        dense = dense.assign(learned=(dense["max_alignment"] >= HALF_LEARNED).astype(float))
        means = means_by(dense, ["eps_min"], BIAS_METRICS, shares=("learned", "diverged"))
        parts.append(means.assign(study=study, sigma=sigma))
    table = pd.concat(parts, ignore_index=True).rename(columns={"quantity": "metric"})
    return table[["study", "eps_min", "sigma", "metric", "mean", "ci_low", "ci_high", "n"]]


def page_trends(
    *grids: pd.DataFrame, figures: Mapping[str, tuple[str, str]] = FIGURES
) -> pd.DataFrame:
    """Return Page's trend of each figure in eps_min, dense, at each noise, and both ends."""
    blocks = dict(zip(dict.fromkeys(block for _, block in figures.values()), grids, strict=True))
    rows = []
    for figure, (metric, block) in figures.items():
        dense = blocks[block].query("arm == 'dense'")
        for sigma, level in dense.groupby("sigma"):
            curves = level.pivot(index="eps_min", columns="seed", values=metric).sort_index()
            mean, _, low, high, n = student_interval(page_statistic(curves.to_numpy()))
            ends = curves.index[0], curves.index[-1], *curves.mean(axis=1).iloc[[0, -1]]
            rows.append((figure, metric, sigma, mean, low, high, n, *ends))
    columns = ["figure", "metric", "sigma", "trend", "ci_low", "ci_high", "n", "lowest", "highest",
               "at_lowest", "at_highest"]  # fmt: skip
    return pd.DataFrame(rows, columns=columns)


def compare_devices(gpu: pd.DataFrame, cpu: pd.DataFrame) -> pd.DataFrame:
    """Compare the same seeds on a GPU and on the processor, by config/devices.yaml."""
    grids = (
        grid.assign(learned=(grid["max_alignment"] >= HALF_LEARNED).astype(float))
        for grid in (gpu, cpu)
    )
    both = pd.merge(*grids, on=["arm", "seed"], suffixes=("_gpu", "_cpu"))
    rows = []
    for arm, runs in both.groupby("arm"):
        for metric in DEVICE_METRICS:
            on_gpu, on_cpu = runs[f"{metric}_gpu"], runs[f"{metric}_cpu"]
            mean, _, low, high, n = student_interval((on_gpu - on_cpu).to_numpy())
            rows.append((arm, metric, on_gpu.mean(), on_cpu.mean(), mean, low, high, n))
    columns = ["arm", "metric", "gpu", "cpu", "difference", "ci_low", "ci_high", "n"]
    return pd.DataFrame(rows, columns=columns)


def heatmap(table: pd.DataFrame) -> pd.DataFrame:
    """Return best neuron, aligned ones and the share of neurons of which one feature holds half,
    by kind of feature; intervals are over seeds.
    """
    kinds = ["arm", "minority", "seed"]
    by_feature = table.groupby([*kinds, "feature"])["squared_cosine"]
    aligned = by_feature.agg(lambda x: (x >= 0.09).sum())
    values = pd.DataFrame({"largest_squared_cosine": by_feature.max(), "aligned_neurons": aligned})
    values = values.groupby(kinds).mean()
    largest = table.groupby([*kinds, "neuron"])["squared_cosine"].max()
    values["neurons_of_a_feature"] = (largest >= 0.5).groupby(kinds).mean()
    values = values.reset_index()
    parts = [
        means_of(values, ["arm", "minority"], name, lambda _, ends=ends: ends).assign(quantity=name)
        for name, ends in HEAT_RANGES.items()
    ]
    table = pd.concat(parts, ignore_index=True)
    table["features"] = table["minority"].map({True: "minority", False: "majority"})
    return table[["arm", "features", "quantity", "mean", "ci_low", "ci_high", "n"]]


def by_metric(table: pd.DataFrame) -> pd.DataFrame:
    """Return the share of intervals that hold 0 and the smallest p-value, metric by metric."""
    rows = []
    for metric, cells in table.groupby("metric", sort=False):
        worst = cells.loc[cells["p_value"].idxmin()]
        rows.append(
            {
                "metric": metric,
                "cells": len(cells),
                "covered": ((cells["ci_low"] <= 0) & (cells["ci_high"] >= 0)).mean(),
                **worst[["p_value", "adjusted_p_value", "difference", "ci_low", "ci_high"]],
                "disagree": int((~cells["agrees"]).sum()),
                **worst[["n_reduced", "n_direct"]],
            }
        )
    return pd.DataFrame(rows)


TABLES = {
    **{
        f"{study}_trends": ((f"{study}_trends", f"{study}_grid"), trends)
        for study in (*STUDIES, "direct")
    },
    **{f"{study}_convergence": ((f"{study}_trajectories",), convergence) for study in STUDIES},
    "cross_check_metrics": (("cross_check",), by_metric),
    "confirmation_fates": (("confirmation_grid",), fates),
    "learned_by_step": (tuple(f"{study}_trajectories" for study in EXPLORED), count_learned),
    "paper_fates": (("paper_grid",), fates),
    "heatmap": (("alignment_heatmap",), heatmap),
    "gate": changes(tuple(GATE), ("gate_push", "gate_push_2")),
    "gate_printed": changes(
        ("as_printed", "printed_later", "printed_oversampled"),
        ("printed_push", "printed_push_2", "printed_push_4"),
    ),
    "late_push": changes(
        (), ("half_fresh", "half_reused", "half_none", "half_neuron", "half_feature")
    ),
    "late_printed": changes((), ("printed_fresh", "printed_2048", "printed_8192")),
    "trained_attention": (tuple(f"attention_{way}_grid" for way in ATTENTION), compare_attention),
    "devices": (("gpu_check_grid", "cpu_check_grid"), compare_devices),
    **{
        table: (
            tuple(f"{study}.{grid}_grid" for grid in ("figures_1_and_2", "figure_3", "figure_4")),
            page_trends,
        )
        for table, study in (
            ("printed_trends", "printed_71"),
            ("printed_trends_all", "printed_71"),  # beside the block of 30 that was to be read
            ("printed_trends_1", "printed_100"),
        )
    },
    "empty_pairs": (("paper.figure_3_grid",), partial(page_trends, figures=EMPTY)),
    "bias_levels": (tuple(f"{study}_grid" for study in LEVELS), bias_levels),
}
