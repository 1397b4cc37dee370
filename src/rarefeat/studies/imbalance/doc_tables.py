"""What docs/studies/imbalance.md is filled in from."""

import math

import pandas as pd
from scipy.stats import binomtest

from rarefeat.core.statistics import student_interval
from rarefeat.core.thresholds import ALIGNED_COSINE, PURE_COSINE

METRICS = ["aligned_neurons", "max_alignment", "majority_alignment", "pure_neurons", "pure_minority_neurons",
           "cosine_similarity_balanced", "cosine_similarity_matched", "regression_mse_balanced", "regression_mse_matched",
           "mask_minority_overlap", "diverged"]  # fmt: skip
TREND = ["grid", "sigma", "nsr", "arm", "metric", "slope", "ci_low", "ci_high", "n", "at_lowest", "at_highest",
         "paired_difference", "paired_ci_low", "paired_ci_high"]  # fmt: skip


def trends(table: pd.DataFrame, grid: pd.DataFrame) -> pd.DataFrame:
    """Trends in eps_min of the metrics that the figures show, with the NSR."""
    table = table.assign(nsr=table["sigma"].map(grid.groupby("sigma")["nsr"].first()))
    return table.loc[table["metric"].isin(METRICS), TREND].reset_index(drop=True)


def cross_check_metrics(table: pd.DataFrame) -> pd.DataFrame:
    """The comparison of the two simulators metric by metric: cells, and what is seen where the p-value is smallest."""
    found = []
    for metric, part in table.groupby("metric", sort=False):
        worst = part.loc[part["p_value"].idxmin()]
        found.append(
            {
                "metric": metric,
                "cells": len(part),
                "covered": ((part["ci_low"] <= 0) & (part["ci_high"] >= 0)).mean(),
                **worst[["p_value", "adjusted_p_value", "difference", "ci_low", "ci_high"]],
                "disagree": int((~part["agrees"]).sum()),
                **worst[["n_reduced", "n_direct"]],
            }
        )
    return pd.DataFrame(found)


RANGES = {"largest_squared_cosine": (0, 1), "aligned_neurons": (0, math.inf)}


def heatmap(table: pd.DataFrame) -> pd.DataFrame:
    """The best neuron of a feature and how many are aligned with it: mean over features of a kind, interval over seeds."""
    by_feature = table.groupby(["arm", "minority", "seed", "feature"])["squared_cosine"]
    values = {
        "largest_squared_cosine": by_feature.max(),
        "aligned_neurons": by_feature.agg(lambda x: (x >= 0.09).sum()),
    }
    found = []
    for quantity, value in values.items():
        for (arm, minority), part in (
            value.groupby(["arm", "minority", "seed"]).mean().groupby(["arm", "minority"])
        ):
            mean, _, low, high, n = student_interval(part.to_numpy(), inside=RANGES[quantity])
            features = "minority" if minority else "majority"
            found.append(
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
    return pd.DataFrame(found)


def convergence(table: pd.DataFrame) -> pd.DataFrame:
    """How far the dense arm has come: excess loss after T/2 and its relative change since T/4, T1, and alignment at the end."""
    dense = table[table["arm"] == "dense"]
    T = dense["step"].max()
    wide = dense.pivot_table(
        index=["eps_min", "sigma", "seed", "step"], columns="metric", values="value"
    ).reset_index()
    wide["excess"] = wide["loss"] - wide["loss_floor"]
    found = []
    for eps_min, part in wide.groupby("eps_min"):
        earlier, later = (
            part[(part["step"] > low) & (part["step"] <= high)].groupby("seed")["excess"].mean()
            for low, high in ((T / 4, T / 2), (T / 2, T))
        )
        mean, _, low, high, n = student_interval((later / earlier - 1).to_numpy())
        last = part[part["step"] == T][["T1", "max_alignment", "majority_alignment"]].mean()
        found.append(
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
    return pd.DataFrame(found)


def fates(grid: pd.DataFrame) -> pd.DataFrame:
    """Shares of the dense replicas at each point whose best neuron is not aligned with the rare feature, pure in it or between.

    With the exact interval (Clopper and Pearson), which has a width where all replicas agree.
    """
    dense = grid[grid["arm"] == "dense"]
    best = dense["max_alignment"]
    fate = {
        "locked_out": best < ALIGNED_COSINE,
        "between": (best >= ALIGNED_COSINE) & (best <= PURE_COSINE),
        "learned": best > PURE_COSINE,
    }
    found = []
    for (sigma, eps_min), part in dense.groupby(["sigma", "eps_min"]):
        for name, holds in fate.items():
            k, n = int(holds[part.index].sum()), len(part)
            low, high = binomtest(k, n).proportion_ci(method="exact")
            found.append(
                {
                    "sigma": sigma,
                    "eps_min": eps_min,
                    "fate": name,
                    "share": k / n,
                    "ci_low": low,
                    "ci_high": high,
                    "n": n,
                }
            )
    return pd.DataFrame(found)


STUDIES = ("paper", "neighbour", "without_bias")
TABLES = {
    **{
        f"{study}_trends": ((f"{study}_trends", f"{study}_grid"), trends)
        for study in (*STUDIES, "direct")
    },
    **{f"{study}_convergence": ((f"{study}_trajectories",), convergence) for study in STUDIES},
    "cross_check_metrics": (("cross_check",), cross_check_metrics),
    "confirmation_fates": (("confirmation_grid",), fates),
    "heatmap": (("alignment_heatmap",), heatmap),
}
