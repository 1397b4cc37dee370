"""Rows of the results, in the form that all of them share."""

from typing import NamedTuple

import pandas as pd
from torch import Tensor

from rarefeat.workflow.config.cells import Cell

COLUMNS = ["seed", "at", "quantity", "value", "stated"]
"""Columns of a table of results, in the order of the fields of `ResultRow`."""


class ResultRow(NamedTuple):
    """A number of a replica with its stated value."""

    seed: int
    place: float
    """Place on the axis of its quantity, column `at`: a loop, a rank, a step.

    0 where there is none.
    """
    quantity: str
    value: float | Tensor
    stated: float | Tensor = float("nan")
    """Value that the text has for this replica: a closed form, or a bound."""


def rows_to_table(rows: list[ResultRow], cell: Cell) -> pd.DataFrame:
    """Return rows of one cell, which is their `setting`, as a table."""
    table = pd.DataFrame(rows, columns=COLUMNS).astype(
        {
            "seed": "int64",
            "at": "float64",
            "quantity": "str",
            "value": "float64",
            "stated": "float64",
        }
    )
    table.insert(0, "setting", cell.path)
    return table
