"""What stands in a file of tensors or in an intermediate table, declared for people beside the code that writes it."""

from collections.abc import Collection
from dataclasses import dataclass

from pandera.pandas import DataFrameSchema


@dataclass(frozen=True)
class Entry:
    """A tensor, or a column."""

    name: str
    """`{seed}` and the like stand for what varies."""
    type: str
    meaning: str
    shape: tuple[str, ...] | None = ()
    """Of a tensor, axis by axis; None where it is that of another thing, which the meaning names."""


@dataclass(frozen=True)
class Contents:
    """A kind of file."""

    path: str
    """Below the folder of results."""
    stage: str
    """Module that writes it."""
    about: str
    entries: tuple[Entry, ...]


def columns(schema: DataFrameSchema, but: Collection[str] = ()) -> tuple[Entry, ...]:
    """The columns of a table that is made from such files, without those that the file's path says."""
    kinds = {name: str(item.dtype) for name, item in schema.columns.items()}
    return tuple(
        Entry(name, "string" if "str" in kinds[name] else kinds[name], item.description)
        for name, item in schema.columns.items()
        if name not in but
    )
