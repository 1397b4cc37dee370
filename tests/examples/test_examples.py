"""Examples run at a tiny size, and their YAML files are configs of the workflow."""

import runpy
import shutil
from pathlib import Path

import matplotlib as mpl
import pytest

import rarefeat

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
