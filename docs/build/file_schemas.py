"""What the files of tensors and intermediate tables hold: a test holds it against the stages."""

from collections.abc import Collection
from typing import NamedTuple

from pandera.pandas import DataFrameSchema


class FileEntry(NamedTuple):
    """A tensor or a column; `{seed}` and the like in its name stand for what varies."""

    name: str
    type: str
    meaning: str
    shape: tuple[str, ...] | None = ()
    """Axes of a tensor; None if the meaning names another thing that it has the shape of."""


class FileSchema(NamedTuple):
    """A kind of file: its path below the results and the module that writes it."""

    path: str
    stage: str
    about: str
    entries: tuple[FileEntry, ...]


def columns(schema: DataFrameSchema, but: Collection[str] = ()) -> tuple[FileEntry, ...]:
    """List the columns of a schema as entries, but for those that stand in the file's path."""
    types = {name: str(item.dtype) for name, item in schema.columns.items()}
    return tuple(
        FileEntry(name, "string" if "str" in types[name] else types[name], item.description)
        for name, item in schema.columns.items()
        if name not in but
    )
