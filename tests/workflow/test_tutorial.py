"""The tutorial as it stands: its commands in a copy of the quick grid, its Python in processes."""

import re
import shutil
from pathlib import Path

import pytest
from whole_project import ROOT, code_blocks, run_page

PAGE = ROOT / "docs/tutorial.md"
DONE = frozenset({"make venv", "make quick", "source .venv/bin/activate"})
"""Lines that the run of the session stands for."""


@pytest.fixture(scope="module")
def outputs(finished, tmp_path_factory) -> list[str]:
    folder = tmp_path_factory.mktemp("tutorial") / "project"
    return run_page(PAGE, Path(shutil.copytree(finished, folder, symlinks=True)), DONE)


def test_tutorial_reads_trains_one_cell_and_looks_at_a_neuron(outputs):
    assert [language for language, _ in code_blocks(PAGE)] == ["bash", "python"] * 3
    _, learned, _, table, commands, history = outputs
    assert re.findall(r"^0\.\d +(\d+)$", learned, re.MULTILINE)[::4] == ["0", "10"]
    rows = re.findall(r"^\d+ +(0\.\d+|1\.0) ", table, re.MULTILINE)
    assert {float(eps_min) for eps_min in rows} == {0.2, 1.0}
    (trained,) = re.findall(r"^\[ *\d+/\d+\] pretrain (.*)$", commands, re.MULTILINE)
    assert "eps_min=0.6" in trained
    cosines = list(map(float, re.findall(r"^\d+ +(\d\.\d+)$", history, re.MULTILINE)))
    assert len(cosines) > 10
    assert cosines[-1] > cosines[0]
