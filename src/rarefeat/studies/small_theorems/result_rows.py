"""Rows of the table of small theorems."""

from typing import NamedTuple

from torch import Tensor


class ResultRow(NamedTuple):
    """A number of a replica with what is stated of it."""

    seed: int
    quantity: str
    value: float | Tensor
    stated: float | Tensor = float("nan")
    """Value that the text has for this replica: a closed form, or a bound."""
    place: float = 0.0
    """Place on the axis of its quantity, column `at`; 0 where there is none."""
