"""What the command lines of the stages share: arguments, one-line errors, progress."""

import argparse
import contextlib
import importlib
import re
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TypeVar

from tqdm import tqdm

from rarefeat.core.errors import RarefeatError
from rarefeat.run.digests import read_accepted
from rarefeat.run.job import Job, parsed
from rarefeat.run.write_guard import refuse_edited_code

Item = TypeVar("Item")


def stage(description: str | None) -> argparse.ArgumentParser:
    """Return the command line of a stage, which gets a job; it adds the files to read and write."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--job", type=a_job, required=True, help="file of the job (rarefeat.run.job)")
    return parser


def a_job(path: str) -> Job:
    """Read a job from its file, as an argparse type; the file is in `jobs` of the results."""
    try:
        job = parsed(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise argparse.ArgumentTypeError(f"{path}: {reason}") from error
    refuse_edited_code(job.code, read_accepted(Path(path).absolute().parents[1]))
    return job


def function_of(stage: str) -> Callable:
    """The function, or the schema, that a job names as MODULE:NAME; RarefeatError where the package has none."""
    module, _, name = stage.partition(":")
    try:
        return getattr(importlib.import_module(f"rarefeat.{module}"), name)
    except (ModuleNotFoundError, AttributeError) as error:
        raise RarefeatError(f"--job: {stage} is no function of rarefeat") from error


def run(main: Callable[[], None]) -> None:
    """Run a command line; what a user can mend becomes one line on standard error and exit status 1."""
    # As an exception, so that temporary files are removed.
    line = "error: ended by SIGTERM; run snakemake again"
    before = signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(line))
    try:
        main()
    except RarefeatError as error:
        sys.exit(f"error: {error}")
    except (MemoryError, RuntimeError) as error:
        # torch has no type of its own for memory that the system refuses.
        if not isinstance(error, MemoryError) and not re.search(r"allocate memory|out of memory", str(error)):
            raise
        remedy = "give the job more, run fewer jobs at once, or lower seeds_per_block (of images, training.batch)"
        sys.exit(f"error: out of memory: {str(error).partition(chr(10))[0]}; {remedy}")
    finally:
        signal.signal(signal.SIGTERM, before)


SHOWN: list[Callable[[Iterable], Iterable]] = []
"""What `progress` passes items through instead, the innermost last."""


@contextlib.contextmanager
def shown(how: bool | Callable[[Iterable], Iterable]) -> Iterator[None]:
    """Show progress as usual, not at all, or by passing items through a function."""
    before = list(SHOWN)
    if how is not True:
        SHOWN.append(how or iter)
    try:
        yield
    finally:
        SHOWN[:] = before


def progress(items: Iterable[Item], total: int, label: str, seconds: float = 5.0) -> Iterator[Item]:
    """Pass items on, with a bar on a terminal and otherwise a line with the time left every `seconds`."""
    if SHOWN or sys.stderr.isatty():
        yield from SHOWN[-1](items) if SHOWN else tqdm(items, total=total, desc=label)
        return
    start = last = time.monotonic()
    for done, item in enumerate(items, start=1):
        yield item
        if done == total or time.monotonic() - last >= seconds:
            last = time.monotonic()
            line = tqdm.format_meter(done, total, last - start, prefix=label, ncols=0)
            print(line, file=sys.stderr, flush=True)
