"""Schemas of tables: type, bounds, unit, definition and source of each column."""

import pandas as pd
import pandera.pandas as pa
from pandera.errors import SchemaErrors

from rarefeat.errors import RarefeatError

# Cosines and shares are computed in float32: a perfect alignment may exceed 1 by rounding.
SHARE = pa.Check.in_range(0, 1 + 1e-5)
COSINE = pa.Check.in_range(-1 - 1e-5, 1 + 1e-5)


def column(
    dtype, checks, unit: str, description: str, source: str = "", nullable: bool = False
) -> pa.Column:
    """Declare a column with its unit and source."""
    metadata = {"unit": unit, "source": source}
    return pa.Column(
        dtype, checks=checks, nullable=nullable, description=description, metadata=metadata
    )


def schema(file: str, rows: str, columns: dict, unique: list[str]) -> pa.DataFrameSchema:
    """Declare a strict, ordered schema with a unique key."""
    return pa.DataFrameSchema(
        columns, strict=True, ordered=True, unique=unique, name=file, description=rows
    )


def at_least(value: float) -> pa.Check:
    """Declare a lower bound."""
    return pa.Check.ge(value)


def within(low: float | None, high: float | None) -> pa.Check | None:
    """Declare bounds, of which either may be missing."""
    if low is not None and high is not None:
        return pa.Check.in_range(low, high)
    return pa.Check.ge(low) if low is not None else pa.Check.le(high) if high is not None else None


def validate(kind: pa.DataFrameSchema, table: pd.DataFrame) -> pd.DataFrame:
    """Return a table with its columns in the order of its schema, validated against it.

    It raises RarefeatError naming the first column that is missing, is not of the schema, or breaks
    it.
    """
    if names := [name for name in kind.columns if name not in table]:
        raise RarefeatError(f"table {kind.name}: column {names[0]} is missing")
    if names := [name for name in table.columns if name not in kind.columns]:
        raise RarefeatError(f"table {kind.name}: unknown column {names[0]}")
    try:
        return kind.validate(table[list(kind.columns)], lazy=True)
    except SchemaErrors as error:
        first = error.failure_cases.iloc[0]
        raise RarefeatError(
            f"table {kind.name}: column {first['column']}: {first['check']} fails for"
            f" {first['failure_case']}"
        ) from error


def validate_sorted(kind: pa.DataFrameSchema, table: pd.DataFrame) -> pd.DataFrame:
    """Validate a table and sort it by the key of its schema."""
    return validate(kind, table).sort_values(list(kind.unique), ignore_index=True)
