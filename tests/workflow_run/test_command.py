"""What runs jobs is in no code hash, so it must set no number: one thread, results as they are."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from conftest import quick, refusal, run_stage

from rarefeat.workflow.config.model import Data
from rarefeat.workflow.files.sealed_files import read_table
from rarefeat.workflow.files.tensors import read_tensors
from rarefeat.workflow.project import write_merged
from rarefeat.workflow.run import command
from rarefeat.workflow.run.job import Job
from rarefeat.workflow.run.job_inputs import JobInputs, call

ROOT = Path(__file__).parents[2]
DATA = quick().studies["heatmap"].data
TABLE = pd.DataFrame(
    {"seed": [2, 1], "value": [0.1 + 0.2, np.nan], "single": np.float32([1 / 3, 1e-30])}
)
ROWS = TABLE.drop(columns="single").to_dict("records")


@pytest.fixture
def execute(monkeypatch, tmp_path):
    """Execute a job whose function returns something, with two threads before it."""

    def execute(result, *outputs: str, stage: str = "a:b", **job) -> None:
        threads = torch.get_num_threads()
        used = []
        monkeypatch.setattr(
            command,
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
    [(TABLE, "a:b"), (ROWS, "stages.probe:stage")],
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


def test_tables_of_blocks_are_written_by_the_ends_of_their_names(tmp_path, execute):
    execute({"summary": TABLE, "grid": TABLE.head(1)}, "paper.arms_grid.parquet")
    assert read_table(tmp_path / "paper.arms_grid.parquet").num_rows == 1


def test_function_is_called_with_what_its_parameters_name(tmp_path):
    def stage(cell, seeds: list[int], draws: str, data: Data, most=3):
        return cell, seeds, draws, data.d, most

    config = {"draws": "mine", "data": DATA.model_dump(), "unread": 1}
    job = Job(stage="a:b", config=config, cell={"eps_min": 0.5}, seeds="3-4")
    expected = {"eps_min": 0.5}, [3, 4], "mine", DATA.d, 3
    assert call(stage, JobInputs(job, tmp_path), job) == expected


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ("stages.probe:stage", "absent"),
            "stages.probe:stage runs on no study absent; ",
        ),
        (("stages.probe:stage", "paper", "--cell", "eps_min=2"), "paper has no cell eps_min=2; "),
        (("stages.aggregate:aggregate", "absent"), "makes no table, figure or page absent"),
    ],
)
def test_command_that_names_nothing_is_one_line(tmp_path, words, message):
    line = refusal(command.main, [*words, "--config", "--output", str(tmp_path / "a.parquet")])
    assert message in line


def test_job_by_hand_gives_the_bytes_of_the_workflow(tmp_path, monkeypatch):
    """From the config files, and from the whole config that a run has written."""
    project = quick()
    monkeypatch.chdir(tmp_path)
    write_merged(replace(project, results="run"))
    words = ["stages.synthesise:stage", "heatmap", "--cell", "eps_min=0.1", "--seeds", "100-103"]
    files = [str(ROOT / f"config/{name}.yaml") for name in ("config", "quick")]
    command.main([*words, "--output", "run/latents/a.safetensors"])
    command.main([*words, "--config", *files, "--output", "other/a.safetensors"])
    first, second = (Path(path, "a.safetensors").read_bytes() for path in ("run/latents", "other"))
    assert first == second
