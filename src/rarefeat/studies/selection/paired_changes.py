"""Changes from the dense training at the same seed, and names of points and arms.

Claims, figures and published tables use them.
"""

import numpy as np
import pandas as pd


def changes_from_dense(table: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Return the difference of every arm to the dense training at the same seed, at one point.

    By arm: quantities as columns, seeds as index. `gain` is the alignment of the rare feature minus
    that of the frequent ones; `largest_norm` is a difference of log2.
    """
    wide = table.pivot(index=["arm", "seed"], columns="quantity", values="value")
    wide = wide.assign(
        gain=wide["max_alignment"] - wide["majority_alignment"],
        largest_norm=np.log2(wide["largest_norm"]),
    )
    return {
        arm: wide.loc[arm] - wide.loc["dense"] for arm in wide.index.unique("arm") if arm != "dense"
    }


def begins_first(arms: pd.Series) -> pd.Series:
    """Return whether each arm is a mask that begins at T3.

    It may have a stop or masked keys. T3 is the first onset above 0 of the arms.
    """
    onsets = sorted(arms.str.extract(r"onset=(\d+)")[0].dropna().astype(int).unique())
    first = next((onset for onset in onsets if onset), 0)
    return arms.str.endswith(f"onset={first}") & ~arms.str.contains(
        "alpha=|schedule=|source=|renewed="
    )


def share_of(point: str) -> str:
    """Return the bias scale of a point as text; empty where it is not varied."""
    return next((text.split("=")[1] for text in point.split(", ") if text.startswith("share=")), "")
