"""Rules for names that users give, of which each becomes a path, a table or a target.

And words for messages.
"""

import difflib
import re
from collections.abc import Iterable, Mapping
from typing import Annotated, Any

from pydantic import AfterValidator

from rarefeat.errors import RarefeatError

LONGEST = 60
NAME = re.compile(r"[A-Za-z_]([A-Za-z0-9_=-]|(?<=[0-9])\.(?=[0-9]))*")
"""No name holds the `.` between a study and a block of its grid, after which a letter stands."""
RULE = (
    "use letters, digits, _ and -, beginning with a letter or _,"
    f" at most {LONGEST} characters; a value is allowed, as in mask=0.25"
)


def check_name(name: str) -> str:
    """Return the name; raise ValueError if it is against the rule."""
    if len(name) > LONGEST or not NAME.fullmatch(name):
        raise ValueError(f"invalid name {shorten_repr(name)}; {RULE}")
    return name


Name = Annotated[str, AfterValidator(check_name)]


def shorten_repr(value: Any, most: int = 60) -> str:
    """Return the repr of a value for a message, cut where it is long."""
    try:
        text = repr(value)
    except (RecursionError, ValueError):  # of nested values, and of integers beyond 4,300 digits
        text = f"<{type(value).__name__}>"
    return text if len(text) <= most else f"{text[: most - 4]} ..."


def suggest(name: Any, names: Iterable[Any]) -> str:
    """Return which known names a misspelt one may mean, for a message; empty if none is near."""
    by_letters = {str(one).casefold(): str(one) for one in names}
    matches = difflib.get_close_matches(str(name).casefold(), by_letters)
    return (
        f" (did you mean {' or '.join(repr(by_letters[one]) for one in matches)}?)"
        if matches
        else ""
    )


def merge_unique(label: str, *mappings: Mapping[str, Any]) -> dict[str, Any]:
    """Merge mappings; raise RarefeatError if two have a name, also in small and capital letters."""
    merged: dict[str, Any] = {}
    spellings: dict[str, str] = {}
    for name, item in ((name, item) for items in mappings for name, item in items.items()):
        if (other := spellings.setdefault(name.casefold(), name)) != name or name in merged:
            spelling = (
                "" if other == name else f" and {other}, which some file systems do not tell apart"
            )
            raise RarefeatError(
                f"config: two {label} have the name {name}{spelling}; each needs a name of its own"
            )
        merged[name] = item
    return merged
