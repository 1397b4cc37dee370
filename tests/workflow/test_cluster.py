"""The profile for clusters under a real Slurm, or under scripts where that cannot be installed.

One study of each chain, and the one with a checkpoint, are computed on the cluster and compared
with the quick grid. A training is killed on the cluster. Trainings of images ask for a GPU that
the node only says it has: `gpu: 1` is set from outside, since `device: cuda` would look for it.
"""

import contextlib
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import psutil
import pytest
from conftest import until
from one_node import CONFIG, NoSlurmError, one_node
from whole_project import RESULTS, copy_project, environment, execute, run, snakemake

pytestmark = pytest.mark.cluster
# A real site needs none of these: its jobs wait longer than a second.
QUICK_CHECKS = ["--seconds-between-status-checks", "1", "--latency-wait", "5"]
SCRIPTS = Path(__file__).parent / "cluster"
TARGETS = ("neighbour", "digits", "scaling")


class Cluster(NamedTuple):
    """How to submit, and the memory (MB) and GPUs of what was submitted from a folder."""

    options: list[str]
    requests: Callable[[Path], list[tuple[int, int]]]


def requests_to_slurm(folder: Path) -> list[tuple[int, int]]:
    text = execute(folder, "scontrol", "-o", "show", "jobs").stdout
    jobs = [dict(re.findall(r"(\w+)=(\S*)", line)) for line in text.splitlines()]
    return [
        (int(job["MinMemoryNode"][:-1]), int(job.get("TresPerJob", ":0").rpartition(":")[2]))
        for job in jobs
        if job["WorkDir"] == str(folder)
    ]


def requests_to_scripts(folder: Path) -> list[tuple[int, int]]:
    lines = (folder / "requests").read_text().splitlines()
    return [(int(memory), int(gpus)) for _, memory, gpus in map(str.split, lines)]


@pytest.fixture
def cluster(tmp_path_factory) -> Iterator[Cluster]:
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(one_node(tmp_path_factory.mktemp("slurm")))
        except NoSlurmError as reason:
            print(f"scripts stand for Slurm: {reason}")
            submit = f"{SCRIPTS}/submit {{resources.mem_mb}} {{resources.gpu}}"
            options = [
                *("--executor", "cluster-generic", "--cluster-generic-submit-cmd", submit),
                *("--cluster-generic-status-cmd", f"{SCRIPTS}/status"),
                *("--default-resources", "gpu=0", "--jobs", "2"),
            ]
            yield Cluster([*options, *QUICK_CHECKS], requests_to_scripts)
            return
        # Without accounting squeue has to say what became of a job.
        options = ["--slurm-groups-status-command", "squeue"]
        options += ["--slurm-groups-init-seconds-before-status-checks", "1"]
        yield Cluster([*options, *QUICK_CHECKS], requests_to_slurm)
    assert not CONFIG.exists()


def processes(folder: Path) -> list[psutil.Process]:
    members = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            members += [process] if process.cwd() == str(folder) else []
    return members


def kill_training(folder: Path) -> bool:
    """Kill a job that trains a size that the checkpoint chose, and return whether there was one.

    Snakemake does not always try a group again that fails before a checkpoint (its issue 823).
    """
    for process in processes(folder):
        with contextlib.suppress(psutil.Error):
            words = process.cmdline()
            if "stages.pretrain:stage" in words and any(w.startswith("scaling_d") for w in words):
                process.kill()
                return True
    return False


@contextlib.contextmanager
def running(folder: Path, *arguments: str) -> Iterator[subprocess.Popen]:
    with open(folder / "log", "w") as log:
        options = {"cwd": folder, "env": environment(folder), "stdout": log, "stderr": log}
        process = subprocess.Popen(snakemake(folder, *arguments), **options)
        try:
            yield process
        finally:
            for member in processes(folder):
                with contextlib.suppress(psutil.Error):
                    member.kill()
            process.wait(20)


def test_cluster_gives_the_tables_of_a_local_run(cluster, finished, tmp_path):
    """Though a job is killed, which is submitted again with more memory."""
    folder = copy_project(tmp_path)
    profile = "--workflow-profile", str(folder / "workflow/profiles/slurm"), "--cores", "1"
    gpu = "--set-resources", "pretrain_images:gpu=1"
    with running(folder, *profile, *cluster.options, *gpu, "--", *TARGETS) as process:
        until(lambda: kill_training(folder) or process.poll() is not None, 600)
        assert process.wait(1200) == 0, (folder / "log").read_text()[-3000:]

    requests = cluster.requests(folder)
    # Latents, training and probe go together and ask for the most of them, 1500 MB.
    assert sum(memory == 3000 for memory, _ in requests) == 1, requests
    trained = list((folder / RESULTS / "encoders/digits").rglob("*.safetensors"))
    assert sum(gpus for _, gpus in requests) == len(trained) > 0, requests
    tables = [path.relative_to(folder) for path in (folder / RESULTS / "tables").glob("*.parquet")]
    assert len(tables) >= 15
    for table in tables:
        assert (folder / table).read_bytes() == (finished / table).read_bytes(), table


def test_plan_does_not_depend_on_the_profile(finished, tmp_path):
    (tmp_path / "profile.yaml").write_text("keep-going: true\ndefault-resources: {mem_mb: 500}\n")

    def plan(*arguments: str) -> set[str]:
        process = run(finished, "--dry-run", "--forceall", "--printshellcmds", *arguments)
        return set(re.findall(r"rarefeat run .*2>&1", process.stdout + process.stderr))

    expected = plan()
    assert len(expected) > 60
    assert plan("--workflow-profile", "none") == expected
    assert plan("--profile", str(tmp_path)) == expected
    slurm = finished / "workflow/profiles/slurm"
    assert plan("--workflow-profile", str(slurm), "--executor", "local") == expected
