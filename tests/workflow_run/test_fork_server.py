"""A job in a fork of the server is the job that `python -m` runs.

Ends with what asked for it.
"""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from conftest import until

from rarefeat.workflow.run.fork_server import ONE_THREAD

OWNER = (
    "import sys; from rarefeat.workflow.run.fork_server import start;"
    " print(start(), flush=True); sys.stdin.read()"
)
FORKED = "import os, sys\nforked = 'torch' in sys.modules\n"


@contextlib.contextmanager
def run_server() -> Iterator[tuple[str, subprocess.Popen]]:
    """The socket of a server.

    The process that started it, which ends with its standard input.
    """
    command = [sys.executable, "-c", OWNER]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as owner:
        yield owner.stdout.readline().strip(), owner


@pytest.fixture(scope="module")
def server(tmp_path_factory) -> Iterator[str]:
    """A server whose first job has run."""
    with run_server() as (name, _):
        assert run(tmp_path_factory.mktemp("first"), "print(forked)", name).stdout == "False\n"
        yield name


def start(
    folder: Path, code: str, name: str = "", *arguments: str, **variables: str
) -> subprocess.Popen:
    """Start a job with this code."""
    (folder / "task.py").write_text(FORKED + code)
    environment = os.environ | ONE_THREAD | {"RAREFEAT_FORK_SERVER": name} | variables
    command = [sys.executable, "-m", "rarefeat.workflow.run.launch", "task", *arguments]
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    return subprocess.Popen(command, cwd=folder, env=environment, text=True, **pipes)


def run(folder: Path, *words: str, **variables: str) -> subprocess.CompletedProcess:
    """Run a job to its end."""
    with start(folder, *words, **variables) as process:
        out, err = process.communicate("a line\n", timeout=120)
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


def start_long(folder: Path, name: str) -> tuple[subprocess.Popen, psutil.Process]:
    """Start a job that lasts until it is ended by SIGTERM, which it writes down.

    With its process.
    """
    code = """
import pathlib, signal, time
signal.signal(15, lambda *_: (pathlib.Path("ended").touch(), sys.exit("ended")))
print(os.getpid(), flush=True)
time.sleep(1000)
"""
    client = start(folder, code, name)
    return client, psutil.Process(int(client.stdout.readline()))


@pytest.mark.parametrize(
    "code",
    [
        "print(sys.argv, sys.stdin.read(), os.getcwd(), sys.path); print('err', file=sys.stderr)",
        "sys.exit(7)",
        "sys.exit('error: this')",
        "def fail():\n    raise ValueError('wrong')\nfail()",
        "import torch\ntorch.manual_seed(3)\n"
        "print(torch.rand(3), torch.__config__.parallel_info())",
    ],
)
def test_fork_does_what_a_new_python_does(server, tmp_path, code):
    forked, direct = (run(tmp_path, code, name, "a b", "", "é") for name in (server, ""))
    assert (forked.returncode, forked.stdout) == (direct.returncode, direct.stdout)
    assert forked.stderr.splitlines()[-3:] == direct.stderr.splitlines()[-3:]


def test_fork_runs_the_code_on_the_disk(server, tmp_path):
    for text in ("first", "second, longer"):
        assert run(tmp_path, f"print({text!r}, forked)", server).stdout == f"{text} True\n"


@pytest.mark.parametrize("draw", ["random.random()", "numpy.random.rand()", "torch.rand(1)"])
def test_two_forks_draw_different_numbers(server, tmp_path, draw):
    draws = {
        run(tmp_path, f"import random, numpy, torch; print({draw})", server).stdout
        for _ in range(2)
    }
    assert len(draws) == 2


def test_job_of_two_threads_runs_by_itself(server, tmp_path):
    assert run(tmp_path, "print(forked)", server, OMP_NUM_THREADS="2").stdout == "False\n"


def test_server_has_one_thread_to_fork_from(server, tmp_path):
    code = "print(len(os.listdir(f'/proc/{os.getppid()}/task')), forked)"
    assert run(tmp_path, code, server).stdout == "1 True\n"


def test_killed_client_ends_its_fork(server, tmp_path):
    client, fork = start_long(tmp_path, server)
    assert client.pid != fork.pid
    client.kill()
    client.communicate()
    until(lambda: not fork.is_running())
    assert (tmp_path / "ended").exists()


def test_killed_fork_gives_its_client_status_1(server, tmp_path):
    client, fork = start_long(tmp_path, server)
    fork.kill()
    _, err = client.communicate(timeout=60)
    assert (client.returncode, err) == (
        1,
        "error: the job's process was killed; run snakemake again\n",
    )


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_server_and_jobs_end_with_the_run(tmp_path, number):
    with run_server() as (name, owner):
        (server,) = psutil.Process(owner.pid).children()
        folders = [tmp_path / text for text in ("by_itself", "forked")]
        jobs = []
        for folder in folders:
            folder.mkdir()
            jobs.append(start_long(folder, name))
        assert [client.pid == process.pid for client, process in jobs] == [True, False]
        owner.send_signal(number)
        owner.wait()
        until(lambda: not any(process.is_running() for process in (server, jobs[1][1])))
        for client, _ in jobs:
            client.communicate(timeout=60)
    assert all((folder / "ended").exists() for folder in folders)
    assert not Path(name).parent.exists()
