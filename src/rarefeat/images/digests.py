"""What a user's files hold, as one digest: an input by content of the jobs that read them, whatever their names and times."""

import hashlib
import os
import stat
import time
from pathlib import Path

import pyarrow as pa

from rarefeat.core.errors import RarefeatError
from rarefeat.run.cli_helpers import progress
from rarefeat.run.job import Job
from rarefeat.storage.files import read_table, write_table

Files = list[tuple[str, str]]
"""Files in the order that counts, each after what else it stands for, such as its label."""
COLUMNS = ("path", "size", "modified", "changed", "sha256")
FRESH = 2 * 10**9
"""Nanoseconds. A file that has just changed may change again within one tick of the file system's clock."""


def digest_of(files: Files, known: Path | None = None) -> str:
    """One digest of what the files stand for and hold, in their order.

    Args:
        known: Parquet file that remembers the digest of each by its size and times, so that only what is new is read. Where
            it cannot be read or written, all are read.

    Raises:
        RarefeatError: files are missing or cannot be read.
    """
    found = present(files)
    remembered = recall(known) if known else {}
    kept = {path: remembered[path, *of] for path, of in found.items() if (path, *of) in remembered}
    new = [path for path in found if path not in kept]
    for path in progress(new, len(new), "reading") if new else ():
        kept[path] = sha256(path)
    if known and new:
        remember(known, found, kept)
    return hashlib.sha256("".join(f"{mark} {kept[path]}\n" for mark, path in files).encode()).hexdigest()


def present(files: Files) -> dict[str, tuple[int, int, int]]:
    """Size and times, of contents and of all else, of each file."""
    found, missing = {}, []
    for _, path in files:
        try:
            of = os.stat(path)
        except (OSError, ValueError):  # a name may hold a null character
            of = None
        if of is None or not stat.S_ISREG(of.st_mode):
            missing.append(path)
        else:
            found[path] = of.st_size, of.st_mtime_ns, of.st_ctime_ns
    if missing:
        raise RarefeatError(
            f"data.folder: {len(missing)} of {len(files)} files are missing, {missing[0]} the first; put them there"
        )
    return found


def sha256(path: str) -> str:
    """Of a file's bytes."""
    try:
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise RarefeatError(f"cannot read {path}: {error.strerror}") from error


def recall(known: Path) -> dict[tuple, str]:
    """Digests by path, size and times; none where there is no such file."""
    try:
        columns = [read_table(known)[name].to_pylist() for name in COLUMNS]
    except (RarefeatError, KeyError):
        return {}
    return {tuple(of): sha for *of, sha in zip(*columns, strict=True)}


def remember(known: Path, found: dict[str, tuple[int, int, int]], digests: dict[str, str]) -> None:
    """Write what is to be recalled."""
    now = time.time_ns()
    rows = [(path, *of, digests[path]) for path, of in found.items() if now - max(of[1:]) > FRESH]
    # A folder that cannot be written is for the run to refuse, not for its plan.
    try:
        write_table(known, pa.table(dict(zip(COLUMNS, map(list, zip(*rows, strict=True)), strict=True)))) if rows else None
    except (RarefeatError, pa.ArrowException, UnicodeError):
        return


def refuse_changed(job: Job, name: str, files: Files) -> None:
    """RarefeatError where files are not those that the job was planned with."""
    if name in job.config and digest_of(files) != job.config[name]:
        raise RarefeatError(f"{job.study}: the files have changed since this run was planned; run snakemake again")
