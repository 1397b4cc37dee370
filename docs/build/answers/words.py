"""Words that follow from numbers."""

from collections.abc import Iterable, Mapping

from rarefeat.workflow.files.markdown import interval_bounds


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
