"""What a run publishes for the pages, on the small grid."""

import json

import pytest
from whole_project import RESULTS, ROOT

from rarefeat.registry import kinds
from rarefeat.report.published import FOLDER, Published, publish, reductions


@pytest.fixture
def of_the_quick_grid(finished, tmp_path) -> Published:
    """What the quick grid would publish."""
    (tmp_path / "origin.json").write_text("{}")
    published = Published(tmp_path)
    publish(finished / RESULTS, published)
    return published


def test_a_run_publishes_what_the_pages_are_filled_in_from(of_the_quick_grid):
    committed = Published(ROOT / FOLDER)
    for name in of_the_quick_grid.origins:
        origin = json.loads((of_the_quick_grid.folder / "origin.json").read_text())[name]
        assert origin["tables"].keys() == set(reductions()[name][0])
        if name in committed:
            assert set(committed[name].columns) <= set(of_the_quick_grid[name].columns), name
    kinds_with_a_page = {name for name in kinds() if (ROOT / f"docs/templates/studies/{name}.md.j2").exists()}
    assert kinds_with_a_page >= {"imbalance", "scaling", "augmentation", "long_tail"}
    assert {"paper_trends", "paper_convergence", "scaling_exponents", "table2", "augmentation"} <= set(
        of_the_quick_grid.origins
    )
