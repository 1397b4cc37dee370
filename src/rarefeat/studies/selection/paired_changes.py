"""What an arm changes of dense at the same seed, and names of points and arms: read by claims, figures and page alike."""

import numpy as np
import pandas as pd


def changed(table: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """What every arm changes of dense at the same seed, at one point: quantities by seed, the largest norm as its log2."""
    wide = table.pivot(index=["arm", "seed"], columns="quantity", values="value")
    wide = wide.assign(
        gain=wide["max_alignment"] - wide["majority_alignment"],
        largest_norm=np.log2(wide["largest_norm"]),
    )
    return {
        arm: wide.loc[arm] - wide.loc["dense"] for arm in wide.index.unique("arm") if arm != "dense"
    }


def begins_first(arms: pd.Series) -> pd.Series:
    """Which arms are masks that begin at T3, the first onset that is not 0, with or without a stop or the keys."""
    onsets = sorted(arms.str.extract(r"onset=(\d+)")[0].dropna().astype(int).unique())
    first = next((onset for onset in onsets if onset), 0)
    return arms.str.endswith(f"onset={first}") & ~arms.str.contains(
        "alpha=|schedule=|source=|renewed="
    )


def share_of(point: str) -> str:
    """The value of the bias's share in a point; empty where it is not varied."""
    return next((part.split("=")[1] for part in point.split(", ") if part.startswith("share=")), "")
