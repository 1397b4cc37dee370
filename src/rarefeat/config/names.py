"""Names that users give: each becomes a path, a table or a target, so that one rule holds for all of them."""

import difflib
import re
from collections.abc import Iterable, Mapping
from typing import Annotated, Any

from pydantic import AfterValidator

from rarefeat.core.errors import RarefeatError

LONGEST = 60
NAME = re.compile(r"[A-Za-z_]([A-Za-z0-9_=-]|(?<=[0-9])\.(?=[0-9]))*")
"""No name holds the `.` that stands between a study and a block of its grid: there a letter follows."""
RULE = (
    f"a name has letters, digits, _ and -, begins with a letter or _, and has at most {LONGEST} characters; it may hold a"
    " value, as in mask=0.25"
)


def named(name: str) -> str:
    """A name as it is; ValueError where it breaks the rule."""
    if len(name) > LONGEST or not NAME.fullmatch(name):
        raise ValueError(f"{short(name)} is no name: {RULE}")
    return name


Name = Annotated[str, AfterValidator(named)]


def short(value: Any, most: int = 60) -> str:
    """A value in a message, on one line and cut where it is long."""
    if isinstance(value, int) and abs(value) >= 10**most:
        return f"an integer of some {value.bit_length() * 3 // 10} digits"
    try:
        text = repr(value)
    except (RecursionError, ValueError):
        return f"a {type(value).__name__}"
    return text if len(text) <= most else f"{text[: most - 4]} ..."


def near(name: Any, known: Iterable[Any]) -> str:
    """What a misspelt name may have meant, in whatever letters, for a message; empty where nothing is near."""
    by_letters = {str(one).casefold(): str(one) for one in known}
    found = difflib.get_close_matches(str(name).casefold(), by_letters)
    return f"; near it: {', '.join(by_letters[one] for one in found)}" if found else ""


def differing(what: str, *parts: Mapping[str, Any]) -> dict[str, Any]:
    """One mapping of several; RarefeatError where two of them have a name, be it in small or capital letters."""
    found: dict[str, Any] = {}
    seen: dict[str, str] = {}
    for name, item in ((name, item) for part in parts for name, item in part.items()):
        if (other := seen.setdefault(name.casefold(), name)) != name or name in found:
            alike = "" if other == name else f" and {other}, which some file systems do not tell apart"
            raise RarefeatError(f"config: two {what} have the name {name}{alike}; each needs a name of its own")
        found[name] = item
    return found
