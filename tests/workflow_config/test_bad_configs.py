"""Bad configs: each is one line that names the key."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from conftest import refusal

from rarefeat.workflow.config.study import merge_configs
from rarefeat.workflow.config.yaml_reader import read_yaml
from rarefeat.workflow.project import load

ROOT = Path(__file__).parents[2]
CASES = read_yaml(Path(__file__).with_name("bad_configs.yaml"))
STUDY = {"grid": {"g": {"eps_min": [0.5], "sigma": [0.05], "arms": ["dense"]}}}


def config_text(case: dict) -> str:
    if "study" in case:
        case = {"config": {"imbalance": {"studies": {"mine": merge_configs(STUDY, case["study"])}}}}
    return case["config"] if isinstance(case["config"], str) else yaml.safe_dump(case["config"])


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("case", [case for cases in CASES.values() for case in cases])
def test_bad_config_is_one_line(case, folder):
    Path("mine.yaml").write_text(config_text(case), encoding="utf-8")
    message = refusal(load, ROOT / "config/config.yaml", "mine.yaml").removeprefix("config: ")
    pattern = ".*".join(map(re.escape, case["error"].split("...")))
    assert re.fullmatch(pattern, message, re.DOTALL)


def test_study_of_the_cases_is_valid(folder):
    Path("mine.yaml").write_text(config_text({"study": {}}), encoding="utf-8")
    assert "mine" in load(ROOT / "config/config.yaml", "mine.yaml").studies


CLASH = "imbalance={studies: {pretrain: {grid: {g: {eps_min: [1], sigma: [0.1], arms: [dense]}}}}}"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--configfile twice.yaml", "twice.yaml: line 2: found duplicate key"),
        (f"--config '{CLASH}'", "The name pretrain is already used by another rule"),
    ],
)
def test_snakemake_prints_the_line_before_any_job(arguments, message, folder):
    Path("twice.yaml").write_text("seeds: 4\nseeds: 5\n", encoding="utf-8")
    command = [sys.executable, "-m", "snakemake", "--cores", "1"]
    command += ["--snakefile", ROOT / "workflow/Snakefile"]
    run = subprocess.run([*command, *shlex.split(arguments)], capture_output=True, text=True)
    output = run.stdout + run.stderr
    assert run.returncode
    assert sum(message in line for line in output.splitlines()) == 1
    assert "Traceback" not in output
    assert not Path("results").exists()
