"""Run a module as `python -m MODULE ARG...` does, in a fork of the fork server if there is one.

    python -m rarefeat.run.launch [--times FILE] MODULE ARG...

The workflow starts this process for every job, so it imports little.
"""

import contextlib
import json
import os
import runpy
import signal
import socket
import sys
import threading
import time

SERVER = "RAREFEAT_FORK_SERVER"
"""Variable with the name of the server's socket (fork_server.py)."""
BY_ITSELF = b"by itself"
"""Answer of the server to a job that is not to run in a fork."""


def main() -> None:
    """Run the command line."""
    start, words, times = time.monotonic(), sys.argv[1:], ""
    if words[:1] == ["--times"]:
        times, words = words[1], words[2:]
    if not words:
        sys.exit(__doc__)
    status = run_in_fork(words, times, start)
    if status is not None:
        sys.exit(status)
    run(words, times, start)


def run(words: list[str], times: str, start: float) -> None:
    """Run a module, and write what it used if it succeeds.

    Parameters
    ----------
    words : list of str
        Name of the module and its arguments.
    times : str
        File of the times; empty for none.
    start : float
        Start of the job, by `time.monotonic` (s).
    """
    sys.argv = list(words)
    runpy.run_module(words[0], run_name="__main__", alter_sys=True)
    if times:
        write_times(times, start)


def write_times(path: str, start: float) -> None:
    """Write one row: `s` since `start`, `max_rss` in MB and `cpu_time` in s of this process.

    The memory of a fork includes the packages that it shares with the server.
    """
    import resource

    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    unit = 2**20 if sys.platform == "darwin" else 2**10
    memory = max(usage.ru_maxrss for usage in usages) / unit
    seconds = sum(usage.ru_utime + usage.ru_stime for usage in usages)
    row = f"{time.monotonic() - start:.4f}\t{memory:.2f}\t{seconds:.2f}"
    try:
        os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(f"s\tmax_rss\tcpu_time\n{row}\n")
    except OSError as error:
        sys.exit(f"error: cannot write {path}: {error.strerror}")


def run_in_fork(words: list[str], times: str, start: float) -> int | str | None:
    """Run a module in a fork of the server.

    Parameters
    ----------
    words, times, start
        As of `run`.

    Returns
    -------
    int, str or None
        Status for `sys.exit`; None where the module is still to be run here.
    """
    connection = socket.socket(socket.AF_UNIX)
    try:
        connection.connect(os.environ[SERVER])
        request = json.dumps((words, times, start, os.getcwd(), dict(os.environ))).encode()
        socket.send_fds(connection, [len(request).to_bytes(8, "little")], [0, 1, 2])
        connection.sendall(request)
        answer = connection.recv(16)
    except (KeyError, OSError):
        return None
    if answer == BY_ITSELF:
        end_with(connection)
        return None
    return int(answer) if answer else "error: the job's process was killed; run snakemake again"


def end_with(connection: socket.socket) -> None:
    """Send this process SIGTERM when the process at the other end of a connection ends."""

    def wait() -> None:
        with contextlib.suppress(OSError):
            connection.recv(1)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=wait, daemon=True).start()


if __name__ == "__main__":
    main()
