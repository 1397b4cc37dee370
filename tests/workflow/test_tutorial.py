"""The tutorial, run as it stands: its commands in a copy of the small grid, its Python in one process after another."""

import re
import shutil
from pathlib import Path

import pytest
from whole_project import blocks_of, run_blocks

PAGE = Path(__file__).parents[2] / "docs/tutorial.md"
DONE = frozenset({"make quick", "source .venv/bin/activate"})
"""What the session's shared run stands for."""


@pytest.fixture(scope="module")
def said(finished, tmp_path_factory) -> list[str]:
    """What each block prints."""
    folder = Path(
        shutil.copytree(finished, tmp_path_factory.mktemp("tutorial") / "project", symlinks=True)
    )
    return run_blocks(PAGE, folder, DONE)


def test_it_has_commands_and_python():
    assert [language for language, _ in blocks_of(PAGE)] == ["bash", "python", "bash", "python"]


def test_the_table_has_a_row_for_each_point(said):
    assert re.search(r"eps_min +sigma +mean", said[1])
    assert {
        float(value) for value in re.findall(r"^\d+ +(0\.\d+|1\.0) ", said[1], re.MULTILINE)
    } == {0.2, 1.0}


def test_only_the_new_point_is_trained(said):
    trained = re.findall(r"^\[\d+/\d+\] pretrain (.*)$", said[2], re.MULTILINE)
    assert len(trained) == 1, said[2]
    assert "eps_min=0.6" in trained[0]


def test_the_neuron_grows_towards_the_feature(said):
    cosines = [float(value) for value in re.findall(r"^\d+ +(\d\.\d+)$", said[3], re.MULTILINE)]
    assert len(cosines) > 10
    assert cosines[-1] > cosines[0]
