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
from rarefeat.studies.imbalance.tables import CROSS_CHECK
from rarefeat.workflow.files.schema import validate
from rarefeat.workflow.run.job import Job

# Written before the first run: the chance of one false alarm or more in the whole table.
LEVEL = 0.01


def compare(
    reduced: np.ndarray, direct: np.ndarray, inside: tuple[float, float] = UNBOUNDED
) -> tuple[float, float, float, float]:
    """Compare the means of a metric under the two simulators.

    The test is by ranks, because counts over a threshold and the oracle's loss are far from normal
    at ten seeds.

    reduced, direct (n,).
    """
    difference = reduced.mean() - direct.mean()
    p_value = (
        mannwhitneyu(reduced, direct, method="asymptotic").pvalue
        if np.ptp([*reduced, *direct])
        else 1.0
    )
    if np.ptp(reduced) == 0 and np.ptp(direct) == 0:
        return difference, difference, difference, p_value
    interval = ttest_ind(reduced, direct, equal_var=False).confidence_interval(0.95)
    low, high = np.clip(interval, *difference_bounds(inside))
    return difference, low, high, p_value


def cross_check_table(reduced: pd.DataFrame, direct: pd.DataFrame) -> pd.DataFrame:
    """Return a row per cell and metric that both grid tables have.

    The p-values are adjusted by Holm over the whole table.
    """
    keys = list(KEYS)
    cells = [{key: cell for key, cell in table.groupby(keys)} for table in (reduced, direct)]
    rows = []
    for key in [key for key in cells[0] if key in cells[1]]:
        for metric, column in METRICS.items():
            values = [table[key][metric].dropna().to_numpy(dtype=float) for table in cells]
            # An arm may lack a metric, and the floor of the loss depends on the latents alone.
            if min(map(len, values)) < 2 or metric == "loss_floor":
                continue
            means = [replicas.mean() for replicas in values]
            counts = [len(replicas) for replicas in values]
            rows.append((*key, metric, *means, *counts, *compare(*values, column_bounds(column))))
    columns = [
        "reduced",
        "direct",
        "n_reduced",
        "n_direct",
        "difference",
        "ci_low",
        "ci_high",
        "p_value",
    ]
    table = pd.DataFrame(rows, columns=[*keys, "metric", *columns])
    table["adjusted_p_value"] = holm(table["p_value"].to_numpy())
    return validate(CROSS_CHECK, table.assign(agrees=table["adjusted_p_value"] >= LEVEL))


def cross_check(tables: Mapping[str, pd.DataFrame], job: Job) -> pd.DataFrame:
    """Compare the grid of the reduced simulator with that of the direct one.

    The input tables are in this order; the output is the table `cross_check`.
    """
    return cross_check_table(*tables.values())
