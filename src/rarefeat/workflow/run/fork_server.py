"""Fork processes for jobs from one that has imported torch, pandas and the like already.

A server belongs to one run of the workflow, or to a group of jobs that a cluster runs, and ends
with it; launch.py is its client. It also holds the run's parsed config (`run.remember`): its forks
run the code as it was when the run began, or refuse where a module was edited since. The fork
server of `multiprocessing` serves only its owner's own processes, and jobs are started by a shell.

Core-seconds to start without and with it: a probe 1.69 and 0.14, a figure 0.94 and 0.13.
"""

import atexit
import contextlib
import gc
import importlib
import json
import os
import select
import shutil
import signal
import socket
import socketserver
import subprocess
import sys
import tempfile

from rarefeat.workflow.files.sealed_files import write_file
from rarefeat.workflow.run.launch import HEARD, SERVER, VARIABLE, mount_namespace

PRELOADED_IN_GROUP = (
    "torch", "jaxtyping", "pandas", "pyarrow.parquet", "safetensors.torch", "pydantic", "yaml",
    "tqdm.auto", "numba", "scipy.linalg.cython_blas",
)  # fmt: skip
"""What every job of a cell imports: a group is too short for the rest to pay."""
# From torch._dynamo on, what a first optimizer, figure as PDF and check of a table import.
PRELOADED = (
    *PRELOADED_IN_GROUP, "pandera.pandas", "scipy.stats", "scipy.optimize", "matplotlib.pyplot",
    "seaborn", "sklearn.linear_model", "kornia", "torch._dynamo", "matplotlib.backends.backend_pdf",
    "pandera.backends.pandas.builtin_checks",
)  # fmt: skip
# Libraries count their threads when they are loaded, and a fork would lose all but one.
ONE_THREAD = {f"{name}_NUM_THREADS": "1" for name in ("OMP", "OPENBLAS", "MKL", "NUMEXPR")}
# pyarrow's jemalloc starts a thread; a process with threads is not safe to fork.
NO_THREAD = {"JE_ARROW_MALLOC_CONF": "background_thread:false"}
HUGE_PAGES = {"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"}  # to save page faults
SECONDS_TO_END = 10


def start(results: str, of_group: bool = False) -> None:
    """Start a server that ends with this process, and note its socket's name.

    Off Linux there is none, nor where no socket can be made, as in a long TMPDIR: jobs then start
    by themselves. That of a run imports nothing before a second job asks: a run of one job pays for
    no more than its own.
    """
    if sys.platform != "linux":
        return
    folder = ""
    try:
        folder = tempfile.mkdtemp(prefix=f"rarefeat-{mount_namespace()}-")  # for this user alone
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(name := os.path.join(folder, "socket"))
            listener.listen(256)
            # In a session of its own: a signal to the group of this process reaches it as that
            # one's end.
            words = [str(listener.fileno()), results, *["group"] * of_group]
            server = subprocess.Popen(
                [sys.executable, "-P", __file__, *words],
                stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                pass_fds=[listener.fileno()], start_new_session=True,
                env=os.environ | ONE_THREAD | NO_THREAD | HUGE_PAGES,
            )  # fmt: skip
    except OSError:
        shutil.rmtree(folder, ignore_errors=True)
        return
    atexit.register(end, server)
    if of_group:  # the file is that of the run, which may be on another machine
        os.environ[VARIABLE] = name
    else:
        write_file(os.path.join(results, SERVER), name)


def end(server: subprocess.Popen) -> None:
    """Close the input of a server and wait for its end; kill one that does not answer."""
    server.stdin.close()
    try:
        server.wait(SECONDS_TO_END)
    except subprocess.TimeoutExpired:
        server.kill()


class Fork(socketserver.BaseRequestHandler):
    """A fork of the server, for one job."""

    def handle(self) -> None:
        """Become the process that the client would be, run its module and send its status."""
        self.server.socket.close()
        self.request.sendall(HEARD)
        size, files, _, _ = socket.recv_fds(self.request, 8, 3)
        with self.request.makefile("rb") as file:
            request = json.loads(file.read(int.from_bytes(size, "little")))
        *arguments, folder, variables = request
        os.environ.clear()
        os.environ.update(variables)
        os.chdir(folder)
        sys.path.insert(0, folder)  # as `python -m` does
        from rarefeat.workflow.run import launch

        if self.server.jobs == 1 or not ONE_THREAD.items() <= variables.items():
            self.request.sendall(launch.BY_ITSELF)
            self.request.recv(1)  # until the client ends, or the server, which the client hears of
            os._exit(0)
        for number, file in enumerate(files):
            os.dup2(file, number)
            os.close(file)
        launch.end_with(self.request)
        # As `random` does by itself: no two forks are to draw the same without a seed.
        sys.modules["numpy"].random.seed()
        sys.modules["torch"].default_generator.seed()
        status = 1
        try:
            launch.run(*arguments)
            status = 0
        except SystemExit as end:
            status = end.code if isinstance(end.code, int) else int(end.code is not None)
            if isinstance(end.code, str):
                print(end.code, file=sys.stderr)
        except BaseException:
            sys.excepthook(*sys.exc_info())
        sys.stdout.flush()
        sys.stderr.flush()
        self.request.sendall(str(status).encode())
        os._exit(status)  # taking all packages down takes longer than a short job


class Server(socketserver.ForkingMixIn, socketserver.UnixStreamServer):
    """Fork for each connection, with the packages imported from the second one on."""

    max_children, timeout, jobs, results = 1000, 0, 0, ""
    preloaded = PRELOADED

    def process_request(self, request: socket.socket, client_address: str) -> None:
        """Import what is slow if this is the second job, and fork."""
        self.jobs += 1
        if self.jobs == 2:
            for name in self.preloaded:
                importlib.import_module(name)
            sys.path.insert(0, os.getcwd())
            from rarefeat.workflow.run import command as run

            run.remember(self.results)  # the run's config, parsed
            gc.collect()
            gc.freeze()  # a collection that looked at these objects would copy them into each fork
        super().process_request(request, client_address)


def serve(listener: socket.socket, results: str, of_group: bool) -> None:
    """Serve until standard input ends, as it does with the process that started this one.

    Jobs end with the run, and not with a server that was killed.
    """
    server = Server(listener.getsockname(), Fork, bind_and_activate=False)
    server.socket, server.results = listener, results
    if of_group:
        server.jobs, server.preloaded = 1, PRELOADED_IN_GROUP
    while 0 not in select.select([0, server], [], [], 1)[0]:
        server.handle_request()
        server.collect_children()
    shutil.rmtree(os.path.dirname(listener.getsockname()), ignore_errors=True)
    for fork in server.active_children or ():
        with contextlib.suppress(OSError):
            os.kill(fork, signal.SIGTERM)
    os._exit(0)


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])), sys.argv[2], len(sys.argv) > 3)
