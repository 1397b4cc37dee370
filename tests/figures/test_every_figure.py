"""Every figure that published tables suffice for, at its printed size; the others with the tests of their studies."""

from pathlib import Path

import pytest
from printed import check

from rarefeat.claims.figure import MOST
from rarefeat.figures.style import styled
from rarefeat.project import load
from rarefeat.report.published import Published
from rarefeat.report.redrawn import OF_STUDIES, of_claims, redrawn

TABLES = Published(Path(__file__).parents[2] / "docs/tables")
FIGURES = dict(redrawn(TABLES))


@pytest.mark.parametrize("name", FIGURES)
def test_it_can_be_printed(name):
    check(FIGURES[name])


def test_they_are_those_of_the_registry():
    assert set(FIGURES) <= set(load().figures)
    assert set(OF_STUDIES) <= set(FIGURES)


@pytest.mark.parametrize("paper", ["wen_li_feature_decoupling", "shi_feature_learning", "beyond_the_papers"])
def test_the_interval_that_decides_says_what_the_published_verdict_says(paper):
    rows = of_claims(load(), TABLES[f"verdicts_{paper}"])
    assert len(rows) >= 0.8 * len(TABLES[f"verdicts_{paper}"])
    inside = (rows["decided_low"] >= rows["required_low"]) & (rows["decided_high"] <= rows["required_high"])
    # A number that is 0 everywhere lies on the edge of "below 0", and not below it.
    inside &= ~((rows["decided_low"] == rows["decided_high"]) & (rows["decided_high"] == rows["required_high"]))
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
    with styled():
        figure = FIGURES["claims_feature_decoupling"]()
    assert len(figure.axes) == 3 * MOST
