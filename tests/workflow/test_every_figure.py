"""Every figure at its printed size: of the quick grid, and of the published tables."""

import itertools

import pandas as pd
import pytest
from conftest import make_cells
from paper_values import MOST_SERIES, check
from whole_project import RESULTS, ROOT

from doc_figures import DOC_FIGURES
from figures_from_published import STUDY_FIGURES, iter_figures
from rarefeat.workflow.files.published import PublishedTables
from rarefeat.workflow.files.sealed_files import read_table
from rarefeat.workflow.project import load
from rarefeat.workflow.run.cli_helpers import load_function
from rarefeat.workflow.run.command import table_named
from rarefeat.workflow.run.job_inputs import JobInputs, call
from rarefeat.workflow.study_kind import Stage

QUICK = load(ROOT / "config/config.yaml", ROOT / "config/quick.yaml")
PLANTED = {"half_and_double"}
"""Figures of studies that cost minutes: tests/studies/theory draws them."""
SERIES = {"augmentation_embeddings": 10}
"""Number of series of a figure with more than MOST_SERIES: there is a mark for each digit."""
TABLES = PublishedTables(ROOT / "docs/tables")
FIGURES = dict(iter_figures(TABLES))


@pytest.fixture(scope="module")
def read(finished, tmp_path_factory):
    """A function that reads a table of the quick grid, or makes one that the grid lacks."""
    results, done, tables = tmp_path_factory.mktemp("results"), set(), {}

    def make_files(stage: Stage, study: str) -> None:
        for upstream in stage.upstream:
            make_files(upstream, study)
        if (stage.function, study) not in done:
            done.add((stage.function, study))
            make_cells(results, stage, study, QUICK.studies[study])

    def make_table(name: str) -> pd.DataFrame:
        table, job = QUICK.tables[name], QUICK.table_job(name)
        for stage in (*table.files.values(), *table.upstream):
            make_files(stage, table.study)
        # Its own tables are passed by `read`; no file of them is here.
        inputs = JobInputs(job.model_copy(update={"tables": {}}), results)
        inputs.update({source: read(source) for source in table.tables})
        content = call(load_function(job.stage), inputs, job)
        return table_named(content, name) if isinstance(content, dict) else content

    def read(name: str) -> pd.DataFrame:
        if name not in tables:
            path = finished / RESULTS / f"tables/{name}.parquet"
            tables[name] = read_table(path).to_pandas() if path.exists() else make_table(name)
        return tables[name]

    return read


def is_drawn_otherwise(name: str) -> bool:
    """Return whether a figure of tables that the quick grid lacks is one of published tables."""
    default = [f"tables/{table}.parquet" in QUICK.default for table in QUICK.figures[name].tables]
    return name in PLANTED or (name in FIGURES and not all(default))


@pytest.mark.parametrize("name", sorted(itertools.filterfalse(is_drawn_otherwise, QUICK.figures)))
def test_figure_of_the_quick_grid_can_be_printed(name, read):
    job = QUICK.figure_job(name)
    tables = {table: read(table) for table in QUICK.figures[name].tables}
    check(lambda: call(load_function(job.stage), tables, job), most=SERIES.get(name, MOST_SERIES))


@pytest.mark.parametrize("name", FIGURES)
def test_figure_of_published_tables_can_be_printed(name):
    check(FIGURES[name], most=SERIES.get(name, MOST_SERIES))


@pytest.mark.parametrize(
    "name",
    [
        name
        for name, (needed, _) in DOC_FIGURES.items()
        if name.endswith(".png") and all(table in TABLES for table in needed)
    ],
)
def test_figure_of_a_page_can_be_printed(name):
    check(lambda: DOC_FIGURES[name][1](TABLES))


def test_figures_of_published_tables_are_declared():
    assert set(FIGURES) <= set(load().figures)
    published = {
        name
        for name, sources in STUDY_FIGURES.items()
        if all(table in TABLES for table in sources.values())
    }
    assert published <= set(FIGURES)
