"""Pages of docs/: rendered ones are up to date, links lead somewhere, none is too long."""

import functools
import html
import re
import shutil
from pathlib import Path
from urllib.parse import unquote

import pandas as pd
import pytest
from markdown_it import MarkdownIt

import rarefeat
from doc_figures import verdict_bars
from pages import pages, single_row, template_environment
from rarefeat.errors import RarefeatError
from rarefeat.workflow.files.published import FOLDER, PublishedTables, git
from rarefeat.workflow.project import load
from reference import render_reference

ROOT = Path(__file__).parents[2]
SKIPPED = {"gallery", "built_gallery", ".venv", ".git", ".snakemake", "results", "site"}


def markdown() -> list[Path]:
    return sorted(
        path for path in ROOT.rglob("*.md") if not SKIPPED & set(path.relative_to(ROOT).parts[:-1])
    )


def of_this_project(path: Path) -> str:
    return str(path.relative_to(ROOT))


@functools.cache
def anchors(path: Path) -> set[str]:
    """The anchors of the headings of a page, and of the rows of the table beside it."""
    tokens = MarkdownIt("commonmark").enable("table").parse(path.read_text(encoding="utf-8"))
    texts = [
        tokens[i + 1].content for i, token in enumerate(tokens) if token.type == "heading_open"
    ]
    table = path.with_name("table.html")
    rows = re.findall(r'<tr id="([^"]*)"', table.read_text()) if table.exists() else []
    return set(rows) | {
        re.sub(r"[^\w\- ]", "", re.sub(r"\[(.*?)\]\(.*?\)", r"\1", text).lower()).replace(" ", "-")
        for text in texts
    }


def links(path: Path) -> list[str]:
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
            assert anchor in anchors(place), (
                f"{link}: no such heading; there are {sorted(anchors(place))}"
            )


@pytest.mark.parametrize("page", ["papers", "papers_hong_shi"])
def test_files_that_a_page_on_papers_names_exist(page):
    text = (ROOT / f"docs/{page}.md").read_text(encoding="utf-8")
    named = re.findall(r"`([^`\s]+/[^`\s]+|[^`\s]+\.py)`", text)
    assert len(set(named)) > 10
    roots = ROOT, ROOT / "src/rarefeat"
    assert [path for path in named if not any((root / path).exists() for root in roots)] == []


def test_every_page_of_docs_is_reached_from_the_index():
    seen, waiting = set(), [ROOT / "docs/index.md"]
    while waiting:
        page = waiting.pop()
        if page not in seen:
            seen.add(page)
            targets = ((page.parent / link.partition("#")[0]).resolve() for link in links(page))
            waiting += [target for target in targets if target.suffix == ".md" and target.exists()]
    assert {path for path in markdown() if path.is_relative_to(ROOT / "docs")} <= seen


def test_pages_are_up_to_date_with_published_tables():
    drawing = verdict_bars(PublishedTables(ROOT / FOLDER))
    assert drawing == (ROOT / "docs/figures/verdicts.svg").read_text(encoding="utf-8")
    for path, text in pages(ROOT).items():
        assert path.read_text(encoding="utf-8") == text, f"run `make docs` to renew {path}"


def test_reference_pages_are_up_to_date_with_code():
    for name, text in render_reference().items():
        assert (ROOT / "docs" / name).read_text(encoding="utf-8") == text, (
            f"run `make docs` to renew docs/{name}"
        )


def test_page_of_python_has_every_public_name():
    page = (ROOT / "docs/reference/api.md").read_text(encoding="utf-8")
    (members,) = re.findall(r"members: \[(.*)\]", page)
    assert set(members.split(", ")) == set(rarefeat.__all__)


def test_published_tables_have_commit_and_run():
    published = PublishedTables(ROOT / FOLDER)
    files = {path.stem for path in (ROOT / FOLDER).glob("*.csv")}
    assert files == set(published.origins)
    for name in files:
        assert len(published[name])
        assert published.origins[name]["commit"]
        assert published.origins[name]["run"]


def test_commits_of_published_tables_are_in_the_history():
    if git("rev-parse", "--is-shallow-repository") != "false":
        pytest.skip("needs a clone with its whole history")
    history = git("log", "--format=%H").split()
    published = PublishedTables(ROOT / FOLDER)
    of_tables = {name: origin["commit"] for name, origin in published.origins.items()}
    of_rows = {f"times, {row.what}": row.commit for row in published["times"].itertuples()}
    missing = {
        f"{name}: {commit}"
        for name, commits in (of_tables | of_rows).items()
        for commit in commits.split(", ")
        if not any(known.startswith(commit) for known in history)
    }
    if len(missing) > len(of_tables | of_rows) / 2:
        pytest.skip("needs the history of this project, not one begun from a copy of its files")
    assert not missing


def test_a_number_changed_by_hand_is_refused(tmp_path):
    folder = Path(shutil.copytree(ROOT / FOLDER, tmp_path / "tables"))
    path = folder / "paper_convergence.csv"
    path.write_text(re.sub(r"\d", "7", path.read_text(), count=1))
    with pytest.raises(RarefeatError, match=r"paper_convergence\.csv was edited"):
        PublishedTables(folder)["paper_convergence"]


def test_a_paragraph_of_another_verdict_stops_the_rendering():
    environment = template_environment(PublishedTables(ROOT / FOLDER), load(), ROOT)
    assert environment.from_string('{{ rests_on("F-reuse", "supported") }}').render() == ""
    with pytest.raises(RarefeatError, match="F-reuse is supported"):
        environment.from_string('{{ rests_on("F-reuse", "contradicted") }}').render()


def test_a_page_needs_exactly_one_row():
    table = pd.DataFrame({"arm": ["dense", "dense"], "n": [1, 2]})
    assert single_row(table, arm="dense", n=2)["n"] == 2
    with pytest.raises(RarefeatError, match="2 rows have"):
        single_row(table, arm="dense")
