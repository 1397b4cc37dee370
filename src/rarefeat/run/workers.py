"""A server of warm Pythons: it imports torch, pandas and what else is slow once, and forks a process for each stage (stage.py).

It belongs to one run of the workflow, on its machine. It imports nothing of rarefeat: every stage runs the code that is on the
disk by then. It serves only stages whose fork is like a new Python: the same interpreter, and the same values of the variables
that are read once, threads among them. To all others it says no, and they run by themselves. Whatever else a process inherits,
limits and ignored signals, stages and server have alike from the Snakemake that starts both.

Measured in core-seconds: a stage that draws a figure starts in 0.94, one that makes a table of claims in 1.32, a probe in 1.69;
in a fork the first starts in 0.13 and the last in 0.14. The fork server of `multiprocessing` serves only processes that its
owner starts, and a stage is started by a shell.
"""

import atexit
import contextlib
import ctypes
import gc
import importlib
import io
import marshal
import os
import secrets
import select
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping
from typing import NamedTuple

# The last three are what a first optimizer, figure as PDF and check of a table import: 1.4, 0.2 and 0.1 core-seconds a job.
PRELOADED = (
    "torch", "pandas", "pyarrow.parquet", "pandera.pandas", "scipy.stats", "scipy.optimize", "matplotlib.pyplot", "seaborn",
    "safetensors.torch", "sklearn.linear_model", "kornia", "pydantic", "yaml", "tqdm", "torch._dynamo",
    "matplotlib.backends.backend_pdf", "pandera.backends.pandas.builtin_checks",
)  # fmt: skip
# What Snakemake sets for a job of one thread. Libraries count theirs as they are loaded, and a fork would lose all but one.
ONE_THREAD = dict.fromkeys(
    (
        "OMP_NUM_THREADS", "GOTO_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS",
        "NUMEXPR_NUM_THREADS",
    ),
    "1",
)  # fmt: skip
# Variables that the interpreter, the C library or a package reads once, by how they begin.
READ_ONCE = (
    "MALLOC_", "GLIBC_", "LD_", "LANG", "LC_", "TZ", "PYTHON", "OMP_", "GOMP_", "KMP_", "GOTO_", "OPENBLAS_", "MKL_", "VECLIB_",
    "NUMEXPR_", "NPY_", "SCIPY_", "TORCH", "PYTORCH_", "ATEN_", "CUDA_", "ARROW_", "MPL", "MATPLOTLIB",
)  # fmt: skip
# pyarrow's jemalloc starts a thread; a process with threads is not safe to fork.
SINGLE = {"JE_ARROW_MALLOC_CONF": "background_thread:false"}
STARTED, REFUSED = b"\1", b"\0"
ENDING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
ALIVE = 0
"""The server's standard input, which says nothing and ends with the process that started it."""
GRACE = 10
"""Seconds between SIGTERM and SIGKILL."""


def start(**variables: str) -> str | None:
    """Start a server that ends with this process, however that ends; the name of its socket, for RAREFEAT_WORKERS.

    It costs little until a second stage asks: the first one runs by itself, so that a run of one job pays for nothing more.

    Args:
        variables: environment variables of all stages that are read once, as those of malloc.

    Returns:
        None where forks are not to be had: elsewhere than on Linux.
    """
    if sys.platform != "linux":
        return None
    name = f"rarefeat-{secrets.token_hex(16)}"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"\0{name}")
        listener.listen(256)
        # In a session of its own, so that what is sent to the group of this process reaches it in the form of that end.
        server = subprocess.Popen(
            [sys.executable, "-P", __file__, str(listener.fileno())],
            stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, pass_fds=[listener.fileno()],
            env=os.environ | ONE_THREAD | SINGLE | variables, start_new_session=True,
        )  # fmt: skip
    atexit.register(stop, server, os.getpid())
    return name


def stop(server: subprocess.Popen, owner: int) -> None:
    """End a server and wait for it."""
    if os.getpid() == owner:
        server.stdin.close()
        server.wait()


def serve(listener: socket.socket) -> None:
    """Fork for each client until the process that started the server is gone, and wait until all stages have ended."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # no zombies
    asked, environment = 0, read_once(os.environb)  # before packages add to it
    while ALIVE not in ready(listener.fileno(), ALIVE):
        connection, _ = listener.accept()
        asked += 1
        if asked == 2:
            for name in PRELOADED:  # one that is not to be had ends the server, and stages run by themselves
                importlib.import_module(name)
            # What is there by now stays; a collection that looked at it would copy it.
            gc.collect()
            gc.freeze()
        server = os.getpid()
        if asked > 1 and not forked():
            listener.close()
            end_with(server, signal.SIGKILL)
            attend(connection, environment)
        connection.close()
    with contextlib.suppress(ChildProcessError):
        os.wait()


def forked() -> int:
    """As `os.fork`, with -1 where the system has no room for another process."""
    try:
        return os.fork()
    except OSError:
        return -1


def ready(*descriptors: int, seconds: float | None = None) -> list[int]:
    """Those of some descriptors that have something to say, or that have ended; none once the time is over."""
    poll = select.poll()
    for descriptor in descriptors:
        poll.register(descriptor, select.POLLIN)
    return [descriptor for descriptor, _ in poll.poll(None if seconds is None else 1000 * seconds)]


def end_with(parent: int, number: int) -> None:
    """Have this process get a signal when its parent ends."""
    ctypes.CDLL(None).prctl(1, number)
    if os.getppid() != parent:
        os._exit(1)


class Request(NamedTuple):
    """What a stage is to have of the process that asks for it."""

    stage: tuple
    """Arguments of `rarefeat.run.stage.run`."""
    cwd: str
    environment: dict[bytes, bytes]
    prefix: str
    descriptors: list[int]
    """Standard input, output and error."""
    client: int
    """The process that asks."""


def attend(connection: socket.socket, environment: Mapping[bytes, bytes]) -> None:
    """In a fork of the server: refuse a client, or run its stage in a fork of this process, and tell how it ended.

    Args:
        environment: the variables that are read once, as the server had them.
    """
    try:
        connection.settimeout(GRACE)
        request = receive(connection)
        # Whether a fork of this process is what a new Python would be.
        same = request.prefix == sys.prefix and read_once(request.environment) == environment
        serves = same and len(os.listdir("/proc/self/task")) == 1
    except (OSError, EOFError, ValueError, TypeError):  # it has gone, or is of another version: it runs by itself
        serves = False
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    # What is sent to the stage waits until it answers to signals of its own.
    signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
    this, stage = os.getpid(), forked() if serves else -1
    if stage < 0:
        with contextlib.suppress(OSError):
            connection.sendall(REFUSED)
        os._exit(0)
    if not stage:
        connection.close()
        end_with(this, signal.SIGTERM)
        become(request)
        from rarefeat.run.stage import run

        run(*request.stage)
        end()
    for descriptor in request.descriptors:
        os.close(descriptor)
    with contextlib.suppress(OSError):
        connection.sendall(STARTED)
    status = watch(stage, connection)
    with contextlib.suppress(OSError):
        connection.sendall(bytes([status if status >= 0 else 128 - status]))
    os._exit(0)


def watch(stage: int, connection: socket.socket) -> int:
    """Pass on to a stage the signals that its client got, end it where the client or the run is gone, and return its status."""
    ended = os.pidfd_open(stage)
    watched, seconds = [ended, connection.fileno(), ALIVE], None
    while ended not in (found := ready(*watched, seconds=seconds)):
        numbers = b""
        if connection.fileno() in found:
            with contextlib.suppress(OSError):
                numbers = connection.recv(64)
        for number in numbers or [signal.SIGTERM if found else signal.SIGKILL]:
            os.kill(stage, number)
        if not numbers:
            watched, seconds = [ended], GRACE
    return os.waitstatus_to_exitcode(os.waitpid(stage, 0)[1])


def receive(connection: socket.socket) -> Request:
    """Read a request; OSError, EOFError, ValueError or TypeError where it is none, or of another user."""
    client, user, _ = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    if user != os.getuid():
        raise ValueError
    head, descriptors, _, _ = socket.recv_fds(connection, 8, 3)
    with connection.makefile("rb") as file:
        body = file.read(int.from_bytes(head, "little"))
    return Request(*marshal.loads(body), descriptors=descriptors, client=client)


def read_once(environment: Mapping[bytes, bytes]) -> dict[bytes, bytes]:
    """The variables that a fork cannot have otherwise than its server."""
    begins = tuple(name.encode() for name in READ_ONCE)
    return {name: value for name, value in environment.items() if name.startswith(begins)}


def become(request: Request) -> None:
    """Turn this fork into the process that the client would have been."""
    import numpy
    import torch

    signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)
    for place, descriptor in enumerate(request.descriptors):
        os.dup2(descriptor, place)
        os.close(descriptor)
    sys.stdout.reconfigure(line_buffering=os.isatty(1))
    os.chdir(request.cwd)
    os.environb.clear()
    os.environb.update(request.environment)
    # The process whose shell is to be there when results are written: guard.py.
    os.environ["RAREFEAT_CLIENT"] = str(request.client)
    if b"PYTHONSAFEPATH" not in request.environment:
        sys.path.insert(0, request.cwd)  # as `python -m` does
    importlib.invalidate_caches()
    tempfile.tempdir = None
    # As `random` does of itself after a fork: what has no seed is not to be the same in all forks.
    numpy.random.seed()
    torch.default_generator.seed()


def end() -> None:
    """End a fork whose stage has succeeded: to take all packages down would cost it most of the time that they saved."""
    threading._shutdown()
    atexit._run_exitfuncs()
    for item in gc.get_objects():  # those of the server are frozen, and not among them
        if type(item) in (io.TextIOWrapper, io.BufferedWriter) and not item.closed and item.writable():
            item.flush()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])))
    os._exit(0)  # without the seconds that torch takes to leave
