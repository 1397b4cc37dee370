"""Check the annotations of functions, shapes among them, wherever a test calls these."""

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

from beartype import BeartypeConf, beartype
from jaxtyping import install_import_hook

SOURCE = Path(__file__).parents[1] / "src"
MODULES = [
    ".".join(path.relative_to(SOURCE).with_suffix("").parts)
    for folder in ("model", "training", "stages")
    for path in (SOURCE / "rarefeat" / folder).glob("*.py")
    # Numba compiles functions of the first; the second look at who calls them; those of the third
    # take any tensor, and are called all the time.
    if not path.name.startswith(("native_", "user_", "device"))
]


def is_protocol(annotation: Any) -> bool:
    """Return whether a Protocol, which Python does not check, is part of an annotation."""
    return getattr(annotation, "_is_protocol", False) or any(map(is_protocol, get_args(annotation)))


def check(function: Callable) -> Callable:
    """Return a function that checks its arguments and its result; an int is a float to it."""
    hints = function.__annotations__
    hints |= {name: Any for name, hint in hints.items() if is_protocol(hint)}
    checked = beartype(function, conf=BeartypeConf(is_pep484_tower=True))
    # Of a list beartype checks one item, by a draw from Python's generator, which must not move.
    if "__beartype_getrandbits" in (checked.__kwdefaults__ or {}):
        checked.__kwdefaults__["__beartype_getrandbits"] = random.Random(0).getrandbits
    return checked


install_import_hook(MODULES, "shape_checks.check")
