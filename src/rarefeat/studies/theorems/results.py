"""The rows of a measurement, a reader for claims and figures, and the tables of all theorems."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import pandas as pd
from pandera.pandas import DataFrameSchema
from torch import Tensor

from rarefeat.statistics import UNBOUNDED
from rarefeat.studies.experiment import SEED, Column, TableColumns, column, meanings, means_of, text
from rarefeat.workflow.config.cells import Cell

SHI = "shi_feature_learning"
SETTING = text("cell of the result: its axis and value")
PLACE = column(
    "loop, rank, step, radius, label or penalty; 0 where there is none",
    unit="of the quantity's axis",
)
NUMBER = {"unit": "of the quantity", "missing": True}
SHARES = {
    "id_accuracy", "ood_accuracy", "rank_ood_accuracy", "accuracy", "one_frequency", "aligned",
    "median_cosine",
}  # fmt: skip
"""Quantities from 0 to 1, and so the ends of their intervals."""


class Row(NamedTuple):
    """A number of a replica, and what the text has of it: a closed form, or a bound."""

    seed: int
    quantity: str
    value: float | Tensor
    stated: float | Tensor = float("nan")
    at: float = 0.0
    """Place on the axis of the quantity, as a loop, a rank or a step; 0 where there is none."""


def plain_rows(rows: Iterable[Row], **keys: str) -> list[dict]:
    """Return rows as plain numbers, each with the keys of its cell."""
    return [
        {
            **keys, "seed": row.seed, "at": float(row.at), "quantity": row.quantity,
            "value": float(row.value), "stated": float(row.stated),
        }
        for row in rows
    ]  # fmt: skip


def setting_rows(rows: Iterable[Row], cell: Mapping) -> list[dict]:
    """Return rows of an exact result; `axis=value` of its cell is their `setting`."""
    return plain_rows(rows, setting=Cell(tuple(cell.items())).path)


def recorded_steps(steps: int, count: int) -> set[int]:
    """Return 0 and `count` steps up to the last one, about evenly in their logarithm."""
    return {0} | {round(steps ** (i / (count - 1))) for i in range(count)}


def of_quantity(table: pd.DataFrame, quantity: str) -> pd.DataFrame:
    """Return the rows of a quantity."""
    return table[table["quantity"] == quantity]


class Numbers:
    """The rows of one setting or point, read by quantity."""

    def __init__(self, rows: pd.DataFrame) -> None:
        self.rows = rows

    def places(self, quantity: str) -> list[float]:
        """Return the places of a quantity, ascending."""
        return sorted(of_quantity(self.rows, quantity)["at"].unique())

    def __call__(self, quantity: str, at: float | None = None, column: str = "value") -> pd.Series:
        """Return values by seed, at the last place if none is given."""
        rows = of_quantity(self.rows, quantity)
        rows = rows[rows["at"] == (rows["at"].max() if at is None else at)]
        return rows.set_index("seed")[column].sort_index()

    def stated(self, quantity: str, at: float | None = None) -> pd.Series:
        """Return stated values by seed."""
        return self(quantity, at, "stated")

    def excess(self, quantity: str, at: float | None = None) -> pd.Series:
        """Return value less stated value by seed."""
        return self(quantity, at) - self.stated(quantity, at)


def by_setting(table: pd.DataFrame) -> dict[str, Numbers]:
    """Return the numbers of each setting of an exact result."""
    return {name: Numbers(rows) for name, rows in table.groupby("setting", sort=False)}


def settings_on(table: pd.DataFrame, axis: str) -> dict[float, str]:
    """Return settings by their value on an axis of numbers, ascending."""
    names = table["setting"].unique()
    return dict(sorted((float(name.removeprefix(f"{axis}=")), name) for name in names))


def numbers_schema(
    table: str, keys: Mapping[str, Column], place: Column, meaning: str, source: str = ""
) -> DataFrameSchema:
    """Return the schema of a table of rows with some keys and the meaning of its quantities."""
    stated = "what the text has of it: a closed form, or a bound"
    unique = [*keys, "seed", "at", "quantity"]
    columns = {
        **keys,
        "seed": SEED,
        "at": place,
        "quantity": text(meaning),
        "value": column("the number", **NUMBER),
        "stated": column(stated, source=source, **NUMBER),
    }
    return TableColumns(table, f"a row per ({', '.join(unique)})", columns, unique).schema


def result_schema(result: str, quantities: dict[str, str]) -> DataFrameSchema:
    """Return the schema of the table of an exact result, from the meanings of its quantities."""
    return numbers_schema(result, {"setting": SETTING}, PLACE, meanings(quantities), SHI)


def means(table: pd.DataFrame, keys: list[str]) -> pd.DataFrame:
    """Return mean, 95 % interval and n over seeds, and the mean stated value, by group."""
    found = means_of(table, keys, inside=lambda name: (0, 1) if name in SHARES else UNBOUNDED)
    stated = table.groupby(keys)["stated"].mean().to_numpy()
    return found.drop(columns="sd").assign(stated=stated)
