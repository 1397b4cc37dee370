"""The small tables and figures that a run publishes for the pages of docs/."""

import json

from whole_project import RESULTS, ROOT

from published_tables import (
    FOLDER,
    PublishedTables,
    publish,
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
