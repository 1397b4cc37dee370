"""The small tables and figures that a run publishes for the pages of docs/."""

import json

from whole_project import RESULTS, ROOT

from published_tables import (
    FOLDER,
    PublishedTables,
    publish,
    publish_figures,
    reductions,
)


def test_run_publishes_the_tables_of_the_pages(finished, tmp_path):
    (tmp_path / "origin.json").write_text("{}")
    published, committed = PublishedTables(tmp_path), PublishedTables(ROOT / FOLDER)
    publish(finished / RESULTS, published)
    assert {"paper_trends", "scaling_exponents", "table2"} <= set(published.origins)
    origins = json.loads((tmp_path / "origin.json").read_text())
    for name in published.origins:
        assert len(published[name]), name
        assert origins[name]["tables"].keys() == set(reductions()[name][0])
        if name in committed:
            assert set(committed[name].columns) <= set(published[name].columns), name


def test_only_figures_that_a_page_shows_are_published(tmp_path):
    results, docs = tmp_path / "results", tmp_path / "docs"
    for folder in (results / "figures", docs / "figures", docs / "studies", docs / "templates"):
        folder.mkdir(parents=True)
    for name in ("shown", "on_the_first_page", "named", "not_shown"):
        (results / f"figures/{name}.png").write_bytes(name.encode())
    (docs / "studies/one.md").write_text("![What it shows](../figures/shown.png)")
    (docs / "templates/README.md.j2").write_text("![x](docs/figures/on_the_first_page.png)")
    (docs / "templates/two.md.j2").write_text('{% for name in ("named",) if drawn(name) %}')
    written = publish_figures(results, docs)
    names = ("named", "on_the_first_page", "shown")
    assert written == [docs / f"figures/{name}.png" for name in names]
    assert (docs / "figures/shown.png").read_bytes() == b"shown"
    assert not (docs / "figures/not_shown.png").exists()
