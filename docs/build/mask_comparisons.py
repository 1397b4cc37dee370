"""The published changes by masks of the study of selection, corrected for their number."""

import numpy as np
import pandas as pd
from scipy.special import stdtr, stdtrit

from formatting import select_rows
from rarefeat.claims.verdict import ALPHA_LEVEL
from rarefeat.statistics import holm

KINDS = {
    "norm-masked_keys": "masked keys by norm",
    "norm": "magnitude pruning",
    "oracle": "oracles",
    "random": "random neurons, a control",
    "largest": "largest neurons, a control",
}
"""Kinds of mask by the beginning of the arm's name; any other is a rule of the study."""
OTHER = "other rules"


def compare_masks(masks: pd.DataFrame) -> pd.DataFrame:
    """Return each distinct change of the lead with its kind and Holm's p-value over all of them.

    Masks that do the same in every run are one comparison.
    """
    table = select_rows(masks, quantity="gain")
    table = table.drop_duplicates(["point", "eps_min", "mean", "ci_low", "ci_high"])
    freedom = (table["n"] - 1).to_numpy()
    error = (table["ci_high"] - table["ci_low"]) / 2 / stdtrit(freedom, 0.975)
    with np.errstate(invalid="ignore"):
        p_values = 2 * stdtr(freedom, -(table["mean"] / error).abs())
    kinds = [next((k for k in KINDS if arm.startswith(k)), "") for arm in table["arm"]]
    return table.assign(
        kind=[KINDS.get(kind, OTHER) for kind in kinds],
        adjusted_p=holm(np.where(error > 0, p_values, 1.0)),
    )


def count_masks(masks: pd.DataFrame) -> pd.DataFrame:
    """Count by kind the comparisons, those shown to rise or fall, and these with diverged runs."""
    table = compare_masks(masks)
    shown = table["adjusted_p"] < ALPHA_LEVEL
    counted = {
        "comparisons": table["mean"].notna(),
        "rises": shown & (table["mean"] > 0),
        "falls": shown & (table["mean"] < 0),
        "diverged": shown & (table["diverged"] > 0),
    }
    counts = pd.DataFrame(counted).groupby(table["kind"]).sum()
    order = [*dict.fromkeys([*list(KINDS.values())[1::-1], OTHER, *list(KINDS.values())[2:]])]
    return counts.reindex([kind for kind in order if kind in counts.index]).reset_index()
