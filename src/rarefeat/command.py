"""What the command lines of the stages share: arguments, one-line errors, progress."""

import argparse
import re
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

import yaml
from pydantic import TypeAdapter, ValidationError
from tqdm import tqdm

from rarefeat.files import RarefeatError
from rarefeat.sections import one_line

Item = TypeVar("Item")


def section(kind: Any) -> Callable[[str], Any]:
    """An argparse type: a section of the config, a model or a list of models, as YAML or JSON text."""

    def parse(text: str) -> Any:
        try:
            return TypeAdapter(kind).validate_python(yaml.safe_load(text))
        except ValidationError as error:
            raise argparse.ArgumentTypeError(one_line(error)) from error
        except yaml.YAMLError as error:
            raise argparse.ArgumentTypeError(f"not YAML: {' '.join(str(error).split())}") from error

    return parse


def number(low: float, high: float, open_low: bool = False) -> Callable[[str], float]:
    """An argparse type: a number in [low, high], or in (low, high]."""

    def parse(text: str) -> float:
        allowed = f"{'(' if open_low else '['}{low:g}, {high:g}]"
        try:
            value = float(text)
        except ValueError:
            value = float("nan")
        if not low <= value <= high or (open_low and value == low):
            raise argparse.ArgumentTypeError(f"{text!r} is not a number in {allowed}")
        return value

    return parse


def seed_range(text: str) -> list[int]:
    """An argparse type: "100-109" or "100"."""
    first, _, last = text.partition("-")
    try:
        seeds = list(range(int(first), int(last or first) + 1))
    except ValueError:
        seeds = []
    if not seeds:
        raise argparse.ArgumentTypeError(f"{text!r} is not a range of seeds; write FIRST-LAST, as in 100-109")
    return seeds


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


def progress(items: Iterable[Item], total: int, label: str, seconds: float = 5.0) -> Iterator[Item]:
    """Pass items on, with a bar on a terminal and otherwise a line with the time left every `seconds`."""
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
