"""Examples run at a tiny size, and their YAML files are configs of the workflow."""

import re
import runpy
import shutil
from dataclasses import replace
from pathlib import Path

import matplotlib as mpl
import pytest

import rarefeat
from rarefeat.model import own_files
from rarefeat.workflow.project import load_merged, write_merged
from rarefeat.workflow.registry import find_stage
from rarefeat.workflow.run.code_hashes import user_code

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
def test_first_line_of_yaml_finds_its_file_from_clone_and_folder(path, monkeypatch):
    line = path.with_suffix(".yaml").read_text().partition("\n")[0]
    command, file = re.findall("`([^`]+)`", line)
    hashes = []
    for folder, config in ((EXAMPLES.parent, command.split()[-1]), (EXAMPLES, file)):
        monkeypatch.chdir(folder)
        hashes.append(user_code(rarefeat.load_config(config).merged))
    assert hashes[0] == hashes[1]
    assert len(hashes[0]) == 1


def test_jobs_find_the_file_beside_the_config_that_the_plan_has_read(tmp_path, monkeypatch):
    monkeypatch.chdir(EXAMPLES.parent)
    project = rarefeat.load_config("examples/own_loss.yaml")
    place = find_stage("studies.learners.measure:learn"), "mine"
    cell = next(path for name, path in project.cells if name == "mine" and "margin" in path)
    planned = project.stage_job(*place, cell, "100-109")
    assert "own.own_loss:margin" in planned.code
    write_merged(replace(project, results=str(tmp_path)))
    monkeypatch.setattr(own_files, "FOLDERS", [])
    job = load_merged(str(tmp_path)).stage_job(*place, cell, "100-109")
    assert job == planned
