"""The English of the pages: sentences of a length that one reads once, and words of the field."""

import re
from pathlib import Path
from statistics import mean

import pytest

DOCS = Path(__file__).parents[2] / "docs"
MEAN_WORDS, MOST_WORDS = 25, 60
"""Words of a sentence: at most so many on average over a page, and in any one."""
BANNED = re.compile(
    r"\b(anew|lock(?:s|ed)? out|shut out|doors?|likewise|at once, late or never"
    r"|what is your own|who is inside|no answer to the question)\b",
    re.IGNORECASE,
)


def pages() -> list[str]:
    """List the pages that people read from start to end, by path below docs."""
    names = [*DOCS.glob("*.md"), *DOCS.glob("method/*.md"), *DOCS.glob("operations/*.md")]
    names += DOCS.glob("studies/*.md")
    return sorted(path.relative_to(DOCS).as_posix().removesuffix(".md") for path in names)


def sentences(text: str) -> list[str]:
    """Return the sentences of a page outside of code, tables, formulas, headings and captions."""
    text = re.sub(r"<!--.*?-->|```.*?```|<details>.*?</details>|\$\$.*?\$\$", "", text, flags=re.S)
    text = re.sub(r"^(#.*|\|.*|!\[.*|\s*\*[^*].*)$", "", text, flags=re.M)
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text)
    text = re.sub(r"`[^`]*`|\$[^$]*\$|\[[^\]]*\]", "x", text).replace("*", "")
    blocks = re.split(r"\n\s*\n|\n\s*(?:[-*]|\d+\.) ", text)
    return [
        sentence
        for block in blocks
        for sentence in re.split(r"(?<=[.!?:;])\s+(?=[A-Z`x])", " ".join(block.split()))
        if len(sentence.split()) > 2
    ]


@pytest.mark.parametrize("page", pages())
def test_page_is_plain_english(page):
    text = (DOCS / f"{page}.md").read_text(encoding="utf-8")
    words = {sentence: len(sentence.split()) for sentence in sentences(text)}
    assert mean(words.values()) <= MEAN_WORDS
    assert max(words.values()) <= MOST_WORDS, max(words, key=words.get)
    assert not BANNED.findall(text), set(BANNED.findall(text))
