"""Files that are either whole or absent, and of which nothing is read that was not written.

Everything is written under a temporary name, then renamed; tables and tensors hold a hash of their own bytes.
"""

import contextlib
import hashlib
import mmap
import os
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from rarefeat.core.errors import RarefeatError
from rarefeat.storage.origin import KEY, refuse_another

# A file's own hash, taken with BLANK in its place, stands under this key of its metadata. Parquet puts two bytes between both,
# safetensors three.
SEAL, BLANK = "rarefeat.file_sha256", "0" * 64
SEALED = re.compile(re.escape(SEAL.encode()) + rb".{2,3}([0-9a-f]{64})", re.DOTALL)

# Of a job of the workflow: its run, and the file that names the run in charge of the results (results_folder.py).
RUN, LOCK = os.environ.get("RAREFEAT_RUN"), os.environ.get("RAREFEAT_LOCK")
PARENT = os.getppid()
# The Snakemake that started the job's shell, which outlives it.
SNAKEMAKE = os.environ.get("RAREFEAT_SNAKEMAKE")
# For a stage in a fork of a server (run/workers.py), the process that the job's shell waits for.
CLIENT = os.environ.get("RAREFEAT_CLIENT")

# The temporary names of `replacing`.
TEMPORARIES = ".*.[0-9]*.tmp*"


class DamagedError(RarefeatError):
    """A file that is not what was written."""


def status(process: str | None) -> list[str]:
    """What Linux says of another process, from its state on; nothing where it has ended, or elsewhere than on Linux."""
    try:
        found = Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    except OSError:
        return []
    return [] if found[0] in "ZX" else found


def parent(process: str | None) -> str:
    """The parent of another process; none where that one has ended."""
    return (status(process) or ["", ""])[1]


def born(process: str | None) -> str:
    """When another process began, which tells it from a later one of its number; none where it has ended."""
    return "".join(status(process)[19:20])


SHELL, BORN = parent(CLIENT), born(SNAKEMAKE)


def abandoned() -> bool:
    """Whether the run that this job belongs to is gone; what the job has made may be of another config by now."""
    if not RUN:
        return False
    orphaned = os.getppid() != PARENT or (CLIENT and (not SHELL or parent(CLIENT) != SHELL))
    # It may have ended before this was imported.
    masterless = SNAKEMAKE and sys.platform == "linux" and (not BORN or born(SNAKEMAKE) != BORN)
    return bool(orphaned or masterless) or Path(LOCK).read_text(encoding="utf-8") != RUN


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
        if abandoned():
            raise RarefeatError(f"{path} is not written: the snakemake that asked for it is gone")
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
