"""The cross-check of the two simulators at the cells that both have run, metric by metric.

The simulators have different seeds.
"""

from collections.abc import Mapping

import numpy as np
import pandas as pd
from scipy.stats import mannwhitneyu, ttest_ind

from rarefeat.stages.aggregate import column_bounds, difference_bounds
from rarefeat.stages.tables import KEYS, METRICS
from rarefeat.statistics import UNBOUNDED, holm

# Written before the first run: the chance of one false alarm or more in the whole table.
LEVEL = 0.01
COMPARED = ["reduced", "direct", "n_reduced", "n_direct", "difference", "ci_low", "ci_high",
            "p_value"]  # fmt: skip


def compare(
    reduced: np.ndarray, direct: np.ndarray, inside: tuple[float, float] = UNBOUNDED
) -> tuple[float, float, float, float]:
    """Return difference of the means (n,), its 95 % interval and a p-value.

    The test is by ranks, because counts over a threshold and the oracle's loss are far from normal
    at ten seeds.
    """
    difference, p_value = reduced.mean() - direct.mean(), 1.0
    if np.ptp([*reduced, *direct]):
        p_value = mannwhitneyu(reduced, direct, method="asymptotic").pvalue
    if np.ptp(reduced) == 0 and np.ptp(direct) == 0:
        return difference, difference, difference, p_value
    interval = ttest_ind(reduced, direct, equal_var=False).confidence_interval(0.95)
    low, high = np.clip(interval, *difference_bounds(inside))
    return difference, low, high, p_value


def cross_check(tables: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Compare the grids of the reduced and of the direct simulator, in this order."""
    return compare_grids(*tables.values())


def compare_grids(reduced: pd.DataFrame, direct: pd.DataFrame) -> pd.DataFrame:
    """Return a row per cell and metric of both grids; p-values are adjusted over all by Holm."""
    keys = list(KEYS)
    cells = [dict(iter(table.groupby(keys))) for table in (reduced, direct)]
    rows = []
    for key in [key for key in cells[0] if key in cells[1]]:
        for metric, column in METRICS.items():
            values = [table[key][metric].dropna().to_numpy(dtype=float) for table in cells]
            counts = [len(replicas) for replicas in values]
            # An arm may lack a metric, and the floor of the loss depends on the latents alone.
            if min(counts) < 2 or metric == "loss_floor":
                continue
            means = [replicas.mean() for replicas in values]
            rows.append((*key, metric, *means, *counts, *compare(*values, column_bounds(column))))
    table = pd.DataFrame(rows, columns=[*keys, "metric", *COMPARED])
    table["adjusted_p_value"] = holm(table["p_value"].to_numpy())
    return table.assign(agrees=table["adjusted_p_value"] >= LEVEL)


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
