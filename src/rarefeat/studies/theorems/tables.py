"""The tables of all theorems: their schemas, means over seeds, and a reader of one point."""

from collections.abc import Iterable

import pandas as pd
import pandera.pandas as pa

from rarefeat.statistics import UNBOUNDED, student_interval
from rarefeat.workflow.files.schema import at_least, column, format_descriptions, schema

SHI = "shi_feature_learning"
NUMBER = "of the quantity"
SETTING = column(str, None, "", "cell of the result: its axis and value")
AXIS = "of the quantity's axis"
PLACE = "loop, rank, step, radius, label or penalty; 0 where there is none"
SHARES = {
    "id_accuracy", "ood_accuracy", "rank_ood_accuracy", "accuracy", "one_frequency", "aligned",
    "median_cosine",
}  # fmt: skip
"""Quantities from 0 to 1, and so the ends of their intervals."""


def numbers_schema(
    table: str, keys: dict[str, pa.Column], at: str, names: Iterable[str], meaning: str, source: str
) -> pa.DataFrameSchema:
    """Return the schema of a table of rows with some keys and names of quantities."""
    stated = "what the text has of it: a closed form, or a bound"
    unique = [*keys, "seed", "at", "quantity"]
    columns = {
        **keys,
        "seed": column("int64", at_least(0), "", "seed of the replica"),
        "at": column(float, None, AXIS, at),
        "quantity": column(str, pa.Check.isin(list(names)), "", meaning),
        "value": column(float, None, NUMBER, "the number", nullable=True),
        "stated": column(float, None, NUMBER, stated, source, nullable=True),
    }
    return schema(table, f"a row per ({', '.join(unique)})", columns, unique)


def result_schema(result: str, quantities: dict[str, str]) -> pa.DataFrameSchema:
    """Return the schema of the table of an exact result, from the meanings of its quantities."""
    meaning = format_descriptions(quantities)
    return numbers_schema(result, {"setting": SETTING}, PLACE, quantities, meaning, SHI)


def means(table: pd.DataFrame, keys: list[str]) -> pd.DataFrame:
    """Return mean, 95 % interval and n over seeds, and the mean stated value, by group."""
    rows = []
    for values, group in table.groupby(keys, sort=False):
        inside = (0.0, 1.0) if values[keys.index("quantity")] in SHARES else UNBOUNDED
        mean, _, low, high, n = student_interval(group["value"].to_numpy(), inside=inside)
        rows.append((*values, mean, low, high, n, group["stated"].mean()))
    return pd.DataFrame(rows, columns=[*keys, "mean", "ci_low", "ci_high", "n", "stated"])


class Numbers:
    """The rows of one setting or point, read by quantity."""

    def __init__(self, rows: pd.DataFrame) -> None:
        self.rows = rows

    def of(self, quantity: str) -> pd.DataFrame:
        """Return the rows of a quantity."""
        return self.rows[self.rows["quantity"] == quantity]

    def places(self, quantity: str) -> list[float]:
        """Return the places of a quantity, ascending."""
        return sorted(self.of(quantity)["at"].unique())

    def __call__(self, quantity: str, at: float | None = None, column: str = "value") -> pd.Series:
        """Return values by seed, at the last place if none is given."""
        rows = self.of(quantity)
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
