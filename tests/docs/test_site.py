"""The site: all formulas are set, every page is in the menu, and no page needs a network.

Needs MkDocs, which `make test-site` installs.
"""

import html
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
CODE_OR_FORMULA = re.compile(
    r"(?:^```.*?^```|`[^`\n]*`)|\$\$(.+?)\$\$|(?<![\\$])\$([^$\n]+?)\$", re.DOTALL | re.MULTILINE
)
# The gallery's pages are made from its scripts when the site is built.
PAGES = [
    path
    for path in sorted(DOCS.rglob("*.md"))
    if not {"templates", "gallery", "built_gallery"} & set(path.parts)
]
pytestmark = pytest.mark.site


def formulas(text: str) -> list[str]:
    """The LaTeX of a page, in order, without space at its ends."""
    return [
        (found[1] or found[2]).strip()
        for found in CODE_OR_FORMULA.finditer(text)
        if found[1] or found[2]
    ]


def of_docs(path: Path) -> str:
    return path.relative_to(DOCS).as_posix()


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    pytest.importorskip("mkdocs", reason="mkdocs is not installed: make test-site installs it")
    folder = tmp_path_factory.mktemp("site")
    copy = folder / "project"
    shutil.copytree(DOCS, copy / "docs")
    shutil.copytree(ROOT / "src", copy / "src")
    shutil.copy(ROOT / "mkdocs.yml", copy)
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", folder / "site"],
        cwd=copy,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return folder / "site"


def built(site: Path, path: Path) -> str:
    name = path.relative_to(DOCS).with_suffix("")
    return (site / (name.parent if name.name == "index" else name) / "index.html").read_text(
        encoding="utf-8"
    )


@pytest.mark.parametrize("path", PAGES, ids=of_docs)
def test_every_formula_is_set(site, path):
    page = built(site, path)
    article = page[page.index("<article") : page.index("</article>")]
    set_ = [
        html.unescape(latex) for latex in re.findall(r'<math alttext="(.*?)"', article, re.DOTALL)
    ]
    assert [" ".join(each.split()) for each in set_] == [
        " ".join(each.split()) for each in formulas(path.read_text(encoding="utf-8"))
    ]
    assert "\\(" not in page
    assert "\\[" not in page


def test_the_page_of_claims_holds_its_table(site):
    page = built(site, DOCS / "claims/index.md")
    assert page.count("<tr id=") == len(json.loads((DOCS / "claims/claims.json").read_text()))
    assert "assets/claims.js" in page


@pytest.mark.parametrize("path", PAGES, ids=of_docs)
def test_no_page_asks_a_network(site, path):
    assert not re.search(
        r'<(?:script|link|img)[^>]+(?:src|href)="(?:https?:)?//(?!(?:squidfunk|www\.mkdocs))',
        built(site, path),
    )
