"""Run a stage, `python -m rarefeat.run.stage [--times FILE] MODULE ARG...`, as `python -m MODULE ARG...` does.

Instead of MODULE, `--job JSON` says it, and is handed on.

Where RAREFEAT_WORKERS names the socket of a server (workers.py), the stage runs in a fork of it, which has torch and pandas
already; where no server answers, or its forks would not be like a new Python, it runs here. This process is to start fast: it
imports little.
"""

import contextlib
import json
import marshal
import os
import runpy
import signal
import socket
import sys
import time
from types import TracebackType

USAGE = "usage: python -m rarefeat.run.stage [--times FILE] MODULE [ARG...], or --job JSON [ARG...]"
PATIENCE = 120
"""Seconds to wait for a server that imports; after that a stage is sooner done without it."""
STARTED = b"\1"
"""What a server answers once a fork runs the stage; its exit status follows as another byte."""


def main() -> None:
    """Command line."""
    started, arguments = time.monotonic(), sys.argv[1:]
    times = None
    if arguments[:1] == ["--times"]:
        times, arguments = "".join(arguments[1:2]), arguments[2:]
    if arguments[:1] == ["--job"]:
        arguments = [module_of(arguments[1:2]), *arguments]
    if not arguments or arguments[0].startswith("-"):
        sys.exit(USAGE)
    warm = connected(os.environ.get("RAREFEAT_WORKERS"))
    if warm:
        with warm:
            status = run_in_a_fork(warm, (arguments, times, started))
        if status is not None:
            sys.exit(status)
    run(arguments, times, started)


def module_of(text: list[str]) -> str:
    """The module that runs a job, which says it (job.py)."""
    try:
        found = json.loads(text[0])
        return f"rarefeat.{found.get('runs') or found['stage']}".partition(":")[0]
    except (IndexError, ValueError, KeyError, AttributeError):
        sys.exit("error: --job: not the JSON of a job with a stage")


def run(arguments: list[str], times: str | None, started: float) -> None:
    """Run a module as `python -m` does; where it succeeds, write what it took.

    Args:
        arguments: the name of the module and its arguments.
        times: the file for `record`, or None.
        started: the time of `time.monotonic()` when the stage was asked for.
    """
    sys.argv, sys.excepthook = list(arguments), show
    with stored(arguments) as done:
        try:
            if not done:
                runpy.run_module(arguments[0], run_name="__main__", alter_sys=True)
        except SystemExit as ending:
            if ending.code not in (None, 0):
                raise
    if times:
        record(times, started)


def stored(arguments: list[str]) -> contextlib.AbstractContextManager[bool]:
    """Whether the store of the run has what a job makes (store.py), which is imported where there is one."""
    if "--job" not in arguments or not os.environ.get("RAREFEAT_STORE"):
        return contextlib.nullcontext(False)
    from rarefeat.run.store import around

    return around(arguments)


def record(path: str, started: float) -> None:
    """Write one line of tab-separated values: `s` of the clock, `max_rss` in MB and `cpu_time` in s, of this process.

    The largest memory of a fork begins at that of its server: packages that are imported but shared with other stages count.
    """
    import resource

    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    memory = max(one.ru_maxrss for one in used) / (2**20 if sys.platform == "darwin" else 2**10)
    seconds = sum(one.ru_utime + one.ru_stime for one in used)
    temporary = f"{path}.{os.getpid()}.tmp"
    try:
        os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
        with open(temporary, "w", encoding="utf-8") as file:
            file.write(f"s\tmax_rss\tcpu_time\n{time.monotonic() - started:.4f}\t{memory:.2f}\t{seconds:.2f}\n")
        os.replace(temporary, path)
    except OSError as error:
        sys.exit(f"error: cannot write {path}: {error.strerror}")


def show(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Print a traceback from the module on, without what started it."""
    here = trace
    while here and here.tb_frame.f_code is not run.__code__:
        here = here.tb_next
    while here and (here.tb_frame.f_code is run.__code__ or here.tb_frame.f_globals.get("__name__") == "runpy"):
        here = here.tb_next
    sys.__excepthook__(kind, error.with_traceback(here), here)


def connected(name: str | None) -> socket.socket | None:
    """A connection to the server, or None where there is none."""
    # Options of the interpreter are not for a fork to have.
    if not name or sys.orig_argv[1:2] != ["-m"]:
        return None
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(PATIENCE)
    try:
        connection.connect(f"\0{name}")
    except OSError:
        return None
    return connection


def run_in_a_fork(connection: socket.socket, stage: tuple) -> int | str | None:
    """The exit status of a stage in a fork of the server; None where none was started, so that it is still to be run."""
    ignored = {number for number in (signal.SIGINT, signal.SIGHUP) if signal.getsignal(number) == signal.SIG_IGN}
    try:
        request = marshal.dumps((stage, os.getcwd(), dict(os.environb), sys.prefix))
        socket.send_fds(connection, [len(request).to_bytes(8, "little")], [0, 1, 2])
        connection.sendall(request)
        if connection.recv(1) != STARTED:
            return None
    except (OSError, ValueError):
        return None
    for number in {signal.SIGINT, signal.SIGTERM, signal.SIGHUP} - ignored:
        signal.signal(number, lambda received, frame: forward(connection, received))
    connection.settimeout(None)
    try:
        status = connection.recv(1)
    except OSError:
        status = b""
    return status[0] if status else "error: the process that ran this stage is gone with its server; run snakemake again"


def forward(connection: socket.socket, number: int) -> None:
    """Pass a signal on to the fork, unless it has just ended."""
    with contextlib.suppress(OSError):
        connection.send(bytes([number]))


if __name__ == "__main__":
    main()
