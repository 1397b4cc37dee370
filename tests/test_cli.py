"""The command `rarefeat`."""

import runpy
import shlex
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

import rarefeat
from rarefeat.errors import RarefeatError
from rarefeat.workflow import new
from rarefeat.workflow.cli import main
from rarefeat.workflow.new import KINDS
from rarefeat.workflow.run.code_hashes import user_functions


@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize(
    ("line", "status", "words"),
    [
        ("verify --help", 0, "Usage: main verify [OPTIONS] RESULTS"),
        ("accept nowhere", 1, "nowhere"),
        ("images nowhere", 1, "nowhere"),
        ("list figure", 0, " |cos| at least"),
        ("show nothing", 1, "nothing"),
        ("new rule paper", 1, "new: paper is a target"),
        ("new loss __main__", 1, "new: __main__ is an installed Python module"),
        (f"new rule {'x' * 61}", 1, "new: 'xxx"),
        ("new study theorems", 1, "rarefeat.studies.theorems is an installed Python module"),
        ("new rule été", 1, "new: 'été': use letters"),
    ],
)
def test_command_prints_its_result_or_one_line(line, status, words, monkeypatch):
    monkeypatch.setattr(sys, "argv", sys.argv)
    run = CliRunner().invoke(main, shlex.split(line))
    assert run.exit_code == status, run.output
    assert words in run.output
    assert "Traceback" not in run.output
    assert status == 0 or len(run.output.splitlines()) == 1


def test_new_writes_a_study_and_overwrites_nothing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert CliRunner().invoke(main, ["new", "rule", "first_rule"]).exit_code == 0
    assert {path.name for path in tmp_path.iterdir()} == {
        "Snakefile",
        "first_rule.py",
        "first_rule.yaml",
    }
    again = CliRunner().invoke(main, ["new", "rule", "first_rule"])
    assert again.output == "Error: new: first_rule.yaml exists; choose another name or delete it\n"
    Path("first_rule.yaml").unlink()
    Path("first_rule.py").unlink()
    Path("Snakefile").write_text("# first_rule\n", encoding="utf-8")
    CliRunner().invoke(main, ["new", "rule", "first_rule"])
    assert Path("Snakefile").read_text(encoding="utf-8") == "# first_rule\n"


TINY = {"d1": 16, "N": 256, "K": 32, "T": 5, "progress": False}


@pytest.mark.parametrize("kind", KINDS)
def test_new_file_trains_beside_its_config(kind, tmp_path, monkeypatch):
    (tmp_path / "folder").mkdir()
    monkeypatch.chdir(tmp_path / "folder")
    name = f"tiny_{kind}"
    written = CliRunner().invoke(main, ["new", kind, name]).output
    assert f"run `snakemake --cores 2 {name} --configfile {name}.yaml`" in written
    monkeypatch.chdir(tmp_path)
    config = rarefeat.load_config(f"folder/{name}.yaml")
    (own,) = set(user_functions(config.merged))
    if kind == "rule":
        trained = rarefeat.train(config=config, arm=own, alpha=0.1, **TINY)
        assert own in repr(trained)
    else:
        key = {KINDS[kind]: own}
        trained = rarefeat.train_learners(config=config, seed=range(2), **key, **TINY)
        assert not trained.table["diverged"].any()


def test_new_study_measures(tmp_path, monkeypatch):
    monkeypatch.setattr(new, "STUDIES", tmp_path)
    monkeypatch.chdir(tmp_path)
    assert "run `snakemake --cores 2 tiny claims_tiny" in new.write("study", "tiny")
    assert "toy" not in (tmp_path / "tiny.yaml").read_text()
    study = runpy.run_path("tiny.py", run_name="rarefeat.studies.tiny")
    rows = study["learn"]({"samples": 10}, [1, 2], "tiny", 20)
    assert [row["seed"] for row in rows] == [1, 2]
    with pytest.raises(RarefeatError, match=r"tiny\.py exists"):
        new.write("study", "tiny")
