"""What a table may hold: type, bounds, unit, definition and source of each column, checked before it is written."""

import pandas as pd
import pandera.pandas as pa
from pandera.errors import SchemaErrors

from rarefeat.core.errors import RarefeatError


def column(dtype, checks, unit: str, description: str, source: str = "", nullable: bool = False) -> pa.Column:
    """A column with its unit and source beside the description."""
    return pa.Column(
        dtype, checks=checks, nullable=nullable, description=description, metadata={"unit": unit, "source": source}
    )


def schema(file: str, rows: str, columns: dict, unique: list[str]) -> pa.DataFrameSchema:
    """A strict, ordered schema with a unique key.

    Args:
        file: name of the table, where `{study}` stands for a study's. rows: what a row is, for people.
    """
    return pa.DataFrameSchema(columns, strict=True, ordered=True, unique=unique, name=file, description=rows)


def described(**meanings: str) -> dict[str, str]:
    """Names of metrics with what they mean, for people: an edit of a meaning reruns nothing (run/digests.py)."""
    return meanings


def listed(meanings: dict[str, str]) -> str:
    """Meanings in one text."""
    return "; ".join(f"{name}: {text}" for name, text in meanings.items())


def at_least(value: float) -> pa.Check:
    """Lower bound."""
    return pa.Check.ge(value)


# Cosines and shares are computed in float32: a perfect alignment may exceed 1 by rounding.
SHARE = pa.Check.in_range(0, 1 + 1e-5)
COSINE = pa.Check.in_range(-1 - 1e-5, 1 + 1e-5)


def checked(kind: pa.DataFrameSchema, table: pd.DataFrame) -> pd.DataFrame:
    """The table, its columns in order; RarefeatError naming the first column that breaks the schema."""
    try:
        return kind.validate(table[list(kind.columns)], lazy=True)
    except SchemaErrors as error:
        first = error.failure_cases.iloc[0]
        raise RarefeatError(
            f"table {kind.name}: column {first['column']}: {first['check']} fails for {first['failure_case']}"
        ) from error
    except KeyError as error:
        raise RarefeatError(f"table {kind.name}: {error.args[0]}") from error


def ordered(kind: pa.DataFrameSchema, table: pd.DataFrame) -> pd.DataFrame:
    """A checked table in the order of its schema, sorted by its key."""
    return checked(kind, table[list(kind.columns)].sort_values(list(kind.unique), ignore_index=True))
