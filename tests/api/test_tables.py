"""Tables of the workflow, read by their name."""

import pandas as pd
import pytest
from conftest import refusal

import rarefeat
from rarefeat.workflow.run.metadata import build_origin, write_product


@pytest.mark.parametrize(
    ("keys", "line"),
    [
        ({"results": None, "name": "paper_grid"}, "read_table: results: must be a text or a path"),
        ({"name": None}, "read_table: name: must be a text, got None"),
        ({"results": "docs", "name": "fate_shars"}, "docs/tables has no table fate_shars; its"),
        ({"name": "longtail_sumary"}, "is the name of no table (did you mean 'longtail_summary'"),
    ],
)
def test_read_table_refuses_in_one_line(keys, line):
    assert line in refusal(rarefeat.read_table, **{"results": "results"} | keys)


def test_read_table_suggests_a_table_that_is_there(results):
    line = "papr_grid.parquet does not exist (did you mean 'paper_grid'"
    assert line in refusal(rarefeat.read_table, results, "papr_grid")


def test_read_table_refuses_table_under_other_name(quick_project, tmp_path):
    source, name = "paper_grid", "paper.arms_grid"
    written = tmp_path / f"tables/{source}.parquet"
    origin = build_origin(quick_project.table_job("paper_grid"))
    write_product(written, pd.DataFrame({"value": [1.0]}), origin)
    written.rename(written.with_name(f"{name}.parquet"))
    assert "is not the table that its name says" in refusal(rarefeat.read_table, tmp_path, name)


def test_published_tables_are_those_of_the_pages(tmp_path, monkeypatch):
    """Also from a folder without a clone."""
    expected = pd.read_csv("docs/tables/fate_shares.csv")
    monkeypatch.chdir(tmp_path)
    pd.testing.assert_frame_equal(rarefeat.read_table("docs", "fate_shares"), expected)
