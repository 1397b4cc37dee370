"""The rows of a measurement."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from torch import Tensor

from rarefeat.workflow.config.cells import Cell


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
