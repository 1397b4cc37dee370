"""Killed runs, damaged and misplaced files, and jobs that end in one line."""

import json
import os
import resource
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from conftest import job_at, job_path, tiny_data, tiny_training, until
from whole_project import (
    RESULTS,
    ROOT,
    copy_project,
    environment,
    execute,
    planned_jobs,
    run,
    run_module,
    snakemake,
    succeed,
)

from rarefeat.workflow.config.cells import cell
from rarefeat.workflow.config.model import Arm
from rarefeat.workflow.files.sealed_files import verify
from rarefeat.workflow.run.cli_helpers import run_main
from rarefeat.workflow.study_kind import PRETRAIN, SYNTHESISE

TABLE = RESULTS / "tables/neighbour_grid.parquet"
CELL = cell(eps_min=1.0, sigma=0.1)


def test_killed_run_resumes_to_the_same_bytes(finished, tmp_path):
    """In other seed blocks, too: neither leaves a trace in the bytes."""
    folder = copy_project(tmp_path)
    (folder / "blocks.yaml").write_text("seeds_per_block: 2\n")
    configs = {"configs": ("config/quick.yaml", "blocks.yaml")}
    process = subprocess.Popen(
        snakemake(folder, TABLE, **configs), cwd=folder, env=environment(folder),
        start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    encoders = folder / RESULTS / "encoders"
    until(lambda: len(list(encoders.rglob("seeds=*.safetensors"))) >= 2 or process.poll())
    os.killpg(process.pid, signal.SIGKILL)
    process.wait(60)
    before = {path: path.stat().st_mtime_ns for path in encoders.rglob("seeds=*.safetensors")}
    assert len(before) >= 2
    assert not (folder / TABLE).exists()
    for path in before:
        verify(path)

    succeed(run(folder, "--unlock", **configs))
    succeed(run(folder, "--rerun-incomplete", TABLE, **configs))
    # Two jobs may have written their files and not have been recorded.
    kept = [path for path, time in before.items() if path.stat().st_mtime_ns == time]
    assert len(kept) >= len(before) - 2
    assert (folder / TABLE).read_bytes() == (finished / TABLE).read_bytes()


def test_damaged_file_is_refused_until_it_is_deleted(project):
    (damaged,) = (project / RESULTS / "latents/heatmap").rglob("*.safetensors")
    content = bytearray(damaged.read_bytes())
    content[len(content) // 2] ^= 4
    damaged.write_bytes(content)
    verification = run_module(project, "rarefeat.workflow.cli", "verify", RESULTS)
    arguments = "--forcerun", "pretrain", "--", RESULTS / "tables/heatmap_grid.parquet"
    process = run(project, *arguments)
    text = process.stdout + process.stderr
    for status, output in (
        (verification.returncode, verification.stdout),
        (process.returncode, text),
    ):
        assert status == 1
        assert f"cannot read {damaged.relative_to(project)}: it is damaged" in output
    assert "Traceback" not in text
    assert not list((project / RESULTS / "encoders/heatmap").rglob("seeds=*.safetensors"))
    damaged.unlink()
    succeed(run(project, *arguments))


def test_file_in_the_place_of_another_is_named_and_refused(project):
    folder = project / RESULTS / "encoders/neighbour"
    path, other, *_ = sorted(folder.rglob("seeds=*.safetensors"))
    path.write_bytes(other.read_bytes())
    name = path.relative_to(project / RESULTS)
    verification = run_module(project, "rarefeat.workflow.cli", "verify", RESULTS)
    assert verification.returncode == 1
    is_ = other.relative_to(project / RESULTS / "encoders").with_suffix("")
    line = f"{RESULTS / name} is not the file that its name says: it is {is_};"
    assert line in verification.stdout
    probes = RESULTS / "probes" / name.relative_to("encoders").with_suffix(".parquet")
    process = run(project, "--forcerun", "probe", "--", probes)
    text = process.stdout + process.stderr
    assert process.returncode == 1
    assert f"error: {RESULTS / name} is " in text
    assert "Traceback" not in text


def test_results_without_records_are_compared_in_one_line(project):
    """Where `.snakemake` was lost, results of the same config are up to date."""
    shutil.rmtree(project / ".snakemake")
    assert planned_jobs(project) == {}
    shutil.rmtree(project / ".snakemake")
    (project / "more.yaml").write_text(yaml.safe_dump({"training": {"eta": 0.2}}))
    configs = {"configs": ("config/quick.yaml", "more.yaml")}
    process = run(project, "--dry-run", RESULTS / "tables/paper_grid.parquet", **configs)
    lines = (process.stdout + process.stderr).splitlines()
    assert sum("made by another config or code" in line for line in lines) == 1


def job_of(**changes) -> str:
    cell = {"eps_min": 1.0, "sigma": 0.1}
    job = {"stage": "stages.pretrain:stage", "study": "s", "cell": cell, "seeds": "1-2"}
    return json.dumps(job | {"config": {}} | changes)


@pytest.mark.parametrize(
    ("job", "message"),
    [
        (job_of(seed="1-2"), "jobs/job.json: seed: "),
        (job_of(), "error: job: config.draws: missing, stages.pretrain:stage reads it"),
        (
            job_of(config={"draws": "s", "simulator": "reduced", "data": {"d": 0}}),
            "error: job: config.data",
        ),
    ],
)
def test_wrong_job_is_one_line(tmp_path, job, message):
    (tmp_path / "jobs").mkdir()
    (tmp_path / "jobs/job.json").write_text(job)
    outputs = tmp_path / "e.safetensors", tmp_path / "t.parquet"
    command = "rarefeat.workflow.run.execute_job", "--job", tmp_path / "jobs/job.json", "--output"
    process = run_module(ROOT, *command, *outputs)
    assert process.returncode == 1
    (line,) = process.stderr.splitlines()
    assert message in line
    assert [path.name for path in tmp_path.iterdir()] == ["jobs"]


def execute_command(job, results: Path, *outputs: Path) -> list[str]:
    """Return the command line of a job."""
    command = [
        sys.executable,
        "-m",
        "rarefeat.workflow.run.execute_job",
        "--job",
        job_path(job, results),
    ]
    return [*command, "--output", *map(str, outputs)]


def test_job_without_enough_memory_is_one_line(tmp_path):
    config = {"draws": "s", "data": tiny_data(N=10**9)}
    job = job_at(SYNTHESISE, config, "s", SYNTHESISE.shared_cell(CELL), "1-2")
    limit = 8 * 2**30, 8 * 2**30
    process = subprocess.run(
        execute_command(job, tmp_path, tmp_path / "latents.safetensors"),
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, limit),
        capture_output=True, text=True,
    )  # fmt: skip
    assert process.returncode == 1
    (line,) = process.stderr.splitlines()
    assert line.startswith("error: out of memory: ")
    assert "give the job more, run fewer jobs at once, or lower seeds_per_block" in line
    assert [path.name for path in tmp_path.iterdir()] == ["jobs"]


def test_other_errors_are_not_taken_for_lack_of_memory():
    def fail():
        raise RuntimeError("shapes differ")

    with pytest.raises(RuntimeError, match="shapes differ"):
        run_main(fail)


def test_sigterm_ends_a_training_and_leaves_no_file(tmp_path):
    shared = {"draws": "s", "data": tiny_data()}
    job = job_at(SYNTHESISE, shared, "s", SYNTHESISE.shared_cell(CELL), "1-2")
    latents = tmp_path / SYNTHESISE.path("latents", "s", CELL, "1-2")
    subprocess.run(execute_command(job, tmp_path, latents), check=True)
    training = {"training": tiny_training(T=10**8, eta=1e-3), "arms": [Arm(arm="dense")]}
    job = job_at(PRETRAIN, shared | training | {"simulator": "reduced"}, "s", CELL, "1-2")
    outputs = tmp_path / "e.safetensors", tmp_path / "t.parquet"
    command = execute_command(job, tmp_path, *outputs)
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert "0%" in process.stderr.readline()
        process.terminate()
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 1
    assert errors.splitlines()[-1] == "error: ended by SIGTERM; run snakemake again"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["jobs", "latents"]


def test_local_run_starts_no_timer_for_its_jobs(tmp_path):
    """A limit of jobs per second starts one after each job, again and again."""
    script = """
import sys, threading
started = []
threading.Timer.start = lambda timer: started.append(timer)
from snakemake.cli import main
try:
    main(sys.argv[1:])
finally:
    print("timers:", len(started))
"""
    folder = copy_project(tmp_path)
    python, _, _, *arguments = snakemake(folder, "--", "lucky_sets")
    process = execute(folder, python, "-c", script, *arguments)
    assert (folder / RESULTS / "tables/lucky_sets.parquet").is_file(), process.stderr
    assert "timers: 0" in process.stdout
