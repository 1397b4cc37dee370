"""What a kind of study has found, as sentences: the same for its page in docs/, for the page of a run and for the report.

A kind says it once, in the module `found` of its folder: TABLES, the names of published tables, and `found(section, tables)`.
"""

from collections.abc import Callable, Iterable, Mapping

import pandas as pd

Reductions = Mapping[str, tuple[tuple[str, ...], Callable[..., pd.DataFrame]]]
"""By the name of a small table: the tables of a run that it is made from, and what makes it."""


def reduced(names: Iterable[str], reductions: Reductions, tables: Mapping[str, pd.DataFrame]) -> dict[str, pd.DataFrame]:
    """Small tables of a run's tables."""
    return {name: reductions[name][1](*(tables[source] for source in reductions[name][0])) for name in names}


def written(title: str, sentences: Iterable[str]) -> str:
    """The page of a run: a title and an item for each sentence or two."""
    return "\n".join([f"# {title}", "", *(f"- {sentence}" for sentence in sentences)]) + "\n"


def joined(words: Iterable[str], last: str = "and") -> str:
    """Words as one enumerates them aloud."""
    *most, end = words
    return f"{', '.join(most)} {last} {end}" if most else end


def counted(number: int, one: str, many: str = "") -> str:
    """How many of something: none, one, or so many."""
    return f"{'no' if number == 0 else 'one' if number == 1 else number} {one if number == 1 else many or one + 's'}"
