"""Changes from the dense training at the same seed, which claims and figures read."""

from collections.abc import Iterable

import numpy as np
import pandas as pd

from rarefeat.studies.experiment import means_by

POINT = ["point", "eps_min"]
CHANGES = ("gain", "pure_minority_neurons", "balanced_mse", "largest_norm", "majority_alignment")
"""Quantities whose change from dense at the same seed is published."""
MIN_REPLICAS = 5
"""Replicas with a neuron to find that an AUC needs at least."""


def changes_from_dense(table: pd.DataFrame) -> pd.DataFrame:
    """Return quantities of every arm minus those of dense, by point, eps_min, arm and seed.

    `gain` is the alignment of the rare feature minus that of the frequent ones; `largest_norm` is a
    difference of log2.
    """
    wide = table.pivot(index=[*POINT, "arm", "seed"], columns="quantity", values="value")
    wide["gain"] = wide["max_alignment"] - wide["majority_alignment"]
    wide["largest_norm"] = np.log2(wide["largest_norm"])
    others = wide.drop("dense", level="arm")
    dense = wide.xs("dense", level="arm")
    return others - dense.loc[others.index.droplevel("arm")].to_numpy()


def begins_first(arms: pd.Series) -> pd.Series:
    """Return whether an arm is a mask from T3 on, the first onset above 0, also with a stop."""
    onsets = arms.str.extract(r"onset=(\d+)")[0].dropna().astype(int)
    first = onsets[onsets > 0].min() if (onsets > 0).any() else 0
    others = arms.str.contains("alpha=|schedule=|source=|renewed=")
    return arms.str.endswith(f"onset={first}") & ~others


def share_of(point: str) -> str:
    """Return the bias scale of a point as text; empty where it is not varied."""
    return next((text.split("=")[1] for text in point.split(", ") if text.startswith("share=")), "")


def changes(table: pd.DataFrame, names: Iterable[str] = CHANGES) -> pd.DataFrame:
    """Return mean changes from dense by arm and point, with the number of diverged replicas."""
    wide = changes_from_dense(table).reset_index()
    means = means_by(wide, [*POINT, "arm"], [name for name in names if name in wide])
    diverged = table[table["quantity"] == "diverged"].groupby([*POINT, "arm"])["value"].sum()
    return means.join(diverged.astype(int).rename("diverged"), on=[*POINT, "arm"])


def masks(table: pd.DataFrame) -> pd.DataFrame:
    """Return the changes by masks that begin at T3, with or without a stop or masked keys."""
    rows = changes(table)
    return rows[begins_first(rows["arm"])].reset_index(drop=True)


def digits_changes(table: pd.DataFrame) -> pd.DataFrame:
    """Return the change of the accuracy from dense by each rule, rho, group of digits and seed."""
    wide = table.pivot(index=["rho", "group", "seed"], columns="rule", values="accuracy")
    rows = wide.drop(columns="dense").sub(wide["dense"], axis=0)
    return rows.melt(var_name="rule", ignore_index=False).reset_index()
