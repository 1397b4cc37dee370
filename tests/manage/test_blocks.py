"""Block by block: where `make paper` stops on its way, and that it goes on from where it was."""

import pytest

from rarefeat.config.cells import path_of
from rarefeat.manage.blocks import stops
from rarefeat.project import Project, load


def probed(results, study, name, blocks):
    """Empty files in the place of the probes of some blocks."""
    for cell in study.cells():
        for block in blocks:
            path = results / path_of("probes", name, cell, block, "parquet")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()


@pytest.fixture
def project(tmp_path):
    return Project(str(tmp_path), load("config/config.yaml").sections)


def test_every_block_but_the_last_is_a_stop_until_it_is_probed(project, tmp_path):
    assert stops(project, ["paper", "heatmap"]) == [20, 50]
    probed(tmp_path, project.studies["paper"], "paper", ["100-119"])
    # Both studies are to be there.
    assert stops(project, ["paper", "heatmap"]) == [20, 50]
    probed(tmp_path, project.studies["heatmap"], "heatmap", ["100-119"])
    assert stops(project, ["paper", "heatmap"]) == [50]
    for name in ("paper", "heatmap"):
        probed(tmp_path, project.studies[name], name, ["120-149"])
    assert stops(project, ["paper", "heatmap"]) == []


def test_one_missing_cell_is_enough_to_stop_again(project, tmp_path):
    paper = project.studies["paper"]
    probed(tmp_path, paper, "paper", ["100-119", "120-149"])
    (tmp_path / path_of("probes", "paper", paper.cells()[7], "100-119", "parquet")).unlink()
    assert stops(project, ["paper"]) == [20]
