"""What the command lines of the stages share: arguments, one-line errors, progress."""

import argparse
import contextlib
import importlib
import re
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from tqdm import tqdm

from rarefeat.core.errors import RarefeatError
from rarefeat.run import guard
from rarefeat.run.job import Job, parsed

Item = TypeVar("Item")


def stage(description: str | None) -> argparse.ArgumentParser:
    """A stage's command line, which gets its job as JSON; it adds the files to read and to write."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--job", type=a_job, required=True, help="what the job is told, as JSON (rarefeat.run.job)")
    return parser


def a_job(text: str) -> Job:
    """An argparse type: a job."""
    try:
        job = parsed(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
    guard.keep_to(job.code)
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
    before = signal.signal(signal.SIGTERM, lambda number, frame: sys.exit("error: ended by SIGTERM; run snakemake again"))
    try:
        main()
    except RarefeatError as error:
        sys.exit(f"error: {error}")
    except (MemoryError, RuntimeError) as error:
        # torch has no type of its own for memory that the system refuses.
        if not isinstance(error, MemoryError) and not re.search(r"allocate memory|out of memory", str(error)):
            raise
        said = next(iter(str(error).splitlines()), "")
        remedy = "give the job more, run fewer jobs at once, or lower seeds_per_block (of images, training.batch)"
        sys.exit(f"error: out of memory{': ' if said else ''}{said}; {remedy}")
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
    if SHOWN:
        yield from SHOWN[-1](items)
        return
    if sys.stderr.isatty():
        yield from tqdm(items, total=total, desc=label)
        return
    start = last = time.monotonic()

    def report(done: int) -> None:
        line = tqdm.format_meter(done, total, time.monotonic() - start, prefix=label, ncols=0)
        print(line, file=sys.stderr, flush=True)

    done = 0
    try:
        for done, item in enumerate(items, start=1):
            if time.monotonic() - last >= seconds:
                last = time.monotonic()
                report(done)
            yield item
    finally:
        report(done)
