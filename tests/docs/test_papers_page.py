"""The pages from the papers to the code: their files and links exist, and rows are complete."""

import re
from pathlib import Path

import pytest

from rarefeat.claims.page import anchor
from rarefeat.workflow.project import DEFAULT, load

ROOT = Path(__file__).parents[2]
PAGES = ["papers", "papers_hong_shi"]
STATES = {"as printed", "in part", "differs", "not here"}


def text_of(page: str) -> str:
    return (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8")


def rows_of(page: str) -> list[list[str]]:
    """The cells of every row of the tables of elements."""
    cells = [
        [cell.strip() for cell in line.split("|")[1:-1]]
        for line in text_of(page).splitlines()
        if line.startswith("|")
    ]
    return [row for row in cells if len(row) in (5, 6) and row[2] in STATES]


@pytest.mark.parametrize("page", PAGES)
def test_files_in_backticks_exist(page):
    """Paths are relative to the root or, of a module, to `src/rarefeat`."""
    named = re.findall(r"`([^`\s]+/[^`\s]+|[^`\s]+\.py)`", text_of(page))
    assert len(set(named)) > 10
    roots = (ROOT, ROOT / "src" / "rarefeat")
    assert [path for path in named if not any((root / path).exists() for root in roots)] == []


@pytest.mark.parametrize("page", PAGES)
def test_claims_lead_to_their_own_row(page):
    declared = {
        name for claim_set in load(ROOT / DEFAULT).claim_sets.values() for name in claim_set.claims
    }
    linked = re.findall(r"\[([^]]+)\]\(claims/index\.md#([^)]*)\)", text_of(page))
    assert len(linked) > 60
    assert [name for name, place in linked if name not in declared or anchor(name) != place] == []


@pytest.mark.parametrize("page", PAGES)
def test_figures_and_tables_exist(page):
    named = re.findall(r"\]\(((?:figures|tables)/[^)]+)\)", text_of(page))
    assert named
    assert [path for path in named if not (ROOT / "docs" / path).exists()] == []


@pytest.mark.parametrize("page", PAGES)
def test_rows_have_a_state_and_a_place_or_a_reason(page):
    rows = rows_of(page)
    assert len(rows) > 90
    assert {row[2] for row in rows} == STATES
    assert len(rows) == sum(text_of(page).count(f"| {state} |") for state in STATES)
    assert [row[0] for row in rows if row[2] != "not here" and not row[3]] == []
    assert [row[0] for row in rows if row[2] in ("in part", "differs") and not row[4]] == []


@pytest.mark.parametrize(
    ("page", "element"),
    [
        ("papers", "Figure 3"),
        ("papers", "Theorem 3.2, eq. (15), (16)"),
        ("papers", "Theorem C.1 (b)-(e), eq. (36)-(39)"),
        ("papers_hong_shi", "Table A.4, Figures A.7, A.8"),
        ("papers_hong_shi", "Table 8"),
    ],
)
def test_elements_begin_their_row(page, element):
    assert element in [row[0] for row in rows_of(page)]
