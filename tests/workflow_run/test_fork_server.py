"""A job in a fork of the server is the job that a new Python runs, and ends with its client."""

import contextlib
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from conftest import until

from rarefeat.workflow.run import launch
from rarefeat.workflow.run.fork_server import ONE_THREAD
from rarefeat.workflow.run.launch import SERVER

OWNER = (
    "import sys; from rarefeat.workflow.run.fork_server import start;"
    " start(sys.argv[1]); print('started', flush=True); sys.stdin.read()"
)
STUB = """
import runpy, sys, types

def main(words):
    sys.argv[1:] = words[3:]
    runpy.run_path(words[0], run_name="__main__")

command = types.ModuleType("rarefeat.workflow.run.command")
command.main, command.remember = main, lambda results: None
sys.modules[command.__name__] = command
"""
"""Stands for the command `rarefeat run`: a job is a script."""
FORKED = "import os, sys\nforked = 'torch' in sys.modules\n"


def variables(folder: Path) -> dict[str, str]:
    (folder / "stub").mkdir(exist_ok=True)
    (folder / "stub/sitecustomize.py").write_text(STUB)
    path = os.pathsep.join([str(folder / "stub"), *filter(None, [os.environ.get("PYTHONPATH")])])
    return os.environ | ONE_THREAD | {"PYTHONPATH": path}


@contextlib.contextmanager
def run_server(folder: Path) -> Iterator[subprocess.Popen]:
    command = [sys.executable, "-c", OWNER, str(folder)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, env=variables(folder), **pipes) as owner:
        assert owner.stdout.readline() == "started\n"
        yield owner


@pytest.fixture(scope="module")
def server(tmp_path_factory) -> Iterator[Path]:
    """The folder of results of a server whose first job has run."""
    folder = tmp_path_factory.mktemp("results")
    with run_server(folder):
        first = run(tmp_path_factory.mktemp("first"), "print(forked)", folder)
        assert without_time(first.stdout) == "False\n"
        yield folder


def start(
    folder: Path, code: str, results: Path, *arguments: str, patience: int = 60, **more: str
) -> subprocess.Popen:
    (folder / "task.py").write_text(FORKED + code)
    words = ["run", "task.py", "--output", str(results / "new/a.parquet"), *arguments]
    script = f"from rarefeat.workflow.run import launch as l; l.PATIENCE = {patience}; l.main()"
    command = [sys.executable, "-c", script, *words]
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    return subprocess.Popen(command, cwd=folder, env=variables(folder) | more, text=True, **pipes)


def run(
    folder: Path, code: str, results: Path, *words: str, **more: Any
) -> subprocess.CompletedProcess:
    with start(folder, code, results, *words, **more) as process:
        out, err = process.communicate("a line\n", timeout=120)
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


def start_long(folder: Path, results: Path) -> tuple[subprocess.Popen, psutil.Process]:
    code = """
import pathlib, signal, time
signal.signal(15, lambda *_: (pathlib.Path("ended").touch(), sys.exit("ended")))
print(os.getpid(), flush=True)
time.sleep(1000)
"""
    client = start(folder, code, results)
    return client, psutil.Process(int(client.stdout.readline()))


def without_time(text: str) -> str:
    return re.sub(r"[\d.]+ s, [\d.]+ CPU s, \d+ MB\n", "", text)


@pytest.mark.parametrize(
    "code",
    [
        "print(sys.argv, sys.stdin.read(), os.getcwd()); print('err', file=sys.stderr)",
        "sys.exit('error: this')",
        "def fail():\n    raise ValueError('wrong')\nfail()",
        "import torch\ntorch.manual_seed(3)\n"
        "print(torch.rand(3), torch.__config__.parallel_info())",
    ],
)
def test_fork_does_what_a_new_python_does(server, tmp_path, code):
    places = server, tmp_path / "no_run"
    forked, direct = (run(tmp_path, code, results, "a b", "", "é") for results in places)
    forked.stdout, direct.stdout = (without_time(done.stdout) for done in (forked, direct))
    assert (forked.returncode, forked.stdout) == (direct.returncode, direct.stdout)
    assert forked.stderr.splitlines()[-3:] == direct.stderr.splitlines()[-3:]


def test_fork_runs_the_code_on_the_disk(server, tmp_path):
    for text in ("first", "second, longer"):
        assert (
            without_time(run(tmp_path, f"print({text!r}, forked)", server).stdout)
            == f"{text} True\n"
        )


def test_job_of_two_threads_runs_by_itself(server, tmp_path):
    assert (
        without_time(run(tmp_path, "print(forked)", server, OMP_NUM_THREADS="2").stdout)
        == "False\n"
    )


def test_server_has_one_thread_to_fork_from(server, tmp_path):
    code = "print(len(os.listdir(f'/proc/{os.getppid()}/task')), forked)"
    assert without_time(run(tmp_path, code, server).stdout) == "1 True\n"


def test_killed_client_ends_its_fork(server, tmp_path):
    client, fork = start_long(tmp_path, server)
    assert client.pid != fork.pid
    client.kill()
    client.communicate()
    until(lambda: not fork.is_running())
    assert (tmp_path / "ended").exists()


@pytest.mark.parametrize("number", [signal.SIGSTOP, signal.SIGKILL])
def test_jobs_run_without_a_server_that_does_not_answer(tmp_path, number):
    """A fork of it goes on, and the run ends."""
    with run_server(tmp_path) as owner:
        (server,) = psutil.Process(owner.pid).children()
        for name in ("first", "forked"):
            (tmp_path / name).mkdir()
        run(tmp_path / "first", "print(forked)", tmp_path)
        client, fork = start_long(tmp_path / "forked", tmp_path)
        server.send_signal(number)
        done = run(tmp_path, "print(forked)", tmp_path, patience=1)
        assert (done.returncode, without_time(done.stdout)) == (0, "False\n")
        assert fork.is_running()
        client.kill()
        until((tmp_path / "forked/ended").exists, 60)
        owner.stdin.close()
        owner.wait(60)
    until(lambda: not server.is_running())


def test_run_whose_socket_cannot_be_made_has_no_server(tmp_path):
    temporary = tmp_path / ("a" * 100)
    temporary.mkdir()
    environment = variables(tmp_path) | {"TMPDIR": str(temporary)}
    subprocess.run([sys.executable, "-c", OWNER, str(tmp_path)], env=environment, check=True)
    assert not (tmp_path / SERVER).exists()
    assert not list(temporary.iterdir())


def test_a_container_has_no_server_of_outside(tmp_path, monkeypatch):
    words = ["--output", str(tmp_path / "new/a.parquet")]
    name = f"/tmp/rarefeat-{launch.mount_namespace()}-x/socket"
    (tmp_path / SERVER).write_text(name)
    assert launch.find_server(words) == name
    monkeypatch.setattr(launch, "mount_namespace", lambda: "another")
    with pytest.raises(OSError, match="container"):
        launch.find_server(words)


def test_killed_fork_gives_its_client_status_1(server, tmp_path):
    client, fork = start_long(tmp_path, server)
    fork.kill()
    _, err = client.communicate(timeout=60)
    assert (client.returncode, err) == (
        1,
        "error: the job's process was killed; run snakemake again\n",
    )


def test_server_and_jobs_end_with_the_run(tmp_path):
    with run_server(tmp_path) as owner:
        (server,) = psutil.Process(owner.pid).children()
        name = (tmp_path / SERVER).read_text()
        folders = [tmp_path / text for text in ("by_itself", "forked")]
        jobs = []
        for folder in folders:
            folder.mkdir()
            jobs.append(start_long(folder, tmp_path))
        assert [client.pid == process.pid for client, process in jobs] == [True, False]
        owner.kill()
        owner.wait()
        until(lambda: not any(process.is_running() for process in (server, jobs[1][1])))
        for client, _ in jobs:
            client.communicate(timeout=60)
    assert all((folder / "ended").exists() for folder in folders)
    assert not Path(name).parent.exists()
