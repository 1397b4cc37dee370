"""Results of a small workflow."""

from pathlib import Path

import pytest
from conftest import run_chain, run_stage

import rarefeat


@pytest.fixture(scope="session")
def quick_project():
    return rarefeat.load_config("config/quick.yaml")


@pytest.fixture(scope="session")
def results(quick_project, tmp_path_factory) -> Path:
    """Run the stages of the study `paper` of the quick grid."""
    folder = tmp_path_factory.mktemp("project") / "results" / "quick"
    study = quick_project.studies["paper"]
    (block,) = study.blocks()
    for cell in study.cells():
        run_chain(folder, "paper", study, cell, block)
    names = ("grid", "summary", "trends", "trajectories")
    tables = [folder / f"tables/paper_{name}.parquet" for name in names]
    run_stage(quick_project.table_job("paper_grid"), folder, *tables)
    return folder
