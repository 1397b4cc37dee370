"""Every figure of every kind at the size that it is printed at: of the quick grid, and of the published tables."""

import pandas as pd
import pytest
from conftest import make_cells
from paper_values import MOST_SERIES, check
from whole_project import RESULTS, ROOT

from rarefeat.claims.declarations import page_of
from rarefeat.claims.figure import MAX_CLAIMS
from rarefeat.figures.style import project_style
from rarefeat.project import load
from rarefeat.report.doc_figures import DOC_FIGURES
from rarefeat.report.figures_from_published import (
    EXTRA_CONFIGS,
    STUDY_FIGURES,
    claims_from_verdicts,
    iter_figures,
)
from rarefeat.report.published_tables import PublishedTables
from rarefeat.run.cli_helpers import load_function
from rarefeat.run.job_inputs import JobInputs
from rarefeat.storage.sealed_files import read_table
from rarefeat.study_kind import Stage

QUICK = load(ROOT / "config/config.yaml", ROOT / "config/quick.yaml")
CLAIMS = {page_of(claim.group) for of in QUICK.declared.values() for claim in of.claims.values()}
PLANTED = {"claims_map_phase", "claims_map_overlap"}
"""Of studies of the theory, which cost minutes: tests/studies/theory draws them from planted tables."""
SERIES = {"augmentation_images": 10}
"""More series than a panel has elsewhere: a mark for each digit."""

TABLES = PublishedTables(ROOT / "docs/tables")
FIGURES = dict(iter_figures(TABLES))


@pytest.fixture(scope="module")
def tables(finished, tmp_path_factory):
    """A table of the quick grid by its name: of the session's run, or made here from the files of its cells."""
    results, made, found = tmp_path_factory.mktemp("results"), set(), {}

    def make(stage: Stage, study: str) -> None:
        for before in stage.after:
            make(before, study)
        if (stage.function, study) not in made:
            made.add((stage.function, study))
            make_cells(results, stage, study, QUICK.studies[study])

    def table(name: str) -> pd.DataFrame:
        if name not in found:
            path, of = finished / RESULTS / f"tables/{name}.parquet", QUICK.tables[name]
            if path.exists():
                found[name] = read_table(path).to_pandas()
            else:
                others = {other: table(other) for other in of.tables}
                for stage in (*of.files.values(), *of.after):
                    make(stage, of.study)
                read = JobInputs(told := QUICK.table_job(name), results)
                read.update(others)
                found[name] = load_function(of.stage)(read, told)
        return found[name]

    return table


@pytest.mark.parametrize("name", sorted(set(QUICK.figures) - CLAIMS - PLANTED))
def test_a_figure_of_the_quick_grid_can_be_printed(name, tables):
    job, given = (
        QUICK.figure_job(name),
        {table: tables(table) for table in QUICK.figures[name].tables},
    )
    check(lambda: load_function(job.stage)(given, job), most=SERIES.get(name, MOST_SERIES))


@pytest.mark.parametrize("name", FIGURES)
def test_a_figure_of_published_tables_can_be_printed(name):
    check(FIGURES[name])


@pytest.mark.parametrize("name", [name for name in DOC_FIGURES if name.endswith(".png")])
def test_a_picture_of_a_page_can_be_printed(name):
    check(lambda: DOC_FIGURES[name][1](TABLES))


def test_they_are_those_of_the_registry():
    assert set(FIGURES) <= set(load().figures) | set(EXTRA_CONFIGS)
    assert set(STUDY_FIGURES) <= set(FIGURES)


@pytest.mark.parametrize(
    "paper", ["wen_li_feature_decoupling", "shi_feature_learning", "beyond_the_papers"]
)
def test_the_interval_that_decides_says_what_the_published_verdict_says(paper):
    rows = claims_from_verdicts(load(), TABLES[f"verdicts_{paper}"])
    assert len(rows) >= 0.8 * len(TABLES[f"verdicts_{paper}"])
    inside = (rows["decided_low"] >= rows["required_low"]) & (
        rows["decided_high"] <= rows["required_high"]
    )
    # A number that is 0 everywhere lies on the edge of "below 0", and not below it.
    inside &= ~(
        (rows["decided_low"] == rows["decided_high"])
        & (rows["decided_high"] == rows["required_high"])
    )
    supported = rows["verdict"] == "supported"
    assert inside[supported].all()
    assert not inside[rows["verdict"].isin(["contradicted", "undecided"])].any()


def test_a_part_whose_claims_are_all_supported_has_no_figure():
    for paper in load().papers:
        if f"verdicts_{paper}" in TABLES:
            for group, part in TABLES[f"verdicts_{paper}"].groupby("group"):
                name = f"claims_{group.replace(' ', '_')}"
                assert (name in FIGURES) == bool((part["verdict"] != "supported").any()), name


def test_a_figure_of_claims_has_at_most_ten():
    with project_style():
        figure = FIGURES["claims_feature_decoupling"]()
    assert len(figure.axes) == 3 * MAX_CLAIMS
