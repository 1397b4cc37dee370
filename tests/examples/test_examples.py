"""Examples run at a tiny size, and their YAML files are configs of the workflow."""

import re
import runpy
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import matplotlib as mpl
import pytest

import rarefeat
from rarefeat.model import user_modules
from rarefeat.workflow.project import load_merged, write_merged
from rarefeat.workflow.registry import find_stage

EXAMPLES = Path(__file__).parents[2] / "examples"
SCRIPTS = sorted(EXAMPLES.glob("*.py"))
TINY = {"seeds": range(2), "d1": 16, "N": 256, "K": 32, "T": 5, "progress": False}


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_example_draws_and_says_what_one_sees(path, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    mpl.use("agg")
    runpy.run_path(str(path))["main"](**TINY)
    assert (tmp_path / f"{path.stem}.png").stat().st_size > 5000
    assert "R^2 of the rare feature is" in capsys.readouterr().out.splitlines()[-1]
    mpl.pyplot.close("all")


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_yaml_of_example_is_a_study(path, tmp_path, monkeypatch):
    for suffix in (".py", ".yaml"):
        shutil.copy(path.with_suffix(suffix), tmp_path)
    monkeypatch.chdir(tmp_path)
    project = rarefeat.load_config(f"{path.stem}.yaml")
    assert "figures/mine_lockout.png" in project.targets["mine"]
    job = project.table_job("mine_readouts")
    assert any(path.stem in name for name in project.studies["mine"].model_dump_json().split('"'))
    assert job.stage == "stages.concat_tables:collect"


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_first_line_of_yaml_runs_in_the_clone_and_in_the_folder(path):
    first = path.with_suffix(".yaml").read_text().partition("\n")[0]
    command, file = re.findall("`([^`]+)`", first)
    *words, config = command.split()[1:]
    for folder, name in ((EXAMPLES.parent, config), (EXAMPLES, file)):
        plan = subprocess.run(
            [sys.executable, "-m", "snakemake", *words, name, "--dry-run"],
            cwd=folder,
            capture_output=True,
            text=True,
        )
        assert plan.returncode == 0, plan.stdout + plan.stderr
        assert "mine_lockout" in plan.stdout + plan.stderr


def test_jobs_find_the_file_beside_the_config_that_the_plan_has_read(tmp_path, monkeypatch):
    monkeypatch.chdir(EXAMPLES.parent)
    project = rarefeat.load_config("examples/own_loss.yaml")
    place = find_stage("studies.learners.measure:learn"), "mine"
    cell = next(path for name, path in project.cells if name == "mine" and "margin" in path)
    planned = project.stage_job(*place, cell, "100-109")
    assert "own.own_loss:margin" in planned.code
    write_merged(replace(project, results=str(tmp_path)))
    monkeypatch.setattr(user_modules, "FOLDERS", [])
    job = load_merged(str(tmp_path)).stage_job(*place, cell, "100-109")
    assert job == planned
