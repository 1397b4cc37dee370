"""Tables from which docs/studies/imbalance.md is filled in."""

import math

import pandas as pd

from rarefeat.model.thresholds import ALIGNED_COSINE, HALF_LEARNED, PURE_COSINE
from rarefeat.statistics import fraction_interval, student_interval
from rarefeat.studies.imbalance.declaration import PRINTED_BIAS

METRICS = ["aligned_neurons", "max_alignment", "majority_alignment", "pure_neurons",
           "pure_minority_neurons", "cosine_similarity_balanced", "cosine_similarity_matched",
           "regression_mse_balanced", "regression_mse_matched",
           "mask_minority_overlap", "diverged"]  # fmt: skip
BIAS_METRICS = ["learned", "aligned_neurons", "max_alignment", "majority_alignment",
                "cosine_similarity_balanced", "cosine_similarity_matched",
                "regression_mse_balanced", "regression_mse_matched", "diverged"]  # fmt: skip
DEVICE_METRICS = ["learned", "max_alignment", "majority_alignment", "cosine_similarity_balanced",
                  "regression_mse_balanced", "final_loss"]  # fmt: skip
TREND = ["grid", "sigma", "nsr", "arm", "metric", "slope", "ci_low", "ci_high", "n", "at_lowest",
         "at_highest", "paired_difference", "paired_ci_low", "paired_ci_high"]  # fmt: skip


def trends(table: pd.DataFrame, grid: pd.DataFrame) -> pd.DataFrame:
    """Return trends in eps_min of the metrics that the figures show, with the NSR."""
    table = table.assign(nsr=table["sigma"].map(grid.groupby("sigma")["nsr"].first()))
    return table.loc[table["metric"].isin(METRICS), TREND].reset_index(drop=True)


def cross_check_metrics(table: pd.DataFrame) -> pd.DataFrame:
    """Return a summary of the comparison of the two simulators, metric by metric.

    A row has the number of cells, the share of intervals that hold 0, and the estimate where the
    p-value is smallest.
    """
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


RANGES = {"largest_squared_cosine": (0, 1), "aligned_neurons": (0, math.inf)}


def heatmap(table: pd.DataFrame) -> pd.DataFrame:
    """Compute the best neuron of a feature and how many are aligned with it.

    Means are over the features of a kind, intervals over seeds.
    """
    by_feature = table.groupby(["arm", "minority", "seed", "feature"])["squared_cosine"]
    values = {
        "largest_squared_cosine": by_feature.max(),
        "aligned_neurons": by_feature.agg(lambda x: (x >= 0.09).sum()),
    }
    rows = []
    for quantity, value in values.items():
        for (arm, minority), seed_means in (
            value.groupby(["arm", "minority", "seed"]).mean().groupby(["arm", "minority"])
        ):
            mean, _, low, high, n = student_interval(seed_means.to_numpy(), inside=RANGES[quantity])
            features = "minority" if minority else "majority"
            rows.append(
                {
                    "arm": arm,
                    "features": features,
                    "quantity": quantity,
                    "mean": mean,
                    "ci_low": low,
                    "ci_high": high,
                    "n": n,
                }
            )
    return pd.DataFrame(rows)


def convergence(table: pd.DataFrame) -> pd.DataFrame:
    """Compute how far the dense arm has converged.

    A row per eps_min has the mean excess loss after T/2, its relative change since T/4 to T/2
    with an interval over seeds, T1, and the alignments at the end.
    """
    dense = table[table["arm"] == "dense"]
    T = dense["step"].max()
    wide = dense.pivot_table(
        index=["eps_min", "sigma", "seed", "step"], columns="metric", values="value"
    ).reset_index()
    wide["excess"] = wide["loss"] - wide["loss_floor"]
    rows = []
    for eps_min, trajectories in wide.groupby("eps_min"):
        earlier, later = (
            trajectories[(trajectories["step"] > low) & (trajectories["step"] <= high)]
            .groupby("seed")["excess"]
            .mean()
            for low, high in ((T / 4, T / 2), (T / 2, T))
        )
        mean, _, low, high, n = student_interval((later / earlier - 1).to_numpy())
        last = trajectories[trajectories["step"] == T][
            ["T1", "max_alignment", "majority_alignment"]
        ].mean()
        rows.append(
            {
                "eps_min": eps_min,
                "excess_loss": later.mean(),
                "change": mean,
                "ci_low": low,
                "ci_high": high,
                **last,
                "n": n,
            }
        )
    return pd.DataFrame(rows)


def fates(grid: pd.DataFrame) -> pd.DataFrame:
    """Compute the shares of dense replicas by the cosine of their best neuron, at each point.

    They are not aligned with the rare feature, learned, and pure, which is part of learned. The
    intervals are exact (Clopper and Pearson), and have a width where all replicas agree.
    """
    dense = grid[grid["arm"] == "dense"]
    best = dense["max_alignment"]
    fate = {
        "unaligned": best < ALIGNED_COSINE,
        "learned": best >= HALF_LEARNED,
        "pure": best > PURE_COSINE,
    }
    rows = []
    for (sigma, eps_min), replicas in dense.groupby(["sigma", "eps_min"]):
        for name, holds in fate.items():
            values = holds[replicas.index].to_numpy(dtype=float)
            low, high = fraction_interval(values)
            rows.append(
                {
                    "sigma": sigma,
                    "eps_min": eps_min,
                    "fate": name,
                    "share": values.mean(),
                    "ci_low": low,
                    "ci_high": high,
                    "n": len(values),
                }
            )
    return pd.DataFrame(rows)


def count_learned(*trajectories: pd.DataFrame) -> pd.DataFrame:
    """Count the dense replicas whose best neuron has a cosine of at least 0.5, by step.

    A row per study of EXPLORED, frequency and recorded step from FIRST_STEP on, at the noise that
    the studies share.
    """
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


def compare_baselines(
    paper: pd.DataFrame, oversampled: pd.DataFrame, reweighted: pd.DataFrame
) -> pd.DataFrame:
    """Compare pruning, oversampling and re-weighting with dense at the same point and seed."""
    keys = ["eps_min", "sigma", "seed"]
    ways = {
        "dense": paper[paper["arm"] == "dense"],
        "pruned_neuron": paper[paper["arm"] == "pruned_neuron"],
        "oversampled": oversampled,
        "reweighted": reweighted,
    }
    ways = {way: rows.set_index(keys) for way, rows in ways.items()}
    common = set.intersection(*(set(rows.index) for rows in ways.values()))
    rows = []
    for way, replicas in ways.items():
        replicas = replicas[replicas.index.isin(common)].sort_index()
        dense = ways["dense"].loc[replicas.index]
        for (eps_min, sigma), group in replicas.groupby(["eps_min", "sigma"]):
            learned = int((group["max_alignment"] >= HALF_LEARNED).sum())
            for metric in ("aligned_neurons", "max_alignment", "majority_alignment"):
                change = group[metric] - dense.loc[group.index, metric]
                mean, _, low, high, n = student_interval(change.to_numpy())
                rows.append(
                    {
                        "eps_min": eps_min,
                        "sigma": sigma,
                        "way": way,
                        "metric": metric,
                        "mean": group[metric].mean(),
                        "paired_difference": mean,
                        "paired_ci_low": low,
                        "paired_ci_high": high,
                        "learned": learned,
                        "n": n,
                    }
                )
    return pd.DataFrame(rows)


def bias_levels(*grids: pd.DataFrame) -> pd.DataFrame:
    """Compute what dense replicas end with under the bias of the grid and the printed one.

    Means and Student's intervals over seeds, by frequency at the noise that the studies share; the
    share of replicas that learn the rare feature has an exact interval.
    """
    sigma = max(set.intersection(*(set(grid["sigma"]) for grid in grids)))
    rows = []
    for study, grid in zip(PRINTED_BIAS, grids, strict=True):
        dense = grid[(grid["arm"] == "dense") & (grid["sigma"] == sigma)]
        dense = dense.assign(learned=(dense["max_alignment"] >= HALF_LEARNED).astype(float))
        for eps_min, replicas in dense.groupby("eps_min"):
            for metric in BIAS_METRICS:
                values = replicas[metric].to_numpy(dtype=float)
                mean, _, low, high, n = student_interval(values)
                if metric in ("learned", "diverged"):
                    low, high = fraction_interval(values)
                rows.append(
                    {
                        "study": study,
                        "eps_min": eps_min,
                        "sigma": sigma,
                        "metric": metric,
                        "mean": mean,
                        "ci_low": low,
                        "ci_high": high,
                        "n": n,
                    }
                )
    return pd.DataFrame(rows)


STUDIES = ("paper", "neighbour", "without_bias")
EXPLORED = ("confirmation", "without_bias", "neighbour", "printed_follow")
"""Studies of the interactive page."""
FIRST_STEP = 100
"""First recorded step that it shows."""


def compare_devices(gpu: pd.DataFrame, cpu: pd.DataFrame) -> pd.DataFrame:
    """Compare the same seeds on a GPU and on the processor, by config/devices.yaml.

    A row has the means on both, their paired difference with its interval, and the number of
    seeds, for an arm and a metric; `learned` is 1 where a neuron has the rare feature.
    """
    rows = []
    keys = ["arm", "seed"]
    both = gpu.merge(cpu, on=keys, suffixes=("_gpu", "_cpu"))
    for device in ("gpu", "cpu"):
        learned = both[f"max_alignment_{device}"] >= HALF_LEARNED
        both[f"learned_{device}"] = learned.astype(float)
    for arm, runs in both.groupby("arm"):
        for metric in DEVICE_METRICS:
            on_gpu, on_cpu = runs[f"{metric}_gpu"], runs[f"{metric}_cpu"]
            mean, _, low, high, n = student_interval((on_gpu - on_cpu).to_numpy())
            rows.append((arm, metric, on_gpu.mean(), on_cpu.mean(), mean, low, high, n))
    columns = ["arm", "metric", "gpu", "cpu", "difference", "ci_low", "ci_high", "n"]
    return pd.DataFrame(rows, columns=columns)


TABLES = {
    **{
        f"{study}_trends": ((f"{study}_trends", f"{study}_grid"), trends)
        for study in (*STUDIES, "direct")
    },
    **{f"{study}_convergence": ((f"{study}_trajectories",), convergence) for study in STUDIES},
    "cross_check_metrics": (("cross_check",), cross_check_metrics),
    "confirmation_fates": (("confirmation_grid",), fates),
    "learned_by_step": (tuple(f"{study}_trajectories" for study in EXPLORED), count_learned),
    "paper_fates": (("paper_grid",), fates),
    "heatmap": (("alignment_heatmap",), heatmap),
    "baselines": (("paper_grid", "oversampled_grid", "reweighted_grid"), compare_baselines),
    "devices": (("gpu_check_grid", "cpu_check_grid"), compare_devices),
    "bias_levels": (tuple(f"{study}_grid" for study in PRINTED_BIAS), bias_levels),
}
