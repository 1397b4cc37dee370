"""Changes of a mask from dense at the same point and seed: for claims, figure and page."""

from collections.abc import Iterator

import numpy as np
import pandas as pd

from rarefeat.studies.pruning_premise.config import AXES

KEYS = list(AXES)
CHANGED = ("growth", "growth_majority", "lead", "r2", "cosine", "norm")
"""Quantities of which the change from dense is taken."""


def changes_from_dense(table: pd.DataFrame) -> pd.DataFrame:
    """Return the changes of every mask from dense, by point, arm, update and seed.

    Parameters
    ----------
    table : DataFrame
        Rows of `tables.PREMISE`.

    Returns
    -------
    DataFrame
        Rows of the masks. The columns `CHANGED` are differences to dense: growth in
        1 / (eta steps), `lead` the log2 of the strength over that of the other features. `spill`
        is the change of the others' growth over that of the rare feature's, NaN without one.
        `level`, the log2 of the largest projection over the others', is of the mask itself, as are
        the other columns.
    """
    table = table.assign(
        lead=np.log2(table["strength"] / table["strength_majority"]),
        level=np.log2(table["projection"] / table["projection_majority"]),
    )
    keys = [*KEYS, "seed"]
    masked = table[table["arm"] != "dense"]
    dense = table[table["arm"] == "dense"].set_index(keys)[list(CHANGED)]
    base = dense.loc[pd.MultiIndex.from_frame(masked[keys])]
    masked = masked.assign(**{name: masked[name] - base[name].to_numpy() for name in CHANGED})
    growth = masked["growth"].replace(0, np.nan)
    return masked.assign(spill=masked["growth_majority"] / growth)


def iter_points(table: pd.DataFrame) -> Iterator[tuple[dict[str, float], pd.DataFrame]]:
    """Yield each point, as values on the axes, and its rows."""
    for values, rows in table.groupby(KEYS):
        yield dict(zip(KEYS, values, strict=True)), rows


def select_arm(rows: pd.DataFrame, arm: str, update: str = "unmasked") -> pd.DataFrame:
    """Select the rows of one arm and update, with the seed as index.

    Parameters
    ----------
    rows : DataFrame
        Rows of one point.
    arm, update : str
        Values of the columns `arm` and `pruned_update`.
    """
    return rows[(rows["arm"] == arm) & (rows["pruned_update"] == update)].set_index("seed")
