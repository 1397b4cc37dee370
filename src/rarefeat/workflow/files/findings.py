"""Findings of a study kind as sentences, for its page in docs/, the page of a run and the report.

A kind has them in the module `findings` of its folder: TABLES, the names of published tables, and
`findings(section, tables)`.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pandas as pd

from rarefeat.workflow.files.markdown import interval_bounds

Reductions = Mapping[str, tuple[tuple[str, ...], Callable[..., pd.DataFrame]]]
"""For each small table: the tables of a run that it is made from, and the function that makes
it."""


def reduce_tables(
    names: Iterable[str], reductions: Reductions, tables: Mapping[str, pd.DataFrame]
) -> dict[str, pd.DataFrame]:
    """Reduce the tables of a run to small ones."""
    return {
        name: reductions[name][1](*(tables[source] for source in reductions[name][0]))
        for name in names
    }


def format_findings(title: str, sentences: Iterable[str]) -> str:
    """Return the page of a run: a title, and an item for each finding."""
    return "\n".join([f"# {title}", "", *(f"- {sentence}" for sentence in sentences)]) + "\n"


def make_findings_page(
    title: str,
    name: str,
    section: type,
    findings: Callable[..., list[str]],
    tables: Iterable[str],
    reductions: Reductions,
) -> Callable[..., str]:
    """Return the function of a page with the findings of a study kind."""

    def answer(of_run: Mapping[str, pd.DataFrame], job: Any) -> str:
        return format_findings(
            title,
            findings(job.config_section(name, section), reduce_tables(tables, reductions, of_run)),
        )

    return answer


def enumerate_words(words: Iterable[str], last: str = "and") -> str:
    """Join words as one enumerates them aloud."""
    *most, end = words
    return f"{', '.join(most)} {last} {end}" if most else end


def count_text(number: int, singular: str, plural: str = "") -> str:
    """Write a number of things: no, one, or so many."""
    if number == 1:
        return f"one {singular}"
    return f"{number or 'no'} {plural or singular + 's'}"


def compare(
    first: Mapping, second: Mapping, above: str, below: str, unclear: str, column: str = "mean"
) -> str:
    """Choose words by where the interval of the first row lies beside the second's."""
    low, high = interval_bounds(first, column)
    other_low, other_high = interval_bounds(second, column)
    return above if low > other_high else below if high < other_low else unclear
