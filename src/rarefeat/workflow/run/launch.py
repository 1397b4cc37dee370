"""The command `rarefeat`: `rarefeat run` in a fork of the run's server, if there is one.

The workflow starts this process for every job, so it imports little.
"""

import contextlib
import ctypes
import json
import os
import signal
import socket
import sys
import threading
import time

SERVER = ".fork_server"
"""File of a folder of results with the name of the socket of its run's server (fork_server.py)."""
VARIABLE = "RAREFEAT_SERVER"
"""Variable with the name of the socket of a server of this process's group of jobs alone."""
MALLOC = {-3: 2**25, -1: 2**30}
"""Bytes from which glibc's malloc maps memory (M_MMAP_THRESHOLD), and returns it
(M_TRIM_THRESHOLD): as it is, it would return what a training frees at every step, at half the
speed."""
HEARD, BY_ITSELF = b"+", b"by itself"
"""What a server says to a client, and what to a job that is not to run in a fork."""
PATIENCE = 60
"""Seconds to wait for a server's word: it may have been stopped, or be importing for long."""


def main() -> None:
    """Run the command line."""
    start, words = time.monotonic(), sys.argv[1:]
    if words[:1] != ["run"]:
        from rarefeat.workflow.cli import main as commands

        commands()
    elif (status := run_in_fork(words[1:], start)) is not None:
        sys.exit(status)
    else:
        run(words[1:], start)


def run(words: list[str], start: float) -> None:
    """Run a job, and say what it used; `start` is by `time.monotonic` (s)."""
    import resource

    from rarefeat.workflow.run.cli_helpers import run_main
    from rarefeat.workflow.run.command import main as run_job

    if sys.platform == "linux":
        for parameter, value in MALLOC.items():
            ctypes.CDLL(None).mallopt(parameter, value)
    run_main(lambda: run_job(words))
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    # The memory of a fork includes the packages that it shares with the server.
    memory = max(usage.ru_maxrss for usage in usages) / (
        2**20 if sys.platform == "darwin" else 2**10
    )
    seconds = sum(usage.ru_utime + usage.ru_stime for usage in usages)
    print(f"{time.monotonic() - start:.2f} s, {seconds:.2f} CPU s, {memory:.0f} MB")


def run_in_fork(words: list[str], start: float) -> int | str | None:
    """Run a job in a fork of the server; return its status, None where it is still to be run."""
    try:
        connection = socket.socket(socket.AF_UNIX)
        connection.settimeout(PATIENCE)
        connection.connect(find_server(words))
        if not connection.recv(len(HEARD)):
            return None
        connection.settimeout(None)
        request = json.dumps((words, start, os.getcwd(), dict(os.environ))).encode()
        socket.send_fds(connection, [len(request).to_bytes(8, "little")], [0, 1, 2])
        connection.sendall(request)
        answer = connection.recv(16)
    except OSError:
        return None
    if answer == BY_ITSELF:
        end_with(connection)
        return None
    return int(answer) if answer else "error: the job's process was killed; run snakemake again"


def mount_namespace() -> str:
    """Return what is the same for processes that see the same files, and another in a container."""
    return os.readlink("/proc/self/ns/mnt").strip("mnt:[]")


def find_server(words: list[str]) -> str:
    """Return the name of the server's socket, of the group or of the results above the output."""
    name = os.environ.get(VARIABLE, "")
    folder = os.path.abspath(words[words.index("--output") + 1]) if "--output" in words else "/"
    while not name and (parent := os.path.dirname(folder)) != folder:
        folder = parent
        if os.path.exists(path := os.path.join(folder, SERVER)):
            with open(path) as file:
                name = file.read()
    if mount_namespace() not in name:
        raise OSError("no server is here, or it is outside of this container")
    return name


def end_with(connection: socket.socket) -> None:
    """Send this process SIGTERM when the process at the other end of a connection ends."""

    def wait() -> None:
        with contextlib.suppress(OSError):
            connection.recv(1)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=wait, daemon=True).start()


if __name__ == "__main__":
    main()
