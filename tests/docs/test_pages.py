"""Pages: rendered ones are in step, links lead somewhere, none is too long, no number is typed into a template's answer."""

import html
import re
import shutil
from pathlib import Path
from urllib.parse import unquote

import pandas as pd
import pytest
from markdown_it import MarkdownIt

from rarefeat.core.errors import RarefeatError
from rarefeat.report.pages import interval, one, pages, told
from rarefeat.report.published import FOLDER, Published
from rarefeat.report.reference import rendered

ROOT = Path(__file__).parents[2]
LONGEST = 40_000
SKIPPED = {".venv", ".git", ".snakemake", "results", "site", "node_modules"}


def markdown() -> list[Path]:
    """Every page of the project."""
    return sorted(path for path in ROOT.rglob("*.md") if not SKIPPED & set(path.relative_to(ROOT).parts[:-1]))


def of_this_project(path: Path) -> str:
    return str(path.relative_to(ROOT))


def anchors(path: Path) -> set[str]:
    """The anchors that a forge gives the headings of a page."""
    tokens = MarkdownIt("commonmark").enable("table").parse(path.read_text(encoding="utf-8"))
    texts = [tokens[i + 1].content for i, token in enumerate(tokens) if token.type == "heading_open"]
    return {re.sub(r"[^\w\- ]", "", re.sub(r"\[(.*?)\]\(.*?\)", r"\1", text).lower()).replace(" ", "-") for text in texts}


def links(path: Path) -> list[str]:
    """Every relative link and image of a page, outside of code."""
    found = []
    for token in MarkdownIt("commonmark").enable("table").parse(path.read_text(encoding="utf-8")):
        for child in token.children or []:
            target = child.attrGet("href") or child.attrGet("src")
            if target and not re.match(r"[a-z]+:", target):
                found.append(unquote(html.unescape(target)))
    return found


@pytest.mark.parametrize("path", markdown(), ids=of_this_project)
def test_every_link_leads_somewhere(path):
    for link in links(path):
        target, _, anchor = link.partition("#")
        place = (path.parent / target).resolve() if target else path
        assert place.exists(), f"{link} is not there"
        if anchor and place.suffix == ".md":
            assert anchor in anchors(place), f"{link}: no such heading; there are {sorted(anchors(place))}"


@pytest.mark.parametrize("path", markdown(), ids=of_this_project)
def test_no_page_is_too_long_to_read(path):
    assert path.stat().st_size <= LONGEST


def test_every_page_of_docs_is_reached_from_the_index():
    seen, waiting = set(), [ROOT / "docs/index.md"]
    while waiting:
        page = waiting.pop()
        if page not in seen:
            seen.add(page)
            targets = ((page.parent / link.partition("#")[0]).resolve() for link in links(page))
            waiting += [target for target in targets if target.suffix == ".md" and target.exists()]
    assert {path for path in markdown() if path.is_relative_to(ROOT / "docs")} <= seen


def test_pages_with_numbers_are_in_step_with_the_published_tables():
    for path, text in pages(ROOT).items():
        assert path.read_text(encoding="utf-8") == text, f"run `make docs` to renew {path}"


def test_reference_pages_are_in_step_with_the_code():
    for name, text in rendered().items():
        assert (ROOT / "docs" / name).read_text(encoding="utf-8") == text, f"run `make docs` to renew docs/{name}"


def test_every_published_table_is_whole_small_and_says_where_it_is_from():
    published = Published(ROOT / FOLDER)
    files = {path.stem for path in (ROOT / FOLDER).glob("*.csv")}
    assert files == set(published.origins)
    for name in files:
        assert len(published[name])
        assert published.origins[name]["commit"]
        assert published.origins[name]["run"]


def test_a_number_changed_by_hand_is_refused(tmp_path):
    folder = Path(shutil.copytree(ROOT / FOLDER, tmp_path / "tables"))
    path = folder / "paper_convergence.csv"
    path.write_text(re.sub(r"\d", "7", path.read_text(), count=1))
    with pytest.raises(RarefeatError, match=r"paper_convergence\.csv is not as it was written"):
        Published(folder)["paper_convergence"]


def test_sentences_follow_the_interval():
    row = {"slope": 0.2, "ci_low": 0.1, "ci_high": 0.3}
    words = ("rises", "falls", "no trend")
    assert told(row, "slope", *words) == "rises"
    assert told(row | {"ci_low": -0.1}, "slope", *words) == "no trend"
    assert told({"slope": -0.2, "ci_low": -0.3, "ci_high": -0.1}, "slope", *words) == "falls"
    assert interval(row, "slope", 2, "+") == "+0.20 [+0.10, +0.30]"
    assert interval({"slope": 0.2, "ci_low": float("nan"), "ci_high": float("nan")}, "slope", 1) == "0.2"


def test_a_page_needs_exactly_one_row():
    table = pd.DataFrame({"arm": ["dense", "dense"], "n": [1, 2]})
    assert one(table, arm="dense", n=2)["n"] == 2
    with pytest.raises(RarefeatError, match="2 rows have"):
        one(table, arm="dense")
