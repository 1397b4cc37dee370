"""The command `rarefeat`: what it hands to Snakemake and to other command lines, and what these say."""

import importlib
import sys

import pytest
from click.testing import CliRunner

from rarefeat import command


@pytest.mark.parametrize(
    ("line", "ends"),
    [
        ("-n mine --configfile mine.yaml", "-n mine"),
        ("-n --configfile=mine.yaml mine", "-n -- mine"),
        (
            "--config seeds=3 --configfile mine.yaml mine results/provenance.json",
            "--config seeds=3 -- mine results/provenance.json",
        ),
        ("--configfile mine.yaml -- mine", "-- mine"),
    ],
)
def test_a_config_of_one_s_own_is_laid_over_that_of_the_package(line, ends, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.yaml").touch()
    found = command.snakemake_arguments(line.split())
    assert found[0] == "--configfile"
    assert [found[1].endswith("/config/config.yaml"), found[2]] == [True, "mine.yaml"]
    assert found[3] == "--snakefile"
    assert " ".join(found).endswith(f" --cores all {ends}")


@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize(
    ("line", "status", "says"),
    [
        ("verify --help", 0, "usage: rarefeat verify [-h]"),
        ("verify nowhere", 1, "nowhere"),
        ("accept --help", 0, "usage: rarefeat accept [-h]"),
        ("accept nowhere", 1, "nowhere"),
        ("images --help", 0, "usage: rarefeat images [-h]"),
        ("images nowhere", 1, "nowhere"),
        ("doctor", 0, "bfloat16"),
        ("list figures", 0, " |cos| at least"),
        ("predict-step 0.8 10 m=60", 0, "0."),
        ("predict-step 0.8 10 m", 1, "m: a change is KEY=VALUE"),
        ("new 1st", 1, "'1st' is no name"),
        ("show nothing", 1, "'nothing' is the name of no table"),
    ],
)
def test_a_command_says_what_it_found_or_what_is_wrong_in_a_line(line, status, says, monkeypatch):
    monkeypatch.setattr(sys, "argv", sys.argv)
    for module, *_ in command.MODULES.values():
        importlib.import_module(module)
    done = CliRunner().invoke(command.main, line.split())
    assert done.exit_code == status, done.output
    assert says in done.output
    assert "Traceback" not in done.output
    assert status == 0 or len(done.output.splitlines()) == 1
