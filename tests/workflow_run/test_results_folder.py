"""The folder of results: its name, its lock, and results that Snakemake has no records of."""

import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
from conftest import refusal

from rarefeat.workflow.project import check_results_path, load
from rarefeat.workflow.run.metadata import build_origin, write_product
from rarefeat.workflow.run.results_folder import acquire, explain_unrecorded

PROJECT = load()
TABLE = pd.DataFrame({"value": [1.0]})


@pytest.mark.parametrize("folder", ["r", "results/mine", "/tmp/a b", "Ergebnisse/für mich"])
def test_results_path_is_kept(folder):
    assert check_results_path(folder) == folder


@pytest.mark.parametrize(
    "folder",
    [".", "..", "../r", "./src", "src", "config/mine", "-x", "~/r", "s3://a", "a{b}", "a'b", "a$b"],
)
def test_results_path_that_misleads_is_refused(folder):
    with pytest.raises(ValueError, match="must be"):
        check_results_path(folder)


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_lock_keeps_a_second_process_out(tmp_path):
    acquire(tmp_path)
    code = f"from rarefeat.workflow.run.results_folder import acquire; acquire({str(tmp_path)!r})"
    second = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "another snakemake works in it" in second.stderr
    acquire(tmp_path)


def test_acquire_removes_only_its_own_temporary_files(tmp_path):
    (tmp_path / "tables").mkdir()
    own = tmp_path / "tables/.a.parquet.12.rarefeat-tmp.parquet"
    notes = tmp_path / ".notes.2024.tmp"
    for path in (own, notes):
        path.touch()
    acquire(tmp_path)
    assert (own.exists(), notes.exists()) == (False, True)


def test_folder_that_cannot_be_written_is_one_line(tmp_path):
    (tmp_path / "file").touch()
    assert "cannot be written" in refusal(acquire, tmp_path / "file/results")


@pytest.fixture
def project():
    """A project whose results have one table, in a working directory without records."""
    path = Path("results/tables/heatmap_grid.parquet")
    write_product(path, TABLE, build_origin(PROJECT.table_job("heatmap_grid")))
    return replace(PROJECT, results="results")


def test_results_of_this_config_are_recorded(project):
    assert explain_unrecorded(project) == ""
    assert len(list(Path(".snakemake/rarefeat").iterdir())) == 1


def test_results_of_a_first_run_are_recorded(project):
    shutil.rmtree("results")
    acquire("results")
    path = Path("results/tables/heatmap_grid.parquet")
    write_product(path, TABLE, build_origin(PROJECT.table_job("paper_grid")))
    assert explain_unrecorded(project) == ""


def test_results_of_another_config_are_told_until_mended(project):
    path = Path("results/tables/heatmap_grid.parquet")
    other = PROJECT.table_job("paper_grid")
    write_product(path, TABLE, build_origin(other))
    for _ in range(2):
        warning = explain_unrecorded(project)
        assert warning.startswith(f"{path}: made by another config or code")
        assert "\n" not in warning
    path.unlink()
    assert explain_unrecorded(project) == ""
    write_product(path, TABLE, build_origin(other))
    # Recorded results are Snakemake's to compare.
    assert explain_unrecorded(project) == ""
    Path("results/.token").write_text("elsewhere")
    assert explain_unrecorded(project)
