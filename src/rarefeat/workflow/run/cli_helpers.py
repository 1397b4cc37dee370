"""Helpers of command lines: functions by name, one-line errors, progress."""

import contextlib
import importlib
import re
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from operator import attrgetter
from typing import Any, TypeVar

from rarefeat.errors import RarefeatError
from rarefeat.model.rooms import LISTENERS, tell

Item = TypeVar("Item")


def load_function(name: str) -> Callable:
    """Return the function or schema that MODULE:NAME names; RarefeatError where there is none."""
    module, _, attribute = name.partition(":")
    try:
        return attrgetter(attribute)(importlib.import_module(f"rarefeat.{module}"))
    except (ModuleNotFoundError, AttributeError) as error:
        raise RarefeatError(f"{name}: the package rarefeat has no such function") from error


def run_main(main: Callable[[], None]) -> None:
    """Run a command line; an error that a user can mend is one line, with exit status 1."""
    # As an exception, so that temporary files are removed.
    line = "error: ended by SIGTERM; run snakemake again"
    before = signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(line))
    try:
        main()
    except RarefeatError as error:
        sys.exit(f"error: {error}")
    except (MemoryError, RuntimeError) as error:
        # torch has no type of its own for memory that the system refuses.
        if not isinstance(error, MemoryError) and not re.search(
            r"allocate memory|out of memory", str(error)
        ):
            raise
        remedy = (
            "give the job more, run fewer jobs at once, or lower seeds_per_block"
            " (of images, training.batch)"
        )
        sys.exit(f"error: out of memory: {str(error).partition(chr(10))[0]}; {remedy}")
    finally:
        signal.signal(signal.SIGTERM, before)


SHOWN: list[Callable[[Iterable], Iterable]] = []
"""Functions that `progress` passes items through instead, the innermost last."""


LOSSES: list[Any] = []
"""Losses (S,) of the last recorded step, whose mean stands beside the progress."""


@contextlib.contextmanager
def progress_display(
    display: bool | Callable[[Iterable], Iterable], listen: Callable[..., None] | None = None
) -> Iterator[None]:
    """Show progress as usual, not at all, or by passing items through a function.

    `listen` is told the losses of every step.
    """
    before = list(SHOWN), list(LISTENERS)
    if display is not True:
        SHOWN.append(display or iter)
    LISTENERS.extend([listen] if listen else [])
    try:
        yield
    finally:
        SHOWN[:], LISTENERS[:] = before


def report_losses(step: int, seeds: list[int], losses: Any, is_recorded: bool) -> None:
    """Tell listeners the losses (S,) of a step by seed, and show those of a recorded one."""
    if LISTENERS:
        tell(step, dict(zip(seeds, losses.tolist(), strict=True)))
    if is_recorded:
        LOSSES[:] = [losses]


def progress(items: Iterable[Item], total: int, label: str, seconds: float = 5.0) -> Iterator[Item]:
    """Pass items on, with a bar on a terminal or in a notebook, else a line now and then."""
    from tqdm.auto import tqdm  # here, since it takes 60 ms and most jobs show no progress

    def loss() -> str:
        return "".join(f"loss {float(losses.mean()):.4g}" for losses in LOSSES)

    LOSSES.clear()
    if SHOWN:
        yield from SHOWN[-1](items)
        return
    if sys.stderr.isatty() or "ipykernel.zmqshell" in sys.modules:
        with tqdm(items, total=total, desc=label) as bar:
            for item in bar:
                yield item
                if LOSSES:  # of a recorded step: reading them at each would wait for a GPU
                    bar.set_postfix_str(loss(), refresh=False)
                    LOSSES.clear()
        return
    start = last = time.monotonic()
    for done, item in enumerate(items, start=1):
        yield item
        if done == total or time.monotonic() - last >= seconds:
            last = time.monotonic()
            line = tqdm.format_meter(done, total, last - start, 0, label, postfix=loss())
            print(line, file=sys.stderr, flush=True)
