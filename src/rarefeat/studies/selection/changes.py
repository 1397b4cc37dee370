"""What an arm changes of dense at the same seed: read by claims, figures and page alike."""

import numpy as np
import pandas as pd


def changed(table: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """What every arm changes of dense at the same seed, at one point: quantities by seed, the largest norm as its log2."""
    wide = table.pivot(index=["arm", "seed"], columns="quantity", values="value")
    wide = wide.assign(gain=wide["max_alignment"] - wide["majority_alignment"], largest_norm=np.log2(wide["largest_norm"]))
    return {arm: wide.loc[arm] - wide.loc["dense"] for arm in wide.index.unique("arm") if arm != "dense"}
