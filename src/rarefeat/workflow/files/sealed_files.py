"""Files that are either whole or absent, sealed with a hash of their own bytes.

Everything is written under a temporary name, then renamed.
"""

import contextlib
import hashlib
import mmap
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from rarefeat.errors import RarefeatError
from rarefeat.workflow.files.origin import KEY, check_origin

# The metadata of a file hold its hash, computed with BLANK in its place. Between key and value
# Parquet puts two bytes, safetensors three and our own JSON four.
SEAL, BLANK = "rarefeat.file_sha256", "0" * 64
SEALED = re.compile(re.escape(SEAL.encode()) + rb".{2,4}([0-9a-f]{64})", re.DOTALL)

# The mark in the temporary names of `atomic_write`, which no user's file has.
MARK = "rarefeat-tmp"
TEMPORARIES = f".*.{MARK}*"


class DamagedFileError(RarefeatError):
    """A file whose bytes are not those that were written."""


@contextlib.contextmanager
def atomic_write(path: str | Path) -> Iterator[Path]:
    """Yield a temporary path; rename it to `path` on success, remove it on any failure.

    The file is whole even after a loss of power, which takes the disk some milliseconds. It raises
    RarefeatError, naming `path`, if the disk is full or the folder cannot be written.
    """
    path = Path(path)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{MARK}{path.suffix}")
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


def hash_without_seal(path: str | Path) -> tuple[int, bytes, bytes]:
    """Return where the seal of a file stands, the hash in it and the hash of the bytes."""
    with (
        open(path, "rb") as handle,
        mmap.mmap(handle.fileno(), 0, access=mmap.ACCESS_READ) as content,
    ):
        if not (match := SEALED.search(content)):
            raise ValueError("no seal")
        with memoryview(content) as view:
            hashed = hashlib.sha256(view[: match.start(1)])
            hashed.update(BLANK.encode())
            hashed.update(view[match.end(1) :])
        return match.start(1), match[1], hashed.hexdigest().encode()


def seal(path: Path) -> None:
    """Write the hash of a file where its metadata hold BLANK."""
    start, _, hashed = hash_without_seal(path)
    with open(path, "r+b") as handle:
        handle.seek(start)
        handle.write(hashed)


def verify(path: str | Path) -> None:
    """Raise RarefeatError unless every byte of a sealed file is as it was written."""
    try:
        _, written, hashed = hash_without_seal(path)
    except ValueError:  # an empty file has no map
        written, hashed = b"", b"none"
    except OSError as error:
        raise read_error(path, error) from error
    if written != hashed:
        reason = "it is damaged, its bytes are not those that were written"
        raise read_error(path, ValueError(reason))


def write_file(path: str | Path, content: str | bytes, sealed: bool = False) -> None:
    """Write text or bytes."""
    with atomic_write(path) as temporary:
        temporary.write_bytes(content.encode() if isinstance(content, str) else content)
        if sealed:
            seal(temporary)


def write_table(
    path: str | Path, table: pa.Table, metadata: Mapping[str, str] | None = None
) -> None:
    """Write a sealed Parquet file."""
    schema = {key.decode(): value for key, value in (table.schema.metadata or {}).items()}
    table = table.replace_schema_metadata({**schema, **(metadata or {}), SEAL: BLANK})
    with atomic_write(path) as temporary:
        pq.write_table(table, temporary, compression="zstd")
        seal(temporary)


def read_table(path: str | Path, expected: Mapping[str, Any] | None = None) -> pa.Table:
    """Read a file of `write_table`; RarefeatError if missing, damaged, or not as expected."""
    verify(path)
    try:
        table = pq.ParquetFile(path).read()
    except (pa.ArrowInvalid, OSError) as error:
        raise read_error(path, error) from error
    if expected is not None:
        check_origin(path, (table.schema.metadata or {}).get(KEY.encode()), expected)
    return table


def read_error(path: str | Path, error: Exception) -> RarefeatError:
    """Return one line that names the file; DamagedError unless the system is at fault."""
    if isinstance(error, OSError) and error.errno:
        return RarefeatError(f"cannot read {path}: {error.strerror}")
    reason = str(error).splitlines()[0] if str(error) else type(error).__name__
    return DamagedFileError(f"cannot read {path}: {reason}; delete it and run snakemake again")
