"""The cluster of the tests leaves nothing behind, however it is ended. Sleeps stand for its daemons."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import one_node
import psutil
import pytest
from conftest import until

RUN = """
import sys, time
from pathlib import Path
import one_node
folder = Path({folder!r})
one_node.CONFIG, one_node.GRES, one_node.STARTED = (folder / name for name in ("slurm.conf", "gres.conf", "started"))

def test_it():
    with one_node.daemons() as start:
        one_node.CONFIG.write_text("ClusterName=rarefeat\\n")
        start(folder / "one.out", "sleep", "1000")
        start(folder / "two.out", "sleep", "1000")
        (folder / "ready").touch()
        time.sleep(1000)
"""
FILES = ("slurm.conf", "gres.conf", "started")


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    for name, file in zip(("CONFIG", "GRES", "STARTED"), FILES, strict=True):
        monkeypatch.setattr(one_node, name, tmp_path / file)
    return tmp_path


def ended_by(number: int, folder: Path) -> list[psutil.Process]:
    """The daemons of a run of pytest that got a signal."""
    (folder / "test_run.py").write_text(RUN.format(folder=str(folder)))
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--rootdir", str(folder), str(folder / "test_run.py")]
    process = subprocess.Popen(command, cwd=Path(__file__).parent, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                               env={"PYTHONPATH": str(Path(__file__).parent), "PATH": "/usr/bin:/bin"})  # fmt: skip
    until(lambda: (folder / "ready").exists() or process.poll() is not None, 120)
    assert process.poll() is None
    _, *daemons = json.loads((folder / "started").read_text())
    found = [psutil.Process(pid) for pid, _ in daemons]
    process.send_signal(number)
    process.wait(300)
    return found


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_daemons_and_deletes_their_files(folder, number):
    daemons = ended_by(number, folder)
    assert len(daemons) == 2
    assert not any(process.is_running() for process in daemons)
    assert not any((folder / name).exists() for name in FILES)


def test_what_a_killed_run_left_is_cleared_by_the_next(folder):
    daemons = ended_by(signal.SIGKILL, folder)
    assert all(process.is_running() for process in daemons)
    one_node.clear_left()
    assert not any(process.is_running() and process.status() != psutil.STATUS_ZOMBIE for process in daemons)
    assert not any((folder / name).exists() for name in FILES)
    one_node.clear_left()


def test_what_another_has_is_left_alone(folder):
    one_node.CONFIG.write_text("ClusterName=physics\n")
    with pytest.raises(one_node.NoSlurm, match=r"slurm\.conf belongs to another Slurm"):
        one_node.clear_left()
    one_node.CONFIG.write_text("ClusterName=rarefeat\n")
    one_node.STARTED.write_text(json.dumps([one_node.identity(psutil.Process())]))
    with pytest.raises(one_node.NoSlurm, match="another run of these tests, process"):
        one_node.clear_left()
    # An id that is another process by now is none of ours.
    one_node.STARTED.write_text(json.dumps([[psutil.Process().pid, 0.0], [psutil.Process().pid, 0.0]]))
    one_node.clear_left()
    assert psutil.Process().is_running()
    assert not one_node.CONFIG.exists()
