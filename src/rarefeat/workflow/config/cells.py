"""The cells of a study's grid, and where their files lie: one scheme for every kind of study."""

import itertools
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar

from pydantic import BeforeValidator

from rarefeat.workflow.config.section import check_distinct

Value = float | int | str


@dataclass(frozen=True)
class Cell:
    """One point of a grid: a value on each of its axes, in order, and the arms compared there."""

    axes: tuple[tuple[str, Value], ...]
    arms: tuple[Any, ...] = ()

    def __getitem__(self, axis: str) -> Value:
        """The value on one axis."""
        return dict(self.axes)[axis]

    @property
    def values(self) -> dict[str, Value]:
        """The value on each axis."""
        return dict(self.axes)

    @property
    def path(self) -> str:
        """Folder of the cell below its study's: `axis=value/axis=value`."""
        return "/".join(f"{axis}={value}" for axis, value in self.axes)

    @property
    def trained(self) -> list[Any]:
        """The arms with a training."""
        return [arm for arm in self.arms if arm.trained]

    @property
    def untrained(self) -> list[Any]:
        """The arms without one."""
        return [arm for arm in self.arms if not arm.trained]

    def restrict_to(self, *axes: str) -> "Cell":
        """The cell on some of the axes alone, as what several cells share has it."""
        return Cell(tuple((axis, value) for axis, value in self.axes if axis in axes))


def cell(**values: Value) -> Cell:
    """Return a cell without arms."""
    return Cell(tuple(values.items()))


def expand_arms(arms: list[Any]) -> list[Any]:
    """Return arms of a config; one with lists of values is an arm for each combination of them."""
    expanded = []
    for entry in arms:
        if not isinstance(entry, dict):
            expanded.append(entry)
            continue
        axes = {key: value if isinstance(value, list) else [value] for key, value in entry.items()}
        for key, values in axes.items():
            if not values:
                raise ValueError(
                    f"{key}: an empty list stands for no arm; give a value, or leave the arm out"
                )
            try:
                check_distinct(values)
            except ValueError as error:
                raise ValueError(f"{key}: {error}") from error
        expanded += [
            dict(zip(axes, values, strict=True)) for values in itertools.product(*axes.values())
        ]
    return expanded


Compared = TypeVar("Compared")
Arms = Annotated[
    list[Compared], BeforeValidator(lambda raw: expand_arms(raw) if isinstance(raw, list) else raw)
]
"""What a study compares."""


def cell_path(folder: str, study: str, cell: Cell, block: str, suffix: str) -> str:
    """Return the path of the file of one cell and seed block, below the folder of results."""
    seeds = f"seeds={block}" if block else ""
    return "/".join(filter(None, (folder, study, cell.path, seeds))) + f".{suffix}"
