"""Faults of the machine: nothing wrong is trusted, and a killed run goes on to the same bytes."""

import contextlib
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
import yaml
from conftest import job_at, job_path, tiny_data, tiny_training, until
from whole_project import RESULTS, copy_of_the_project, environment, run, snakemake, succeeded

from rarefeat.config.cells import cell
from rarefeat.config.model import Arm
from rarefeat.run.cli_helpers import run_main as run_stage
from rarefeat.storage.sealed_files import verify
from rarefeat.study_kind import PRETRAIN, SYNTHESISE

# One cell and two blocks of seeds: two jobs of each of three stages, and two that gather them.
TINY = {
    "seeds": 2,
    "seeds_per_block": 1,
    "data": {"d1": 60, "N": 512, "probe_pairs": 100, "test_pairs": 200},
    "training": {"T": 300},
    "imbalance": {"studies": {"neighbour": {"seeds": 2, "grid": {"arms": {"eps_min": [1.0]}}}}},
}
CONFIGS = ("config/quick.yaml", "tiny.yaml")
TABLES = [
    f"{RESULTS}/tables/neighbour_{name}.parquet"
    for name in ("grid", "summary", "trends", "trajectories")
]
ARGUMENTS = ("--rerun-incomplete", "--", *TABLES)
AT = cell(eps_min=1.0, sigma=0.1)


def tiny_project(folder: Path) -> Path:
    """A copy of the project with a tiny config."""
    copy_of_the_project(folder)
    (folder / "tiny.yaml").write_text(yaml.safe_dump(TINY))
    return folder


def start(folder: Path, **options) -> subprocess.Popen:
    """Snakemake in a session of its own."""
    command = snakemake(folder, *ARGUMENTS, configs=CONFIGS)
    with open(folder / "snakemake.log", "a") as log:
        return subprocess.Popen(
            command,
            cwd=folder,
            env=environment(folder),
            stdout=log,
            stderr=log,
            start_new_session=True,
            **options,
        )


def table_bytes(folder: Path) -> list[bytes]:
    """The bytes of the tables."""
    return [(folder / table).read_bytes() for table in TABLES]


def output_files(folder: Path) -> list[Path]:
    """The files of tables and tensors."""
    paths = (folder / RESULTS).rglob("[!.]*")
    return [
        path
        for path in paths
        if path.suffix in (".parquet", ".safetensors") and ".store" not in path.parts
    ]


def processes(folder: Path) -> list[psutil.Process]:
    """The processes of a run, wherever they belong."""
    alive = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.cwd() == str(folder) and process.status() != psutil.STATUS_ZOMBIE:
                alive.append(process)
    return alive


@pytest.fixture(scope="module")
def reference(tmp_path_factory) -> Path:
    """A folder with the tiny study computed, undisturbed."""
    folder = tiny_project(tmp_path_factory.mktemp("reference"))
    succeeded(run(folder, *ARGUMENTS, configs=CONFIGS))
    return folder


@pytest.mark.faults
@pytest.mark.parametrize(
    ("number", "group"),
    [
        (signal.SIGKILL, False),
        (signal.SIGKILL, True),
        (signal.SIGTERM, False),
        (signal.SIGTERM, True),
    ],
)
def test_killed_run_goes_on_to_the_same_bytes(reference, tmp_path, number, group):
    folder, draw = tiny_project(tmp_path), random.Random(f"{number} {group}")
    for files in (2, 5):
        process = start(folder)
        until(
            lambda process=process, files=files: (
                process.poll() is not None or len(output_files(folder)) >= files
            )
        )
        time.sleep(draw.uniform(0, 2))
        with contextlib.suppress(ProcessLookupError):
            (os.killpg if group else os.kill)(process.pid, number)
        process.wait(300)
        # No job outlives its run, and what is there is whole.
        until(lambda: not processes(folder), 60)
        for path in output_files(folder):
            verify(path)
        succeeded(run(folder, "--unlock", configs=CONFIGS))
    succeeded(run(folder, *ARGUMENTS, configs=CONFIGS))
    assert table_bytes(folder) == table_bytes(reference)


@pytest.mark.faults
def test_damaged_file_is_refused_until_it_is_deleted(reference, tmp_path):
    folder = Path(shutil.copytree(reference, tmp_path / "project"))
    damaged = next((folder / RESULTS / "encoders").rglob("*.safetensors"))
    content = bytearray(damaged.read_bytes())
    content[len(content) // 2] ^= 4
    damaged.write_bytes(content)
    done = run(folder, "--forcerun", "probe", *ARGUMENTS, configs=CONFIGS)
    assert done.returncode != 0
    assert (
        f"error: cannot read {damaged.relative_to(folder)}: it is damaged"
        in done.stdout + done.stderr
    )
    assert "Traceback" not in done.stdout + done.stderr
    damaged.unlink()
    succeeded(run(folder, *ARGUMENTS, configs=CONFIGS))
    assert table_bytes(folder) == table_bytes(reference)


@pytest.mark.faults
def test_full_disk_is_one_line_and_space_mends_it(reference, tmp_path):
    """A limit on the size of a file stands for the disk."""
    folder = tiny_project(tmp_path)
    process = start(
        folder, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (40_000, 40_000))
    )
    assert process.wait(300) != 0
    log = (folder / "snakemake.log").read_text()
    assert any(
        "cannot write results/" in line and line.endswith("File too large")
        for line in log.splitlines()
    )
    assert not any((folder / table).exists() for table in TABLES)
    succeeded(run(folder, *ARGUMENTS, configs=CONFIGS))
    assert table_bytes(folder) == table_bytes(reference)


def synthesise_command(output: Path, **data) -> list[str]:
    """The command of a job that draws latents."""
    job = job_at(
        SYNTHESISE, {"draws": "s", "data": tiny_data(**data)}, "s", SYNTHESISE.shared(AT), "1-2"
    )
    return [
        sys.executable,
        "-m",
        "rarefeat.run.execute_job",
        "--job",
        job_path(job),
        "--output",
        str(output),
    ]


def test_job_without_enough_memory_is_one_line(tmp_path):
    command = synthesise_command(tmp_path / "latents.safetensors", N=10**9)
    limit = (8 * 2**30, 8 * 2**30)
    done = subprocess.run(
        command,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, limit),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert line.startswith("error: out of memory: ")
    assert line.endswith(
        "; give the job more, run fewer jobs at once, or lower seeds_per_block (of images, training.batch)"
    )
    assert not list(tmp_path.iterdir())


def test_other_errors_are_not_taken_for_lack_of_memory():
    def fail():
        raise RuntimeError("shapes differ")

    with pytest.raises(RuntimeError, match="shapes differ"):
        run_stage(fail)


def test_sigterm_ends_a_training_and_leaves_no_file(tmp_path):
    subprocess.run(
        synthesise_command(tmp_path / SYNTHESISE.path("latents", "s", AT, "1-2")), check=True
    )
    training = tiny_training(T=10**8, eta=1e-3)
    config = {
        "draws": "s",
        "simulator": "reduced",
        "data": tiny_data(),
        "training": training,
        "arms": [Arm(arm="dense")],
    }
    files = [
        "--results",
        str(tmp_path),
        "--output",
        str(tmp_path / "e.safetensors"),
        str(tmp_path / "t.parquet"),
    ]
    command = [
        sys.executable,
        "-m",
        "rarefeat.run.execute_job",
        "--job",
        job_path(job_at(PRETRAIN, config, "s", AT, "1-2")),
        *files,
    ]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert "0%" in process.stderr.readline()  # it has begun
        process.terminate()
        _, errors = process.communicate(timeout=30)
    assert process.returncode == 1
    assert errors.splitlines()[-1] == "error: ended by SIGTERM; run snakemake again"
    assert list(tmp_path.iterdir()) == [tmp_path / "latents"]
