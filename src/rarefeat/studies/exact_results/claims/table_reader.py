"""What the claims of the exact results have in common.

How numbers are read off their tables, by seed.
"""

from typing import Literal

import pandas as pd


def values_by_seed(
    table: pd.DataFrame,
    setting: str,
    quantity: str,
    at: float | None = None,
    column: Literal["value", "stated"] = "value",
) -> pd.Series:
    """A quantity, or what is stated of it, by seed.

    At one place of its axis, or at the last if none is given.
    """
    rows = table[(table["setting"] == setting) & (table["quantity"] == quantity)]
    at = rows["at"].max() if at is None else at
    return rows[rows["at"] == at].set_index("seed")[column].sort_index()


def excess(table: pd.DataFrame, setting: str, quantity: str, at: float | None = None) -> pd.Series:
    """Value less what is stated, by seed."""
    return values_by_seed(table, setting, quantity, at) - values_by_seed(
        table, setting, quantity, at, "stated"
    )


def settings(table: pd.DataFrame, quantity: str) -> list[str]:
    """The settings with a quantity."""
    return list(dict.fromkeys(table.loc[table["quantity"] == quantity, "setting"]))
