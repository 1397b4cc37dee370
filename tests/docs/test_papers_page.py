"""The pages from the papers to the code: their files and links exist, and rows are complete."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = ["papers", "papers_hong_shi"]


def text_of(page: str) -> str:
    return (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("page", PAGES)
def test_files_in_backticks_exist(page):
    """Paths are relative to the root or, of a module, to `src/rarefeat`."""
    named = re.findall(r"`([^`\s]+/[^`\s]+|[^`\s]+\.py)`", text_of(page))
    assert len(set(named)) > 10
    roots = (ROOT, ROOT / "src" / "rarefeat")
    assert [path for path in named if not any((root / path).exists() for root in roots)] == []
