"""The profile for clusters under a real Slurm; where that cannot be had, under scripts that only look like one.

Run by `make test-cluster`. One study of each chain, and the one with a checkpoint, are computed on the cluster and compared
with the quick grid, which is computed locally. On the cluster a training is killed, and trainings of images ask for a GPU:
the real rule, through the profile, but with `gpu: 1` set from outside, since `device: cuda` would look for the GPU that the
node only says it has.
"""

import contextlib
import re
import shutil
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import psutil
import pytest
from one_node import CONFIG, NoSlurm, one_node
from whole_project import RESULTS, ROOT, copy_of_the_project, environment, snakemake

pytestmark = pytest.mark.cluster

# A real site needs none of these: its jobs wait longer than a second, and it may have an accounting database.
SOON = ["--seconds-between-status-checks", "1", "--latency-wait", "5"]
HERE = Path(__file__).parent / "cluster"
TARGETS = ("neighbour", "digits", "scaling")


class Request(NamedTuple):
    """What one submission asked for."""

    memory: int
    gpus: int


class Cluster(NamedTuple):
    """How to submit, and what was submitted from a folder."""

    options: list[str]
    requests: Callable[[Path], list[Request]]


def requests_to_slurm(folder: Path) -> list[Request]:
    shown = subprocess.run(
        ["scontrol", "-o", "show", "jobs"], capture_output=True, text=True, timeout=30, check=True
    ).stdout
    jobs = [dict(re.findall(r"(\w+)=(\S*)", line)) for line in shown.splitlines()]
    return [
        Request(
            int(job["MinMemoryNode"].removesuffix("M")),
            int(job.get("TresPerJob", ":0").rpartition(":")[2]),
        )
        for job in jobs
        if job["WorkDir"] == str(folder)
    ]


def requests_to_scripts(folder: Path) -> list[Request]:
    lines = (folder / "requests").read_text().splitlines()
    return [Request(int(memory), int(gpu)) for _, memory, gpu in (line.split() for line in lines)]


TESTED = []
"""The cluster under which the tests have run."""


@pytest.fixture(scope="module", params=["slurm", "scripts"])
def cluster(request, tmp_path_factory) -> Iterator[Cluster]:
    """A real Slurm, skipped with its reason where it cannot be had; then scripts stand for it."""
    if request.param == "scripts":
        if TESTED:
            pytest.skip("a real Slurm was there")
        submit = f"{HERE}/submit {{resources.mem_mb}} {{resources.gpu}}"
        # Nothing there waits for a free core: two at a time.
        options = ["--executor", "cluster-generic", "--cluster-generic-submit-cmd", submit, "--jobs", "2",
                   "--cluster-generic-status-cmd", f"{HERE}/status", "--default-resources", "gpu=0", *SOON]  # fmt: skip
        yield Cluster(options, requests_to_scripts)
        return
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(one_node(tmp_path_factory.mktemp("slurm")))
        except NoSlurm as reason:
            pytest.skip(f"Slurm is not tested, and scripts stand for it: {reason}")
        TESTED.append(request.param)
        # Without accounting squeue has to say what became of a job.
        slurm = [
            "--slurm-status-command",
            "squeue",
            "--slurm-init-seconds-before-status-checks",
            "1",
        ]
        yield Cluster([*slurm, *SOON], requests_to_slurm)
    assert not CONFIG.exists()


@contextlib.contextmanager
def running(folder: Path, *arguments: str) -> Iterator[subprocess.Popen]:
    """A run of the workflow with its log in `folder`; nothing of it is left afterwards."""
    command = [*snakemake(folder), *arguments]
    with open(folder / "log", "w") as log:
        process = subprocess.Popen(
            command, cwd=folder, env=environment(folder), stdout=log, stderr=log
        )
        try:
            yield process
        finally:
            for left in processes(folder):
                with contextlib.suppress(psutil.Error):
                    left.kill()
            process.wait(20)


def end_of(log: Path) -> str:
    return log.read_text()[-3000:]


def processes(folder: Path, *beginning: str) -> list[psutil.Process]:
    """The processes in a folder whose arguments begin like this."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.cwd() == str(folder) and process.cmdline()[1:][: len(beginning)] == list(
                beginning
            ):
                found.append(process)
    return found


def kill_a_training(folder: Path, run: subprocess.Popen) -> None:
    """kill -9 of the first training of the encoder: its job has made the latents, and not yet the encoders."""
    deadline = time.monotonic() + 600
    while time.monotonic() < deadline:
        assert run.poll() is None, end_of(folder / "log")
        for process in processes(folder, "-m", "rarefeat.run.launch"):
            with contextlib.suppress(psutil.Error):
                if any("/jobs/chain.pretrain" in word for word in process.cmdline()):
                    process.kill()
                    return
        time.sleep(0.2)
    raise TimeoutError("no training began within 600 s: " + end_of(folder / "log"))


def test_a_cluster_makes_the_tables_of_a_local_run_though_a_job_is_killed(
    cluster, finished, tmp_path
):
    folder = copy_of_the_project(tmp_path)
    profile = [
        "--workflow-profile",
        str(folder / "workflow" / "profiles" / "slurm"),
        "--cores",
        "1",
    ]
    begun = time.monotonic()
    with running(
        folder,
        *profile,
        *cluster.options,
        "--set-resources",
        "pretrain_images:gpu=1",
        "--",
        *TARGETS,
    ) as process:
        kill_a_training(folder, process)
        assert process.wait(1200) == 0, end_of(folder / "log")
    print(f"{', '.join(TARGETS)} on the cluster: {time.monotonic() - begun:.0f} s")
    assert re.search(r"^tried again: .*pretrain ", (folder / "log").read_text(), re.MULTILINE)

    asked = cluster.requests(folder)
    memory = Counter(request.memory for request in asked)
    print(f"{len(asked)} submissions, MB each: {memory}")
    # Latents, training and probe go together and ask for what the largest needs, 1500; a second try for twice as much.
    assert memory[3000] == 1, asked
    trained = list((folder / RESULTS / "encoders/digits").rglob("*.safetensors"))
    assert sum(request.gpus for request in asked) == len(trained) > 0, asked

    tables = sorted(
        path.relative_to(folder) for path in (folder / RESULTS / "tables").glob("*.parquet")
    )
    assert len(tables) == 8 + 4 + 3
    for table in tables:
        assert (folder / table).read_bytes() == (finished / table).read_bytes(), table


def test_whatever_profile_is_found_the_plan_is_the_same(tmp_path):
    folder = copy_of_the_project(tmp_path)
    shutil.copy(ROOT / "profiles", folder / "profiles", follow_symlinks=False)
    own = tmp_path / "own"
    own.mkdir()
    (own / "profile.yaml").write_text(
        "keep-going: true\njobs: 7\ndefault-resources: {mem_mb: 500}\n"
    )
    slurm = ["--workflow-profile", "workflow/profiles/slurm", "--executor", "local"]

    def plan(*arguments: str, **variables: str) -> tuple[str, set[str]]:
        done = subprocess.run(
            [*snakemake(folder), "--dry-run", "--printshellcmds", *arguments], cwd=folder, capture_output=True, text=True,
            env=environment(folder) | variables, timeout=120, check=True,
        )  # fmt: skip
        return done.stderr + done.stdout, set(re.findall(r"python -m rarefeat.*", done.stdout))

    log, expected = plan()
    assert "workflow specific profile profiles/default" in log
    assert len(expected) > 60
    assert plan("--workflow-profile", "none")[1] == expected
    assert plan(SNAKEMAKE_PROFILE=str(own))[1] == expected
    assert plan("--profile", str(own))[1] == expected
    assert plan(*slurm)[1] == expected
