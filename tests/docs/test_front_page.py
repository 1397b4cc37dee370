"""The first page of the report."""

from dataclasses import replace

import pytest
from PIL import Image

from rarefeat.workflow.project import load
from rarefeat.workflow.report import STALE, render_front_page


@pytest.fixture
def project(tmp_path):
    project = replace(load(), results=str(tmp_path))
    for outputs in project.outputs.values():
        for name in outputs.figures:
            path = tmp_path / "figures" / f"{name}.png"
            path.parent.mkdir(exist_ok=True)
            Image.new("RGB", (800, 400)).save(path)
    return project


def test_front_page_shows_no_figure_of_another_config(project):
    names = project.outputs["imbalance"].figures
    states = dict.fromkeys((f"figures/{name}.png" for name in names), STALE)
    assert "<img" not in render_front_page(project, states)
