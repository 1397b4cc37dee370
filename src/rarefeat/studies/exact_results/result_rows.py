"""What the results have in common: their rows."""

from typing import NamedTuple

import pandas as pd
from torch import Tensor

from rarefeat.config.cells import Cell


class ResultRow(NamedTuple):
    """A number beside what is stated of it."""

    seed: int
    at: float
    """A place on the axis of its quantity: a loop, a rank, a step; 0 where there is none."""
    quantity: str
    value: float | Tensor
    stated: float | Tensor = float("nan")
    """What the text has for this replica: a closed form, or a bound."""


def rows_to_table(rows: list[ResultRow], cell: Cell) -> pd.DataFrame:
    """Rows of one cell, which is their `setting`, as a table."""
    found = pd.DataFrame(rows, columns=list(ResultRow._fields)).astype(
        {
            "seed": "int64",
            "at": "float64",
            "quantity": "str",
            "value": "float64",
            "stated": "float64",
        }
    )
    found.insert(0, "setting", cell.path)
    return found
