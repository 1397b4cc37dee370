"""A job whose code is not that with which its run was planned does not begin."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import job_at, job_path
from rarefeat.workflow.run.write_guard import ACCEPTING, PLANNED, source_state

from rarefeat.workflow.config.cells import cell
from rarefeat.workflow.project import load
from rarefeat.workflow.run.code_hashes import PACKAGE
from rarefeat.workflow.study_kind import SYNTHESISE

DATA = load("config/config.yaml", "config/quick.yaml").studies["heatmap"].data


@pytest.fixture
def source(tmp_path) -> Path:
    """A copy of the source that a test may edit."""
    ignore = shutil.ignore_patterns("__pycache__")
    return Path(shutil.copytree(PACKAGE, tmp_path / "src/rarefeat", ignore=ignore)).parent


def synthesise(source: Path, **variables: str) -> subprocess.CompletedProcess:
    """Run the stage of a copy of the source, in a job that names the code of this one."""
    job = job_at(SYNTHESISE, {"draws": "a", "data": DATA}, "a", cell(eps_min=0.5), "0-0")
    words = ["--job", job_path(job), "--output", str(source.parent / "a.safetensors")]
    environment = os.environ | {"PYTHONPATH": str(source)} | variables
    command = [sys.executable, "-m", "rarefeat.workflow.run.execute_job", *words]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def test_edit_that_sets_no_number_is_run(source, tmp_path):
    (source / "rarefeat/stages/synthesise.py").open("a").write("# a comment\n")
    assert synthesise(source).returncode == 0


def test_edited_code_is_refused_in_one_line(source, tmp_path):
    path = source / "rarefeat/stages/synthesise.py"
    path.write_text(path.read_text().replace("eps_min)", "eps_min / 2)", 1))
    done = synthesise(source, **{PLANNED: source_state()})
    line = (
        "error: the code of stages.synthesise:stage was edited after this run was planned;"
        " run snakemake again\n"
    )
    assert (done.returncode, done.stderr) == (1, line)
    assert not (tmp_path / "a.safetensors").exists()
    assert synthesise(source, **{ACCEPTING: "1"}).returncode == 0
