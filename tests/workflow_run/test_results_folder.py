"""The folder of results: its name and its lock."""

import subprocess
import sys

import pytest
from conftest import refusal

from rarefeat.workflow.project import check_results_path
from rarefeat.workflow.run.results_folder import acquire


@pytest.mark.parametrize("folder", ["r", "results/mine", "/tmp/a b", "Ergebnisse/für mich"])
def test_results_path_is_kept(folder):
    assert check_results_path(folder) == folder


@pytest.mark.parametrize(
    "folder",
    [".", "../r", "a/../config", "./src", "config/mine", "-x", "~/r", "s3://a", "a{b}"],
)
def test_results_path_that_misleads_is_refused(folder):
    with pytest.raises(ValueError, match="must be"):
        check_results_path(folder)


def test_results_path_is_what_a_user_means(tmp_path):
    assert check_results_path("a/../b/") == "b"
    for wrong in (tmp_path, tmp_path.parent, tmp_path / "config", tmp_path / "a/../src/x"):
        with pytest.raises(ValueError, match="a folder of its own"):
            check_results_path(str(wrong))


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
