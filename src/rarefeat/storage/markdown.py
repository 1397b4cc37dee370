"""Tables and numbers in Markdown."""

import math
import re
from collections.abc import Mapping, Sequence

import pandas as pd

from rarefeat.core.errors import RarefeatError


def plain(text: str) -> str:
    """Text whose `<` in front of a letter, outside of code, is no tag of HTML: of `<w_i, M_j>` nothing would be seen."""
    return re.sub(r"(`[^`\n]*`)|<(?=[A-Za-z])", lambda found: found[1] or "&lt;", text)


def row(*cells: str) -> str:
    """A row of a table."""
    return "| " + " | ".join(plain(cell).replace("|", "\\|") for cell in cells) + " |"


def rows(table: pd.DataFrame, **where) -> pd.DataFrame:
    """The rows with these values; where one is a list, with any of them."""
    for key, value in where.items():
        table = table[table[key].isin(value) if isinstance(value, list) else table[key] == value]
    return table


def one(table: pd.DataFrame, **where) -> dict:
    """The only row with these values; RarefeatError where there is none, or more."""
    found = rows(table, **where)
    if len(found) != 1:
        raise RarefeatError(f"{len(found)} rows have {where}, and the page needs one")
    return found.to_dict("records")[0]  # not through a row, which makes integers floats


def each(table: pd.DataFrame) -> list[dict]:
    """Its rows."""
    return table.to_dict("records")


MOST_DIGITS = 6


def number(value: float, digits: int = 3, sign: str = "") -> str:
    """A number with so many decimals, as a power of ten where these are more than MOST_DIGITS; empty where there is none."""
    if value is None or math.isnan(value):
        return ""
    # Adding zero turns a rounded -0 into 0.
    return f"{value:{sign}.1e}" if digits > MOST_DIGITS else f"{round(value, digits) + 0.0:{sign}.{digits}f}"


def decimals(value: float, low: float, high: float, digits: int) -> int:
    """The decimals, `digits` or more, at which no end of an interval that is not zero reads as zero.

    Nor its value, where zero lies outside.
    """
    told_apart = (value, low, high) if low > 0 or high < 0 else (low, high)
    while digits <= MOST_DIGITS and any(each and round(each, digits) == 0 for each in told_apart):
        digits += 1
    return digits


ENDS = {"paired_difference": ("paired_ci_low", "paired_ci_high")}


def ends(found: Mapping, of: str) -> tuple[float, float]:
    """The interval of one column of a row."""
    low, high = ENDS.get(of, ("ci_low", "ci_high"))
    return found[low], found[high]


def interval(found: Mapping, of: str = "estimate", digits: int = 3, sign: str = "", times: float = 1) -> str:
    """A value with its interval, `0.50 [0.45, 0.55]`; the value alone where it has no interval, empty where there is none."""
    value, *both = (times * each for each in (found[of], *ends(found, of)))
    digits = decimals(value, *both, digits)
    low, high = (number(end, digits, sign) for end in both)
    value = number(value, digits, sign)
    return f"{value} [{low}, {high}]" if value and low else value


def told(found: Mapping, of: str, up: str, down: str, open_: str) -> str:
    """The word for a value whose interval lies above 0, below 0, or holds 0."""
    low, high = ends(found, of)
    return up if low > 0 else down if high < 0 else open_


def pipe(*lines: Sequence[str], right: Sequence[int] = ()) -> str:
    """A Markdown table: its head, then its rows; `right` are the columns of numbers."""
    head, *body = [[str(cell) for cell in line] for line in lines]
    rule = ["---:" if i in right else "---" for i in range(len(head))]
    return "\n".join([row(*head), "|" + "|".join(f" {cell} " for cell in rule) + "|", *(row(*line) for line in body)])
