"""The command `rarefeat`."""

import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from rarefeat.workflow.cli import main


@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize(
    ("line", "status", "words"),
    [
        ("verify --help", 0, "Usage: main verify [OPTIONS] RESULTS"),
        ("accept nowhere", 1, "nowhere"),
        ("images nowhere", 1, "nowhere"),
        ("list figure", 0, " |cos| at least"),
        ("predict-critical-frequency m=60", 0, "eps_min=0."),
        (
            "predict-critical-frequency --kappa 0.8 --gamma 10 'bias={share: 0.2}'",
            1,
            "bias: Input should be a valid dictionary",
        ),
        ("predict-critical-frequency K=64", 1, "K is 64, and not 128"),
        ("predict-step m=60", 0, "DeprecationWarning: The command 'predict-step' is deprecated"),
        ("show nothing", 1, "nothing"),
        ("new paper", 1, "new: paper is a target"),
        ("new __main__", 1, "new: __main__ is an installed Python module"),
        (f"new {'x' * 61}", 1, "new: invalid name 'xxx"),
        ("new été", 1, "new: 'été': use letters"),
    ],
)
def test_command_prints_its_result_or_one_line(line, status, words, monkeypatch):
    monkeypatch.setattr(sys, "argv", sys.argv)
    run = CliRunner().invoke(main, shlex.split(line))
    assert run.exit_code == status, run.output
    assert words in run.output
    assert "Traceback" not in run.output
    assert status == 0 or len(run.output.splitlines()) == 1


def test_new_writes_a_study_that_snakemake_plans(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert CliRunner().invoke(main, ["new", "first_rule"]).exit_code == 0
    assert {path.name for path in tmp_path.iterdir()} == {
        "Snakefile",
        "first_rule.py",
        "first_rule.yaml",
    }
    again = CliRunner().invoke(main, ["new", "first_rule"])
    assert again.output == "Error: new: first_rule.yaml exists; choose another name or delete it\n"
    snakemake = [sys.executable, "-m", "snakemake", "--dry-run", "--configfile", "first_rule.yaml"]
    plan = subprocess.run(snakemake, capture_output=True, text=True)
    assert not plan.returncode, plan.stdout + plan.stderr
    assert "first_rule" in plan.stdout + plan.stderr
    Path("first_rule.yaml").unlink()
    Path("first_rule.py").unlink()
    Path("Snakefile").write_text("# first_rule\n", encoding="utf-8")
    CliRunner().invoke(main, ["new", "first_rule"])
    assert Path("Snakefile").read_text(encoding="utf-8") == "# first_rule\n"


def test_show_offers_files_that_are_there(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    table = tmp_path / "results/quick/tables/paper_summary.parquet"
    table.parent.mkdir(parents=True)
    table.touch()
    for name in ("paper_sumary", "results/quick/tables/paper_sumary.parquet"):
        output = CliRunner().invoke(main, ["show", name]).output
        assert output.endswith("; did you mean results/quick/tables/paper_summary.parquet?\n")
