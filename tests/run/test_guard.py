"""A job whose code is not what its run was planned with writes nothing."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import job_at

from rarefeat.config.cells import cell
from rarefeat.kind import PRETRAIN, SYNTHESISE
from rarefeat.project import load
from rarefeat.run.digests import PACKAGE
from rarefeat.run.job import job

STUDY = load("config/config.yaml", "config/quick.yaml").studies["heatmap"]


@pytest.fixture
def package(tmp_path) -> Path:
    """A copy of the source that a test may edit."""
    return Path(shutil.copytree(PACKAGE, tmp_path / "src/rarefeat", ignore=shutil.ignore_patterns("__pycache__")))


def synthesise(package: Path, output: Path, **code: str) -> subprocess.Popen:
    """The stage as the copy has it, told that it was planned with this code, or with that of now."""
    told = job_at(SYNTHESISE, {"draws": "a", "data": STUDY.data}, "a", cell(eps_min=0.5), "0-0")
    told = told.model_copy(update={"code": code or told.code})
    command = [sys.executable, "-m", "rarefeat.run.make", "--job", told.text, "--output", str(output)]
    free = {name: value for name, value in os.environ.items() if not name.startswith("RAREFEAT_")}
    return subprocess.Popen(command, env=free | {"PYTHONPATH": str(package.parent)}, stderr=subprocess.PIPE, text=True)


def change(package: Path) -> None:
    path = package / "chain/synthesise.py"
    text = path.read_text()
    assert "eps_min)" in text
    path.write_text(text.replace("eps_min)", "eps_min / 2)", 1))


def test_code_that_the_run_was_planned_with_is_run(package, tmp_path):
    (package / "run/workers.py").write_text("# other code that sets no number\n")
    assert synthesise(package, tmp_path / "a.safetensors").wait() == 0


def test_a_stage_that_was_edited_after_the_plan_ends_before_it_writes(package, tmp_path):
    change(package)
    stage = synthesise(package, tmp_path / "a.safetensors")
    _, errors = stage.communicate()
    assert stage.returncode == 1
    assert errors == "error: the code of chain.synthesise:stage was edited after this run was planned; run snakemake again\n"
    assert not (tmp_path / "a.safetensors").exists()


def test_what_a_stage_made_while_its_code_was_edited_is_not_kept(package, tmp_path):
    # Held until the edit is there.
    fifo = tmp_path / "go"
    os.mkfifo(fifo)
    path = package / "chain/synthesise.py"
    text = path.read_text().replace("    return synthesise(", f"    open({str(fifo)!r}).read()\n    return synthesise(", 1)
    path.write_text(text)
    told = subprocess.run(
        [sys.executable, "-c", "from rarefeat.run.digests import code; print(code('chain.synthesise:stage'))"],
        env=os.environ | {"PYTHONPATH": str(package.parent)}, capture_output=True, text=True, check=True,
    ).stdout.strip()  # fmt: skip
    stage = synthesise(package, tmp_path / "a.safetensors", **{SYNTHESISE.function: told})
    with open(fifo, "w") as go:
        change(package)
        go.write("now")
    _, errors = stage.communicate()
    assert stage.returncode == 1
    assert "is not written: the code of chain.synthesise:stage was edited" in errors
    assert sorted(path.name for path in tmp_path.iterdir()) == ["go", "src"]


def test_a_job_says_the_digests_of_all_that_it_came_through():
    told = json.loads(job(PRETRAIN.function, PRETRAIN.through, {}).text)
    assert set(told["code"]) == {SYNTHESISE.function, PRETRAIN.function}
