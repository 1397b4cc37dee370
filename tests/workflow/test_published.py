"""What a run publishes for the pages, on the small grid."""

import json

import pytest
from whole_project import RESULTS, ROOT

from rarefeat.registry import kinds
from rarefeat.report.published_tables import (
    FOLDER,
    PublishedTables,
    drop_declared_text,
    publish,
    publish_figures,
    reductions,
)


@pytest.fixture
def of_the_quick_grid(finished, tmp_path) -> PublishedTables:
    """What the quick grid would publish."""
    (tmp_path / "origin.json").write_text("{}")
    published = PublishedTables(tmp_path)
    publish(finished / RESULTS, published)
    return published


def test_a_run_publishes_what_the_pages_are_filled_in_from(of_the_quick_grid):
    committed = PublishedTables(ROOT / FOLDER)
    for name in of_the_quick_grid.origins:
        assert len(of_the_quick_grid[name]), name
        origin = json.loads((of_the_quick_grid.folder / "origin.json").read_text())[name]
        assert origin["tables"].keys() == set(reductions()[name][0])
        if name in committed:
            assert set(committed[name].columns) <= set(of_the_quick_grid[name].columns), name
    kinds_with_a_page = {
        name for name in kinds() if (ROOT / f"docs/templates/studies/{name}.md.j2").exists()
    }
    assert kinds_with_a_page >= {"imbalance", "scaling", "augmentation", "long_tail"}
    assert {
        "paper_trends",
        "paper_convergence",
        "scaling_exponents",
        "table2",
        "augmentation",
    } <= set(of_the_quick_grid.origins)


def test_only_figures_that_a_page_shows_are_published(tmp_path):
    results, docs = tmp_path / "results", tmp_path / "docs"
    for folder in (results / "figures", docs / "figures", docs / "studies", docs / "templates"):
        folder.mkdir(parents=True)
    for name in ("shown", "on_the_first_page", "named", "not_shown"):
        (results / "figures" / f"{name}.png").write_bytes(name.encode())
    (docs / "studies" / "one.md").write_text("![What it shows](../figures/shown.png)")
    (docs / "templates" / "README.md.j2").write_text("![fate](docs/figures/on_the_first_page.png)")
    (docs / "templates" / "two.md.j2").write_text('{% for name in ("named",) if drawn(name) %}')
    written = publish_figures(results, docs)
    assert written == [
        docs / "figures" / f"{name}.png" for name in ("named", "on_the_first_page", "shown")
    ]
    assert (docs / "figures/shown.png").read_bytes() == b"shown"
    assert not (docs / "figures/not_shown.png").exists()


def test_pages_of_claims_say_nothing_of_verdicts_that_no_regime_has():
    text = "- Here: supported in 0, contradicted in 0, undecided in 3 of 3.\n- There: supported in 2, contradicted in 0 of 2.\n"
    assert (
        drop_declared_text(text, "part")
        == "- Here: undecided in 3 of 3.\n- There: supported in 2 of 2.\n"
    )
