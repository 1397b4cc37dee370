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
import time
from collections.abc import Iterable, Mapping
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


class Stage(NamedTuple):
    """A fork that runs a stage."""

    process: int
    ended: int
    """Descriptor of the process, which has something to say once that has ended."""
    client: socket.socket

    def told(self) -> bytes:
        """Signals that the client got; none where it is gone."""
        with contextlib.suppress(OSError):
            return self.client.recv(64)
        return b""

    def close(self) -> None:
        """Give back what this process has of it."""
        os.close(self.ended)
        self.client.close()


def serve(listener: socket.socket) -> None:
    """Fork for each client until the process that started the server is gone, and wait until all stages have ended.

    Signals that a client got are passed on to its stage. A stage whose client or run is gone is ended.
    """
    asked, environment = 0, read_once(os.environb)  # before packages add to it
    alive, stages, ending = True, [], {}  # by stage that is to end, when it is killed
    while alive or stages:
        asking = [listener.fileno(), ALIVE] if alive else []
        heard = [stage.client.fileno() for stage in stages if stage not in ending]
        found = ready(*asking, *heard, *(stage.ended for stage in stages), until=min(ending.values(), default=None))
        alive = alive and ALIVE not in found
        for stage in list(stages):
            if stage.ended in found:
                status = os.waitstatus_to_exitcode(os.waitpid(stage.process, 0)[1])
                with contextlib.suppress(OSError):
                    stage.client.sendall(bytes([status if status >= 0 else 128 - status]))
                stage.close()
                stages.remove(stage)
                ending.pop(stage, None)
            elif stage not in ending:
                numbers = stage.told() if stage.client.fileno() in found else b""
                for number in numbers:
                    os.kill(stage.process, number)
                if not alive or (stage.client.fileno() in found and not numbers):
                    os.kill(stage.process, signal.SIGTERM)
                    ending[stage] = time.monotonic() + GRACE
            elif time.monotonic() >= ending[stage]:
                os.kill(stage.process, signal.SIGKILL)
                ending[stage] += GRACE
        if alive and listener.fileno() in found:
            connection, _ = listener.accept()
            asked += 1
            if asked == 2:
                for name in PRELOADED:  # one that is not to be had ends the server, and stages run by themselves
                    importlib.import_module(name)
                # What is there by now stays; a collection that looked at it would copy it.
                gc.collect()
                gc.freeze()
            if asked == 1:
                connection.close()
            elif started := attend(connection, environment, [listener, *stages]):
                stages.append(started)


def forked() -> int:
    """As `os.fork`, with -1 where the system has no room for another process."""
    try:
        return os.fork()
    except OSError:
        return -1


def ready(*descriptors: int, until: float | None) -> list[int]:
    """Those of some descriptors that have something to say, or that have ended; none at a time of `time.monotonic()`."""
    poll = select.poll()
    for descriptor in descriptors:
        poll.register(descriptor, select.POLLIN)
    # One millisecond late rather than early.
    return [descriptor for descriptor, _ in poll.poll(None if until is None else max(0, 1000 * (until - time.monotonic())) + 1)]


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


def attend(
    connection: socket.socket, environment: Mapping[bytes, bytes], others: Iterable[socket.socket | Stage]
) -> Stage | None:
    """Run a client's stage in a fork; None where the client is refused, so that it runs the stage by itself.

    Args:
        environment: the variables that are read once, as the server had them. others: what is not for the fork to have.
    """
    try:
        connection.settimeout(GRACE)
        request = receive(connection)
        # Whether a fork of this process is what a new Python would be.
        same = request.prefix == sys.prefix and read_once(request.environment) == environment
        serves = same and len(os.listdir("/proc/self/task")) == 1
    except (OSError, EOFError, ValueError, TypeError):  # it has gone, or is of another version
        request, serves = None, False
    # What is sent to the stage waits until it answers to signals of its own.
    signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
    server, process = os.getpid(), forked() if serves else -1
    if not process:
        for other in [connection, *others]:
            other.close()
        end_with(server, signal.SIGTERM)
        become(request)
        from rarefeat.run.stage import run

        run(*request.stage)
        end()
    signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)
    for descriptor in request.descriptors if request else ():
        os.close(descriptor)
    with contextlib.suppress(OSError):
        connection.sendall(STARTED if process > 0 else REFUSED)
    if process > 0:
        return Stage(process, os.pidfd_open(process), connection)
    connection.close()
    return None


def receive(connection: socket.socket) -> Request:
    """Read a request; OSError, EOFError, ValueError or TypeError where it is none, or of another user."""
    client, user, _ = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    if user != os.getuid():
        raise ValueError
    head, descriptors, _, _ = socket.recv_fds(connection, 8, 3)
    try:
        with connection.makefile("rb") as file:
            body = file.read(int.from_bytes(head, "little"))
        return Request(*marshal.loads(body), descriptors=descriptors, client=client)
    except BaseException:
        for descriptor in descriptors:
            os.close(descriptor)
        raise


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
