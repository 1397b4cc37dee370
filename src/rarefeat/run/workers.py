"""A server of warm Pythons: it imports torch, pandas and what else is slow once, and forks a process for each stage (stage.py).

It belongs to one run of the workflow, on its machine. It imports nothing of rarefeat: every stage runs the code that is on the
disk by then. It serves only stages whose fork is like a new Python: the same interpreter and packages, and the same values of
the variables that libraries read once, threads among them. To all others it says no, and they run by themselves.
"""

import atexit
import contextlib
import gc
import importlib
import importlib.machinery
import io
import json
import marshal
import os
import resource
import selectors
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from typing import NamedTuple

PRELOADED = (
    "torch", "pandas", "pyarrow.parquet", "pandera.pandas", "scipy.stats", "scipy.optimize", "matplotlib.pyplot", "seaborn",
    "safetensors.torch", "sklearn.linear_model", "kornia", "pydantic", "yaml", "tqdm",
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
GRACE = 10
"""Seconds between SIGTERM and SIGKILL."""


def start(**variables: str) -> str | None:
    """Start a server that ends with this process, however that ends; the path of its socket, for RAREFEAT_WORKERS.

    It costs little until a second stage asks: the first one runs by itself, so that a run of one job pays for nothing more.

    Args:
        variables: environment variables of all stages that are read once, as those of malloc.

    Returns:
        None where forks are not to be had: elsewhere than on Linux, or without a place for temporary files.
    """
    if sys.platform != "linux":
        return None
    try:
        folder = tempfile.mkdtemp(prefix="rarefeat-")
    except OSError:
        return None
    path = os.path.join(folder, "socket")
    with socket.socket(socket.AF_UNIX) as listener:
        at = os.open(folder, os.O_RDONLY)
        listener.bind(f"/proc/self/fd/{at}/socket")  # of any length
        os.close(at)
        listener.listen(256)
        # Its standard input never says anything; it ends with this process. In a session of its own, so that what is sent to
        # the group of this process reaches the server in the form of that end.
        server = subprocess.Popen(
            [sys.executable, "-P", __file__, folder, str(listener.fileno())],
            stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, pass_fds=[listener.fileno()],
            env=os.environ | ONE_THREAD | SINGLE | variables, start_new_session=True,
        )  # fmt: skip
    atexit.register(stop, server, folder, os.getpid())
    return path


def stop(server: subprocess.Popen, folder: str, owner: int) -> None:
    """End a server and wait for it; remove its folder where it was killed before it could."""
    if os.getpid() == owner:
        server.stdin.close()
        server.wait()
        shutil.rmtree(folder, ignore_errors=True)


class Request(NamedTuple):
    """What a stage is to have of the process that asks for it."""

    stage: tuple
    """Arguments of `rarefeat.run.stage.run`."""
    cwd: str
    environment: dict[bytes, bytes]
    umask: int
    ignored: list[int]
    """Signals that are ignored."""
    prefix: str
    executable: str
    descriptors: list[int]
    """Standard input, output and error."""
    client: int
    """The process that asks."""


class Job(NamedTuple):
    """A fork at work and the connection of its client."""

    process: int
    connection: socket.socket


class Server:
    """Jobs of one run."""

    def __init__(self, listener: socket.socket) -> None:
        self.listener = listener
        self.environment = dict(os.environb)
        self.asked = 0
        self.packages: dict[str, str] = {}
        self.base: list[str] = []
        self.jobs: list[Job] = []
        self.kill_at: dict[int, float] = {}
        self.closing = False
        self.wake, self.signalled = socket.socketpair()
        for end in (self.wake, self.signalled, listener):
            end.setblocking(False)
        self.selector = selectors.PollSelector()
        self.selector.register(sys.stdin.fileno(), selectors.EVENT_READ)
        self.selector.register(self.wake, selectors.EVENT_READ)
        self.selector.register(listener, selectors.EVENT_READ)

    def serve(self) -> Request | None:
        """Work until the process that started the server is gone and all jobs have ended; in a fork, return its request."""
        signal.set_wakeup_fd(self.signalled.fileno(), warn_on_full_buffer=False)
        for number in (signal.SIGCHLD, *ENDING):
            signal.signal(number, lambda received, frame: None)
        while not self.closing or self.jobs:
            due = min(self.kill_at.values(), default=None)
            for key, _ in self.selector.select(None if due is None else max(0.0, due - time.monotonic())):
                if key.fileobj is self.listener:
                    if request := self.accept():
                        return request
                elif key.fileobj is self.wake:
                    if any(number != signal.SIGCHLD for number in self.wake.recv(4096)):
                        self.close()
                elif key.fileobj == 0:
                    self.close()
                else:
                    self.hear(key.data)
            self.reap()
        return None

    def accept(self) -> Request | None:
        """Answer a client: with a fork, where this one returns its request, or with a refusal."""
        try:
            connection, _ = self.listener.accept()
        except OSError:
            return None
        descriptors: list[int] = []
        try:
            connection.settimeout(GRACE)
            request = receive(connection, descriptors)
            connection.setblocking(False)
            self.asked += 1
            if self.asked > 1 and not self.packages:
                self.preload()
            if self.asked == 1 or not self.serves(request) or gone(connection):
                connection.sendall(REFUSED)
                return None
            # What is sent to a fork waits until the fork answers to signals of its own: `become`.
            signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
            process = -1
            try:
                process = os.fork()
                if not process:
                    self.leave(connection)
                    descriptors = []
                    return request
            finally:
                if process:
                    signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)
            self.jobs.append(Job(process, connection))
            self.selector.register(connection, selectors.EVENT_READ, self.jobs[-1])
            # From here on it is closed when the job has ended.
            started, connection = connection, None
            started.sendall(STARTED)
        except (OSError, EOFError, ValueError, TypeError):  # it has gone, or is of another version: it runs by itself
            pass
        finally:
            for descriptor in descriptors:
                os.close(descriptor)
            if connection:
                connection.close()
        return None

    def preload(self) -> None:
        """Import the packages, and learn where a Python finds modules without PYTHONPATH."""
        try:
            for name in PRELOADED:
                importlib.import_module(name)
        except Exception:  # whatever it is, stages that need the package will say so
            self.close()
            return
        self.packages = {name: sys.modules[name].__spec__.origin for name in (whole.partition(".")[0] for whole in PRELOADED)}
        without = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        command = [sys.executable, "-P", "-c", "import json, sys; print(json.dumps(sys.path))"]
        self.base = json.loads(subprocess.check_output(command, env=without))
        # What is there by now stays; a collection that looked at it would copy it.
        gc.collect()
        gc.freeze()

    def serves(self, request: Request) -> bool:
        """Whether a fork of this process is what a new Python would be."""
        same_python = request.prefix == sys.prefix and os.path.samefile(f"/proc/{request.client}/exe", "/proc/self/exe")
        if self.closing or not same_python or len(os.listdir("/proc/self/task")) > 1:
            return False
        if read_once(request.environment) != read_once(self.environment):
            return False
        path = search_path(request, self.base)
        found = {name: importlib.machinery.PathFinder.find_spec(name, path) for name in self.packages}
        return all(spec is not None and spec.origin == self.packages[name] for name, spec in found.items())

    def leave(self, connection: socket.socket) -> None:
        """In a fork: forget the server, so that all that it holds ends with it."""
        signal.set_wakeup_fd(-1)
        self.selector.close()
        for other in (connection, self.listener, self.wake, self.signalled, *(job.connection for job in self.jobs)):
            other.close()

    def hear(self, job: Job) -> None:
        """Pass on the signals that a client got; where it is gone, end its job."""
        try:
            numbers = job.connection.recv(64)
        except OSError:
            numbers = b""
        for number in numbers:
            os.kill(job.process, number)
        if not numbers:
            self.selector.unregister(job.connection)
            self.end(job)

    def end(self, job: Job) -> None:
        """Send SIGTERM, and SIGKILL later."""
        os.kill(job.process, signal.SIGTERM)
        self.kill_at.setdefault(job.process, time.monotonic() + GRACE)

    def reap(self) -> None:
        """Tell the clients of jobs that have ended how, and kill those that would not end."""
        for job in list(self.jobs):
            process, status = os.waitpid(job.process, os.WNOHANG)
            if process:
                code = os.waitstatus_to_exitcode(status)
                with contextlib.suppress(OSError):  # the client is gone
                    job.connection.sendall(bytes([code if code >= 0 else 128 - code]))
                if job.connection in self.selector.get_map():
                    self.selector.unregister(job.connection)
                job.connection.close()
                self.jobs.remove(job)
                self.kill_at.pop(process, None)
            elif self.kill_at.get(job.process, float("inf")) <= time.monotonic():
                os.kill(job.process, signal.SIGKILL)
                del self.kill_at[job.process]

    def close(self) -> None:
        """Take no more jobs, and end those at work."""
        if self.closing:
            return
        self.closing = True
        for end in (0, self.listener):
            self.selector.unregister(end)
        self.listener.close()
        for job in self.jobs:
            self.end(job)


def receive(connection: socket.socket, descriptors: list[int]) -> Request:
    """Read a request; its descriptors are in the list even where the rest is not to be read."""
    head, passed, _, _ = socket.recv_fds(connection, 8, 3)
    descriptors += passed
    size, body = int.from_bytes(head, "little"), b""
    while len(body) < size:
        part = connection.recv(size - len(body))
        if not part:
            raise EOFError
        body += part
    client, _, _ = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    return Request(*marshal.loads(body), descriptors=descriptors, client=client)


def gone(connection: socket.socket) -> bool:
    """Whether a client has ended while it waited."""
    try:
        return not connection.recv(1, socket.MSG_PEEK)
    except BlockingIOError:
        return False


def read_once(environment: dict[bytes, bytes]) -> dict[bytes, bytes]:
    """The variables that a fork cannot have otherwise than its server."""
    begins = tuple(name.encode() for name in READ_ONCE)
    return {name: value for name, value in environment.items() if name.startswith(begins) and name != b"PYTHONPATH"}


def search_path(request: Request, base: list[str]) -> list[str]:
    """Where `python -m` of the client looks for modules."""
    environment = request.environment
    first = [] if environment.get(b"PYTHONSAFEPATH") else [request.cwd]
    added = os.fsdecode(environment.get(b"PYTHONPATH", b""))
    named = [os.path.join(request.cwd, entry) for entry in added.split(os.pathsep)] if added else []
    return first + list(dict.fromkeys([*named, *base]))


def become(request: Request, server: int, base: list[str]) -> None:
    """Turn this fork into the process that the client would have been."""
    import ctypes

    import numpy
    import torch

    # With the server a job loses the one that would end it.
    ctypes.CDLL(None).prctl(1, signal.SIGTERM)
    for number in (signal.SIGTERM, signal.SIGCHLD, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in request.ignored:
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)
    if os.getppid() != server:
        sys.exit(1)
    for place, descriptor in enumerate(request.descriptors):
        os.dup2(descriptor, place)
        os.close(descriptor)
    sys.stdout.reconfigure(line_buffering=os.isatty(1))
    try:
        for name in (name for name in dir(resource) if name.startswith("RLIMIT_")):
            limit = getattr(resource, name)
            resource.setrlimit(limit, resource.prlimit(request.client, limit))
        os.setpriority(os.PRIO_PROCESS, 0, os.getpriority(os.PRIO_PROCESS, request.client))
        os.sched_setaffinity(0, os.sched_getaffinity(request.client))
    except (OSError, ValueError):  # not allowed, or the client is gone
        pass
    os.umask(request.umask)
    os.chdir(request.cwd)
    os.environb.clear()
    os.environb.update(request.environment)
    # Whose shell is to be there when results are written: files.py.
    os.environ["RAREFEAT_CLIENT"] = str(request.client)
    sys.executable = request.executable
    sys.path[:] = search_path(request, base)
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


def main() -> None:
    """Serve; in a fork, run the stage."""
    folder, listener = sys.argv[1], socket.socket(fileno=int(sys.argv[2]))
    server, process = Server(listener), os.getpid()
    request = server.serve()
    if request is None:
        shutil.rmtree(folder, ignore_errors=True)
        os._exit(0)  # without the seconds that torch takes to leave
    become(request, process, server.base)
    from rarefeat.run.stage import run

    run(*request.stage)
    end()


if __name__ == "__main__":
    main()
