"""What a run of the workflow does before the first job: take its folder of results, clear it of lost runs, see to its end."""

import _thread
import contextlib
import datetime
import errno
import fcntl
import json
import os
import platform
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rarefeat.core.errors import RarefeatError
from rarefeat.run.metadata import read_job
from rarefeat.storage.files import TEMPORARIES

LOCK = ".lock"


def usable(folder: str) -> str:
    """The folder of results as the config has it; RarefeatError where paths of it would break a command or reach outside."""
    if Path(folder).resolve() in (Path("/"), Path.cwd(), *Path.cwd().parents):
        raise RarefeatError(f"config: results: {folder!r} must be a folder of its own, as in results/mine")
    for place in (folder, str(Path.cwd())):
        if wrong := set(place) & set("'\"{}*?$`\\\n"):
            raise RarefeatError(
                f"config: results: the path {place!r} must be without {min(wrong)!r}, which breaks command lines"
            )
    return folder


def take_over(folder: str | Path) -> None:
    """Lock the folder, remove what killed writers left, and mend the dates of files from the future.

    Raises:
        RarefeatError: for a folder that cannot be written, or that another run works in.
    """
    folder = Path(folder)
    lock(folder / LOCK)
    for path in within(folder):
        if path.match(TEMPORARIES):
            path.unlink(missing_ok=True)
    redate(folder)


def within(folder: Path) -> Iterator[Path]:
    """The files of a folder, without those of other folders of results below it, as results/quick is below results."""
    for place, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not Path(place, name, LOCK).exists()]
        yield from (Path(place, name) for name in names)


def lock(path: Path) -> None:
    """Take the lock for the life of this process, and name the run in it: jobs of an earlier one then write no more.

    Snakemake's own lock lies in the working directory, of which two may share their results.
    """
    since = datetime.datetime.now().isoformat(" ")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)  # never closed: the system releases a lock with its process
        if not locked(descriptor):
            holder = os.read(descriptor, 1000).decode()
            remedy = "wait until it ends, or set `results` to another folder"
            raise RarefeatError(f"{path.parent} is in use by another snakemake, {holder}; {remedy}")
        os.truncate(descriptor, 0)
        os.write(descriptor, f"process {os.getpid()} on {platform.node()} since {since}".encode())
    except OSError as error:
        raise RarefeatError(f"cannot write {path}: {error.strerror}") from error


def locked(descriptor: int) -> bool:
    """Try to lock; True as well on a file system that knows no locks."""
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        return error.errno not in (errno.EACCES, errno.EAGAIN)
    return True


def redate(folder: Path) -> None:
    """Date files from the future, of a clock that was set back, just before now, in their order.

    Such a file would look newer than what is made of other parameters from now on, and Snakemake refuses what is made of it.
    """
    now, dates = time.time_ns(), {}
    for path in within(folder):
        with contextlib.suppress(FileNotFoundError):
            dates[path] = path.stat().st_mtime_ns
    future = sorted({date for date in dates.values() if date > now}, reverse=True)
    mended = {date: now - 1000 * rank for rank, date in enumerate(future)}
    for path, date in dates.items():
        if date in mended:
            with contextlib.suppress(OSError):  # it is another user's, or gone
                os.utime(path, ns=(mended[date], mended[date]))


def refuse_unrecorded(dag: Any) -> None:
    """Refuse to build on files that Snakemake has no record of: it would not see that they were made of another config.

    Records are lost with .snakemake, or where it lay on a full disk. A file that says itself that this job made it is trusted.

    Args:
        dag: Snakemake's jobs, with the reasons to run them.

    Raises:
        RarefeatError: naming one of the files, and how to go on.
    """
    kept = (job for job in dag.jobs if dag.reason(job).no_metadata and not dag.needrun(job))
    files = sorted(str(path) for job in kept for path in job.output if Path(path).exists() and not says(path, job))
    if files:
        others = f" and {len(files) - 1} other files have" if len(files) > 1 else " has"
        raise RarefeatError(
            f"{files[0]}{others} no record in .snakemake, so that a changed config would go unseen; delete what is of another"
            " config, or nothing, and run snakemake --touch --forceall to trust what is left"
        )


def says(path: str | Path, job: Any) -> bool:
    """Whether a file holds the text that its job would be told now."""
    told = job.params.get("job")
    return told is not None and read_job(Path(path)) == json.loads(told)


def handle_in_a_thread(number: int) -> None:
    """Let the handler that a signal has now run in a thread of its own.

    Snakemake's handler of SIGTERM takes a lock; where the signal interrupts the thread that holds it, during the selection of
    jobs, both would wait for ever.
    """
    handler = signal.getsignal(number)
    if callable(handler):
        # Not threading.Thread, whose start takes locks as well.
        signal.signal(number, lambda *received: _thread.start_new_thread(handler, received))
