"""Published table of the study of the premise of Theorem 3.2."""

import pandas as pd

from rarefeat.core.statistics import fraction_interval, student_interval
from rarefeat.studies.pruning_premise.changes import KEYS, changes_from_dense

QUANTITIES = ("growth", "spill", "lead", "level", "r2", "cosine", "norm")


def summarise_changes(table: pd.DataFrame) -> pd.DataFrame:
    """Return mean and interval of the premise, of changes and of divergence at every point.

    The premise, the share of the smallest neurons that are the rare feature's, and the probe's R^2
    are given for dense as well.
    """
    rows = []
    dense = table[table["arm"] == "dense"]
    groups = [
        (dense, ("premise", "r2")),
        (changes_from_dense(table), QUANTITIES),
    ]
    for rows_of_group, quantities in groups:
        for keys, group in rows_of_group.groupby([*KEYS, "arm", "pruned_update"]):
            for name in quantities:
                mean, _, low, high, n = student_interval(group[name].to_numpy())
                rows.append((*keys, name, mean, low, high, n))
            low, high = fraction_interval(group["diverged"].to_numpy())
            rows.append((*keys, "diverged", group["diverged"].mean(), low, high, len(group)))
    names = [*KEYS, "arm", "pruned_update", "quantity", "mean", "ci_low", "ci_high", "n"]
    return pd.DataFrame(rows, columns=names)


TABLES = {"premise_changes": (("premise_replicas",), summarise_changes)}
