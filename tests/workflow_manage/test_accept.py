"""Code that gives the same bytes is accepted after a sample, and other code is not."""

from dataclasses import replace

import pytest
from conftest import quick, refusal, run_stage

from rarefeat.workflow.accept import accept
from rarefeat.workflow.files.tensors import read_tensors, write_tensors
from rarefeat.workflow.project import write_merged
from rarefeat.workflow.run import code_hashes
from rarefeat.workflow.study_kind import SYNTHESISE

PROJECT = quick()
PLACE = "heatmap", "eps_min=0.1", "100-103"
FILE = "latents/heatmap/eps_min=0.1/seeds=100-103.safetensors"


@pytest.fixture
def results(tmp_path, monkeypatch):
    """A folder of results with one file of a cell, of older code than now."""
    project = replace(PROJECT, results=str(tmp_path))
    project = replace(project, merged={**project.merged, "results": str(tmp_path), "name": ""})
    for name in ("READ", "AT_START", "ACCEPTED"):
        monkeypatch.setattr(code_hashes, name, {})
    write_merged(project)
    run_stage(project.stage_job(SYNTHESISE, *PLACE), tmp_path, tmp_path / FILE)
    code_hashes.write_start(tmp_path)
    edited = list(code_hashes.read_module("model.sparse_coding"))
    edited[2] = "another hash"
    monkeypatch.setitem(code_hashes.READ, "model.sparse_coding", edited)
    code_hashes.module_hashes.cache_clear()
    yield tmp_path
    code_hashes.module_hashes.cache_clear()


def test_code_of_the_same_bytes_stands_for_the_old(results, monkeypatch):
    before = code_hashes.module_hashes(SYNTHESISE.function)
    assert before["model.sparse_coding"] == "another hash"
    assert accept(results) == [SYNTHESISE.function]
    assert "another hash" not in code_hashes.module_hashes(SYNTHESISE.function).values()
    assert accept(results) == []
    # A later run reads what was accepted.
    monkeypatch.setattr(code_hashes, "ACCEPTED", {})
    code_hashes.read_start(results)
    code_hashes.module_hashes.cache_clear()
    assert "another hash" not in code_hashes.module_hashes(SYNTHESISE.function).values()


def test_code_of_other_bytes_is_refused(results):
    (train,) = read_tensors(results / FILE, "train")
    write_tensors(results / FILE, {"train": train + 1}, metadata_of(results / FILE))
    assert refusal(accept, results) == f"cannot accept: {results / FILE}: the new bytes differ"
    assert not (results / code_hashes.ACCEPTED_FILE).exists()


def metadata_of(path) -> str:
    """Return what a file of tensors says that it is."""
    from safetensors import safe_open

    with safe_open(path, "pt") as file:
        return file.metadata()["rarefeat"]


def test_folder_without_a_run_is_one_line(tmp_path):
    assert refusal(accept, tmp_path) == f"{tmp_path}: no run has been made in it"
