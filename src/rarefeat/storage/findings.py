"""What a kind of study has found, as sentences: the same for its page in docs/, for the page of a run and for the report.

A kind says it once, in the module `found` of its folder: TABLES, the names of published tables, and `found(section, tables)`.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pandas as pd

from rarefeat.storage.markdown import interval_bounds

Reductions = Mapping[str, tuple[tuple[str, ...], Callable[..., pd.DataFrame]]]
"""By the name of a small table: the tables of a run that it is made from, and what makes it."""


def reduce_tables(
    names: Iterable[str], reductions: Reductions, tables: Mapping[str, pd.DataFrame]
) -> dict[str, pd.DataFrame]:
    """Small tables of a run's tables."""
    return {
        name: reductions[name][1](*(tables[source] for source in reductions[name][0]))
        for name in names
    }


def format_findings(title: str, sentences: Iterable[str]) -> str:
    """The page of a run: a title and an item for each sentence or two."""
    return "\n".join([f"# {title}", "", *(f"- {sentence}" for sentence in sentences)]) + "\n"


def make_findings_page(
    title: str,
    name: str,
    section: type,
    found: Callable[..., list[str]],
    tables: Iterable[str],
    reductions: Reductions,
) -> Callable[..., str]:
    """What writes the page of a run: what a kind has found, from its section of the config and small tables of the run's."""

    def answer(of_run: Mapping[str, pd.DataFrame], job: Any) -> str:
        return format_findings(
            title,
            found(job.config_section(name, section), reduce_tables(tables, reductions, of_run)),
        )

    return answer


def enumerate_words(words: Iterable[str], last: str = "and") -> str:
    """Words as one enumerates them aloud."""
    *most, end = words
    return f"{', '.join(most)} {last} {end}" if most else end


def count_text(number: int, one: str, many: str = "") -> str:
    """How many of something: none, one, or so many."""
    return f"{'no' if number == 0 else 'one' if number == 1 else number} {one if number == 1 else many or one + 's'}"


def compare(
    first: Mapping, second: Mapping, above: str, below: str, unclear: str, of: str = "mean"
) -> str:
    """Choose words by whether the interval of the first row lies above, below or across the second's.

    Intervals that are not there, as those of one seed, are `unclear`.
    """
    (low, high), (other_low, other_high) = interval_bounds(first, of), interval_bounds(second, of)
    return above if low > other_high else below if high < other_low else unclear


def which_reach(bound: float, first: float, second: float, names: tuple[str, str]) -> str:
    """Say which of two values reach a bound: "both", "neither", or "only" the one of that name."""
    reached = [name for name, value in zip(names, (first, second), strict=True) if value >= bound]
    words = ("neither", f"only that {reached[0]}" if reached else "", "both")[len(reached)]
    return f"{words} {'reach' if len(reached) == 2 else 'reaches'} {bound:g}"
