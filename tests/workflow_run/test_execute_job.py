"""The runner of jobs is in no code hash, so it must set no number: one thread.

Results written as they are.
"""

import numpy as np
import pandas as pd
import pytest
import torch
from conftest import refusal, run_stage

from rarefeat.workflow.files.sealed_files import read_table
from rarefeat.workflow.files.tensors import read_tensors
from rarefeat.workflow.run import execute_job
from rarefeat.workflow.run.job import Job

TABLE = pd.DataFrame(
    {
        "seed": [2, 1],
        "value": [0.1 + 0.2, float("nan")],
        "single": np.float32([1 / 3, 1e-30]),
        "name": ["b", "a"],
    }
)
ROWS = TABLE.drop(columns="single").to_dict("records")


@pytest.fixture
def execute(monkeypatch, tmp_path):
    """Execute a job whose function returns something, with two threads before it."""

    def execute(result, *outputs: str, stage: str = "a:b", **job) -> None:
        threads = torch.get_num_threads()
        used = []
        monkeypatch.setattr(
            execute_job,
            "load_function",
            lambda name: lambda inputs, job: (used.append(torch.get_num_threads()), result)[1],
        )
        torch.set_num_threads(2)
        try:
            run_stage(Job(stage=stage, **job), tmp_path, *(tmp_path / name for name in outputs))
        finally:
            torch.set_num_threads(threads)
        assert used == [1]

    return execute


@pytest.mark.parametrize(
    ("result", "stage"),
    [(TABLE, "a:b"), (TABLE, "stages.probe:stage"), (ROWS, "stages.probe:stage")],
)
def test_rows_are_written_as_they_are(tmp_path, execute, result, stage):
    execute(result, "rows.parquet", stage=stage)
    written = read_table(tmp_path / "rows.parquet").to_pandas()
    pd.testing.assert_frame_equal(written, pd.DataFrame(result), check_exact=True)


def test_tensors_are_written_as_they_are(tmp_path, execute):
    tensors = {"x": torch.rand(3, 4).mT, "n": torch.arange(3)}
    execute(tensors, "some.safetensors", stage="stages.synthesise:stage")
    written = read_tensors(tmp_path / "some.safetensors", *tensors)
    assert all(map(torch.equal, written, tensors.values()))


def test_tables_are_written_under_their_names(tmp_path, execute):
    tables = {"first": TABLE, "second": TABLE.head(1), "third": TABLE}
    execute(tables, "second.parquet", "first.parquet")
    assert read_table(tmp_path / "second.parquet").num_rows == 1
    assert read_table(tmp_path / "first.parquet").num_rows == 2


def test_number_of_results_is_checked(execute):
    message = refusal(execute, (TABLE, TABLE), "one.parquet")
    assert message == "a:b: expected 1 results, got 2"


def test_missing_job_file_is_one_line(tmp_path):
    missing = tmp_path / "jobs/a.json"
    assert refusal(execute_job.read_job_file, missing).startswith(f"cannot read {missing}: ")
    missing.parent.mkdir()
    missing.write_text("{")
    assert refusal(execute_job.read_job_file, missing).startswith(f"{missing}: ")
