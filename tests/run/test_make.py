"""What runs the functions of jobs is in no digest, and so must set no number: one thread, and what is given as it is."""

import sys

import numpy as np
import pandas as pd
import pytest
import torch
from conftest import job_path, refusal

from rarefeat.run import execute_job
from rarefeat.run.job import Job
from rarefeat.run.job_inputs import JobInputs
from rarefeat.storage.sealed_files import read_table
from rarefeat.storage.tensors import read_tensors
from rarefeat.study_kind import IMAGE_DATA, IMAGE_PRETRAIN

TABLE = pd.DataFrame(
    {
        "seed": [2, 1],
        "value": [0.1 + 0.2, float("nan")],
        "single": np.float32([1 / 3, 1e-30]),
        "name": ["b", "a"],
    }
)
ROWS = TABLE.drop(columns="single").to_dict("records")


def made(monkeypatch, path, found, **job):
    """Run a function that gives this, from the command line."""
    seen = []
    monkeypatch.setattr(
        make,
        "function_of",
        lambda name: lambda read, job: (seen.append(torch.get_num_threads()), found)[1],
    )
    monkeypatch.setattr(
        sys, "argv", ["make", "--job", job_path(Job(stage="a:b", **job)), "--output", str(path)]
    )
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        make.make(None)
    finally:
        torch.set_num_threads(threads)
    assert seen == [1]
    return path


@pytest.mark.parametrize(("found", "cell"), [(TABLE, {}), (TABLE, {"x": 1}), (ROWS, {"x": 1})])
def test_rows_are_written_as_they_are_given(tmp_path, monkeypatch, found, cell):
    path = made(monkeypatch, tmp_path / "rows.parquet", found, cell=cell)
    pd.testing.assert_frame_equal(
        read_table(path).to_pandas(), pd.DataFrame(found), check_exact=True
    )


def test_tensors_are_written_as_they_are_given(tmp_path, monkeypatch):
    found = {"x": torch.rand(3, 4).mT, "n": torch.arange(3)}
    path = made(monkeypatch, tmp_path / "some.safetensors", found, cell={"x": 1})
    assert all(map(torch.equal, read_tensors(path, *found), found.values()))


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (
            ["--output", "one", "two"],
            "--results is missing, the folder of the files that the job reads",
        ),
        (
            ["--results", ".", "--output", "one"],
            "--output: images.pretrain:stage writes 2 files, got 1 paths",
        ),
    ],
)
def test_a_stage_of_cells_begins_with_all_that_it_needs(monkeypatch, capsys, words, says):
    job = Job(
        stage=IMAGE_PRETRAIN.function, files={"images": IMAGE_DATA.function}, cell={"rho": 1.0}
    )
    monkeypatch.setattr(make, "function_of", lambda name: pytest.fail)
    monkeypatch.setattr(sys, "argv", ["make", "--job", job_path(job), *words])
    with pytest.raises(SystemExit) as ending:
        make.make(None)
    assert ending.value.code == 2
    assert capsys.readouterr().err.endswith(f"error: {says}\n")


def test_a_training_without_a_folder_for_its_checkpoints_is_refused():
    read = JobInputs(Job(stage=IMAGE_PRETRAIN.function))
    assert (
        refusal(lambda: read.checkpoints)
        == "--checkpoints is missing, a folder for what images.pretrain:stage goes on from"
    )
