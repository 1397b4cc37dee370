"""Files that are either whole or absent: everything is written under a temporary name, then renamed."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq


class RarefeatError(Exception):
    """Something the user can mend, said in one line."""


@contextlib.contextmanager
def replacing(path: str | Path) -> Iterator[Path]:
    """Yield a temporary path beside `path`; rename it on success, remove it on any failure.

    Raises RarefeatError, naming `path`, where the disk is full or the folder cannot be written.
    """
    path = Path(path)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp{path.suffix}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield temporary
        with open(temporary, "rb") as handle:
            os.fsync(handle.fileno())
        os.replace(temporary, path)
    except OSError as error:
        raise RarefeatError(f"cannot write {path}: {error.strerror or error}") from error
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink()


def write_table(path: str | Path, table: pa.Table, metadata: dict[str, str] | None = None) -> None:
    """Write Parquet; `metadata` goes into the file's own key-value metadata."""
    if metadata:
        table = table.replace_schema_metadata({**(table.schema.metadata or {}), **metadata})
    with replacing(path) as temporary:
        pq.write_table(table, temporary, compression="zstd")


def read_table(path: str | Path) -> pa.Table:
    """Read one Parquet file; RarefeatError where it is missing or damaged."""
    try:
        return pq.ParquetFile(path).read()
    except (pa.ArrowException, OSError) as error:
        raise unreadable(path, error) from error


def unreadable(path: str | Path, error: Exception) -> RarefeatError:
    """One line that names the damaged file and what to do."""
    reason = str(error).splitlines()[0] if str(error) else type(error).__name__
    return RarefeatError(f"cannot read {path}: {reason}; delete it and run snakemake again")
