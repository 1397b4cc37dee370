"""The tables of all theorems: their schemas, and means over seeds."""

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
