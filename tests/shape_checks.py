"""Check the annotations of functions, shapes among them, wherever a test calls these."""

import functools
import inspect
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import jaxtyping
from beartype import BeartypeConf, beartype
from jaxtyping import install_import_hook, jaxtyped

SOURCE = Path(__file__).parents[1] / "src"
MODULES = [
    ".".join(path.relative_to(SOURCE).with_suffix("").parts)
    for folder in ("model", "training", "stages")
    for path in (SOURCE / "rarefeat" / folder).glob("*.py")
    # Numba compiles functions of the first; the second look at who calls them; those of the third
    # take any tensor, and are called all the time.
    if not path.name.startswith(("native_", "user_", "device"))
]
CALLS: Counter[Callable] = Counter()
"""How often a test has called each function."""
CHECKED_CALLS = 10
"""The first of each function in a test: a loop repeats its shapes."""


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


def check_first_calls(typechecker: Callable) -> Callable:
    """Return a decorator for a function whose first calls in a test are checked."""

    def decorate(function: Callable) -> Callable:
        checked = jaxtyped(function, typechecker=typechecker)

        @functools.wraps(function)
        def call(*arguments, **keys):
            CALLS[function] += 1
            return (checked if CALLS[function] <= CHECKED_CALLS else function)(*arguments, **keys)

        # To a user's function that calls it, this is a file of an installed package.
        call.__code__ = call.__code__.replace(co_filename=jaxtyping.__file__)
        return call if inspect.isfunction(function) else checked

    return decorate


jaxtyping.jaxtyped = check_first_calls
install_import_hook(MODULES, "shape_checks.check")
