"""Killed runs, damaged and misplaced files, and jobs that end in one line."""

import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from conftest import until
from whole_project import (
    RESULTS,
    ROOT,
    copy_project,
    environment,
    run,
    run_module,
    snakemake,
    succeed,
)

from rarefeat.workflow.files.sealed_files import verify
from rarefeat.workflow.run.cli_helpers import run_main

TABLE = RESULTS / "tables/neighbour_grid.parquet"


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


def command_line(folder: Path, function: str, *words: str, **config) -> list[str]:
    """Return the command line of a job of the study `neighbour`, with changes of the config."""
    (folder / "more.yaml").write_text(
        yaml.safe_dump({"imbalance": {"studies": {"neighbour": config}}})
    )
    files = [str(ROOT / f"config/{name}.yaml") for name in ("config", "quick")]
    launch = [sys.executable, "-m", "rarefeat.workflow.run.launch", "run", function]
    place = ["--seeds", "100-103", "--config", *files, str(folder / "more.yaml")]
    return [*launch, "neighbour", *place, *words]


def test_job_without_enough_memory_is_one_line(tmp_path):
    words = "--cell", "eps_min=0.2", "--output", str(tmp_path / "latents.safetensors")
    limit = 8 * 2**30, 8 * 2**30
    process = subprocess.run(
        command_line(tmp_path, "stages.synthesise:stage", *words, data={"N": 10**9}),
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, limit),
        capture_output=True, text=True,
    )  # fmt: skip
    assert process.returncode == 1
    (line,) = process.stderr.splitlines()
    assert line.startswith("error: out of memory: ")
    assert "give the job more, run fewer jobs at once, or lower seeds_per_block" in line
    assert [path.name for path in tmp_path.iterdir()] == ["more.yaml"]


def test_other_errors_are_not_taken_for_lack_of_memory():
    def fail():
        raise RuntimeError("shapes differ")

    with pytest.raises(RuntimeError, match="shapes differ"):
        run_main(fail)


def test_sigterm_ends_a_training_and_leaves_no_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    latents = "results/quick/latents/neighbour/eps_min=0.2/seeds=100-103.safetensors"
    words = "--cell", "eps_min=0.2", "--output", latents
    config = {"training": {"T": 10**8, "eta": 1e-3}}
    subprocess.run(command_line(tmp_path, "stages.synthesise:stage", *words, **config), check=True)
    words = "--cell", "eps_min=0.2/sigma=0.05", "--output", "e.safetensors", "t.parquet"
    command = command_line(tmp_path, "stages.pretrain:stage", *words, **config)
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert "0%" in process.stderr.readline()
        process.terminate()
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 1
    assert errors.splitlines()[-1] == "error: ended by SIGTERM; run snakemake again"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["more.yaml", "results"]
