"""Rows of published tables, and numbers with their intervals, for the pages."""

import math
from collections.abc import Mapping

import pandas as pd

from rarefeat.errors import RarefeatError

MOST_DIGITS = 6


def select_rows(table: pd.DataFrame, **where) -> pd.DataFrame:
    """Select the rows with these values; if one is a list, with any of them."""
    for key, value in where.items():
        table = table[table[key].isin(value) if isinstance(value, list) else table[key] == value]
    return table


def single_row(table: pd.DataFrame, **where) -> dict:
    """Return the only row with these values; RarefeatError if there is none, or more."""
    records_ = records(select_rows(table, **where))
    if len(records_) != 1:
        raise RarefeatError(f"{len(records_)} rows have {where}, and the page needs one")
    return records_[0]


def records(table: pd.DataFrame) -> list[dict]:
    """Return the rows as dictionaries."""
    return table.to_dict("records")


def number(value: float, digits: int = 3, sign: str = "") -> str:
    """Format a number; empty if it is missing."""
    if value is None or math.isnan(value):
        return ""
    if digits > MOST_DIGITS:
        return f"{value:{sign}.1e}"
    # A rounded 0 has no sign, as the value may have the other one.
    return f"{rounded:{sign}.{digits}f}" if (rounded := round(value, digits)) else f"{0:.{digits}f}"


def decimals(value: float, low: float, high: float, digits: int) -> int:
    """Return the decimals at which neither bounds nor a value that is not zero read as zero."""
    texts = (value, low, high) if low > 0 or high < 0 else (low, high)
    while digits <= MOST_DIGITS and any(x and round(x, digits) == 0 for x in texts):
        digits += 1
    return digits


def interval_bounds(row: Mapping, column: str) -> tuple[float, float]:
    """Return the interval of a column of a row, which is its own or the only one."""
    prefix = "paired_" if column == "paired_difference" else ""
    if f"{column}_ci_low" in row:
        prefix = f"{column}_"
    return row[f"{prefix}ci_low"], row[f"{prefix}ci_high"]


def interval(
    row: Mapping, column: str = "estimate", digits: int = 3, sign: str = "", times: float = 1
) -> str:
    """Format a value with its interval, `0.50 [0.45, 0.55]`, or alone if it has none."""
    value, *bounds = (times * x for x in (row[column], *interval_bounds(row, column)))
    digits = decimals(value, *bounds, digits)
    low, high = (number(bound, digits, sign) for bound in bounds)
    value = number(value, digits, sign)
    return f"{value} [{low}, {high}]" if value and low else value
