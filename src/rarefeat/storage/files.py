"""Files that are either whole or absent, and of which nothing is read that was not written.

Everything is written under a temporary name, then renamed; tables and tensors hold a hash of their own bytes.
"""

import contextlib
import hashlib
import json
import mmap
import os
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from rarefeat.core.errors import RarefeatError
from rarefeat.storage.origin import KEY, refuse_another

# A file's own hash, taken with BLANK in its place, stands under this key of its metadata. Parquet puts two bytes between both,
# safetensors three, our JSON four.
SEAL, BLANK = "rarefeat.file_sha256", "0" * 64
SEALED = re.compile(re.escape(SEAL.encode()) + rb".{2,4}([0-9a-f]{64})", re.DOTALL)

# The temporary names of `replacing`.
TEMPORARIES = ".*.[0-9]*.tmp*"

# Asked before a file gets its name: each says why it must not, or nothing (run/guard.py).
REFUSALS: list[Callable[[], str]] = []


class DamagedError(RarefeatError):
    """A file that is not what was written."""


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
        if why := next(filter(None, (refusal() for refusal in REFUSALS)), ""):
            raise RarefeatError(f"{path} is not written: {why}")
        os.replace(temporary, path)
    except OSError as error:
        raise RarefeatError(f"cannot write {path}: {error.strerror or error}") from error
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink()


def sealed_hash(content: mmap.mmap, start: int, end: int) -> bytes:
    """Hash of a file whose seal stands at start:end."""
    hashed = hashlib.sha256()
    with memoryview(content) as view:
        for part in (view[:start], BLANK.encode(), view[end:]):
            hashed.update(part)
    return hashed.hexdigest().encode()


def seal(path: Path) -> None:
    """Put a file's own hash where its metadata hold BLANK."""
    with open(path, "r+b") as handle:
        with mmap.mmap(handle.fileno(), 0, access=mmap.ACCESS_READ) as content:
            start, end = SEALED.search(content).span(1)
            hashed = sealed_hash(content, start, end)
        handle.seek(start)
        handle.write(hashed)


def verify(path: str | Path) -> None:
    """RarefeatError unless every byte of a sealed file is as it was written."""
    try:
        with open(path, "rb") as handle, mmap.mmap(handle.fileno(), 0, access=mmap.ACCESS_READ) as content:
            found = SEALED.search(content)
            whole = found is not None and sealed_hash(content, *found.span(1)) == found[1]
    except ValueError:  # an empty file has no map
        whole = False
    except OSError as error:
        raise unreadable(path, error) from error
    if not whole:
        raise unreadable(path, ValueError("it is damaged, its bytes are not those that were written"))


def refuse_cut(path: Path) -> None:
    """RarefeatError where a sealed table or file of tensors is shorter or longer than its own head says; bytes are not looked at."""
    size = path.stat().st_size
    with open(path, "rb") as handle:
        if path.suffix == ".parquet":
            handle.seek(max(0, size - 8))
            end = handle.read()
            whole = end[4:] == b"PAR1" and int.from_bytes(end[:4], "little") + 12 <= size
        else:
            length = int.from_bytes(handle.read(8), "little")
            head = json.loads(handle.read(length))
            whole = size == 8 + length + max(
                (part["data_offsets"][1] for name, part in head.items() if name[:2] != "__"), default=0
            )
    if not whole:
        raise unreadable(path, ValueError("it is damaged, its bytes are not those that were written"))


def write_file(path: str | Path, content: str | bytes, sealed: bool = False) -> None:
    """Write a text, or bytes; sealed: with their own hash where BLANK stands."""
    with replacing(path) as temporary:
        temporary.write_bytes(content.encode() if isinstance(content, str) else content)
        if sealed:
            seal(temporary)


def write_table(path: str | Path, table: pa.Table, metadata: dict[str, str] | None = None) -> None:
    """Write Parquet; `metadata` goes into the file's own key-value metadata."""
    kept = {key.decode(): value for key, value in (table.schema.metadata or {}).items()}
    table = table.replace_schema_metadata({**kept, **(metadata or {}), SEAL: BLANK})
    with replacing(path) as temporary:
        pq.write_table(table, temporary, compression="zstd")
        seal(temporary)


def read_table(path: str | Path, expected: Mapping[str, Any] | None = None) -> pa.Table:
    """Read one Parquet file of write_table; RarefeatError where it is missing, damaged, or not what is expected (origin.py)."""
    verify(path)
    try:
        table = pq.ParquetFile(path).read()
    except (pa.ArrowInvalid, OSError) as error:
        raise unreadable(path, error) from error
    if expected is not None:
        refuse_another(path, (table.schema.metadata or {}).get(KEY.encode(), b"").decode(), expected)
    return table


def unreadable(path: str | Path, error: Exception) -> RarefeatError:
    """One line that names the file and what to do: DamagedError, but where permissions, the disk or memory are at fault."""
    if isinstance(error, OSError) and error.errno:
        return RarefeatError(f"cannot read {path}: {error.strerror}")
    reason = str(error).splitlines()[0] if str(error) else type(error).__name__
    return DamagedError(f"cannot read {path}: {reason}; delete it and run snakemake again")
