"""Readers of the tables of exact results, by seed."""

from typing import Literal

import pandas as pd


def values_by_seed(
    table: pd.DataFrame,
    setting: str,
    quantity: str,
    place: float | None = None,
    column: Literal["value", "stated"] = "value",
) -> pd.Series:
    """Return a quantity, or its stated value, by seed."""
    rows = table[(table["setting"] == setting) & (table["quantity"] == quantity)]
    place = rows["at"].max() if place is None else place
    return rows[rows["at"] == place].set_index("seed")[column].sort_index()


def excess(
    table: pd.DataFrame, setting: str, quantity: str, place: float | None = None
) -> pd.Series:
    """Return value less stated value, by seed."""
    return values_by_seed(table, setting, quantity, place) - values_by_seed(
        table, setting, quantity, place, "stated"
    )


def settings(table: pd.DataFrame, quantity: str) -> list[str]:
    """Return the settings with a quantity."""
    return list(dict.fromkeys(table.loc[table["quantity"] == quantity, "setting"]))
