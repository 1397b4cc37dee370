"""What a run of the workflow does before the first job: take its folder of results, clear it of lost runs, see to its end."""

import _thread
import contextlib
import datetime
import errno
import fcntl
import functools
import json
import os
import platform
import signal
import stat
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rarefeat.config.names import short
from rarefeat.core.errors import RarefeatError
from rarefeat.run.job import parsed
from rarefeat.run.metadata import of_job, read_job
from rarefeat.storage.files import TEMPORARIES

LOCK = ".lock"


OF_THE_PROJECT = ("benchmarks", "config", "docs", "profiles", "src", "tests", "workflow")
"""Folders that hold the project itself."""
CODE = Path(__file__).parents[2]
"""The folder of the package that plans."""


def usable(folder: str) -> str:
    """The folder of results by the one name that it has in this run: without `.`, `..` and double strokes, below here if it is.

    Raises:
        RarefeatError: where it is no folder, holds something else, or would break a command.
    """
    if "://" in folder:
        raise RarefeatError(f"config: results: {folder!r} must be a folder that the file system has, not an address")
    named = str(Path(os.path.realpath(folder) if ".." in Path(folder).parts else folder))
    named = named.replace("//", "/", 1)  # which a path may begin with
    here = Path.cwd()
    if Path(named).is_absolute() and Path(named).is_relative_to(here):
        named = os.path.relpath(named, here)
    for place in (named, str(here), os.path.dirname(sys.executable), str(CODE)):
        odd = set(place) & set("'\"{}*?$`\\" + ":" * (place == os.path.dirname(sys.executable)))
        odd |= {character for character in place if not character.isprintable()}
        if odd:
            raise RarefeatError(f"config: results: the path {place!r} must be without {min(odd)!r}, which breaks command lines")
    first = Path(named).parts[0] if named != "." else "."
    if first in OF_THE_PROJECT or first[0] in ".-~" or here.is_relative_to(os.path.realpath(named)):
        raise RarefeatError(
            f"config: results: {folder!r} must be a folder of its own, as in results/mine: none of the project's, none that is"
            " hidden, and none that begins with - or ~"
        )
    above = Path(named)
    try:
        while not (above.exists() or above.is_symlink()):
            above = above.parent
        if not stat.S_ISDIR(above.stat().st_mode):
            raise NotADirectoryError(errno.ENOTDIR, "it is no folder")
    except OSError as error:
        raise RarefeatError(
            f"config: results: {short(folder)} cannot be used: {short(str(above))}: {error.strerror}"
        ) from error
    return named


def deployable(code: Path, image: str) -> None:
    """See to it that jobs in an environment of their own find the code that planned them, and their container.

    Args:
        code: the folder that holds the package; with others beside it, their Python would find these before its own.
        image: the file of the container in the working directory; empty for none.

    Raises:
        RarefeatError: where they would not.
    """
    if (code / "torch").exists():
        raise RarefeatError(
            f"--software-deployment-method: the code must be that of a clone, installed with pip install --editable, and is in"
            f" {code} beside other packages; else activate an environment, or start snakemake in the container"
        )
    if image and not Path(image).is_file():
        raise RarefeatError(
            f"--software-deployment-method: {image} must be in the working directory; docs/operations/cluster.md says"
            " how to build it"
        )


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
    """The files of a folder and links to folders, without what is in other folders of results below it, as results/quick is."""
    for place, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not Path(place, name, LOCK).exists()]
        yield from (Path(place, name) for name in names + [name for name in folders if Path(place, name).is_symlink()])


def nested(folder: Path) -> list[Path]:
    """Other folders of results below one of results: those with a lock."""
    return sorted(path.parent for path in folder.rglob(f"*/{LOCK}"))


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


def rerun_what_files_say() -> None:
    """Let Snakemake make again what says that another job made it than the one of today, or what nobody knows anything of.

    Its own records lie in .snakemake, a file for each name of a file: another clone, another spelling of the folder or a lost
    disk has none of them, or older ones, and a changed config would go unseen. Files hold what they are made from, which is
    compared first; one without a record is trusted where it says today's job.
    """
    # Not at the top: importing it takes as long as a short job.
    from snakemake.persistence import ParamsChange
    from snakemake.persistence import PersistenceBase as Records

    has, changed = Records.has_metadata, Records.params_changed
    if hasattr(has, "__wrapped__"):
        return

    @functools.wraps(has)
    def has_metadata(self: Any, job: Any) -> bool:
        return has(self, job) or bool(other_job(job, recorded=False))

    @functools.wraps(changed)
    def params_changed(self: Any, job: Any, file: Any = None) -> Any:
        if found := other_job(job, recorded=has(self, job)):
            path, before, now = found
            return ParamsChange({repr(before)}, {repr(now)}, {path})
        return changed(self, job, file)

    Records.has_metadata, Records.params_changed = has_metadata, params_changed


def other_job(job: Any, recorded: bool) -> tuple[str, str, str] | None:
    """A file of one of Snakemake's jobs that another one made, with that and this as text; None where there is none.

    Args:
        recorded: whether Snakemake knows the files; one of others that says nothing is of another job.
    """
    file = job.params.get("job")
    now = Path(file).read_text(encoding="utf-8") if file else None
    for path in filter(os.path.exists, job.output):
        before = read_job(Path(path)) if now else None
        if before is None:
            if not recorded:
                return path, "a file that nothing is known of", "what is made now"
        elif not of_job(before, now):
            told = json.loads(now)
            if "job" in before:  # of a table or a figure, which has the identity of its job alone
                before, told = {"job": before["job"]}, {"job": parsed(now).identity}
            return path, json.dumps(before, sort_keys=True), json.dumps(told, sort_keys=True)
    return None


def handle_in_a_thread(number: int) -> None:
    """Let the handler that a signal has now run in a thread of its own.

    Snakemake's handler of SIGTERM takes a lock; where the signal interrupts the thread that holds it, during the selection of
    jobs, both would wait for ever.
    """
    handler = signal.getsignal(number)
    if callable(handler):
        # Not threading.Thread, whose start takes locks as well.
        signal.signal(number, lambda *received: _thread.start_new_thread(handler, received))


def leave_at_once() -> None:
    """Let a run end with its last job.

    Where submissions are limited Snakemake starts a timer for each job, and its process would wait for the last ones.
    """
    for thread in threading.enumerate():
        if isinstance(thread, threading.Timer):
            thread.cancel()
