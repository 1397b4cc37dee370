"""Functions of a user's own: MODULE:FUNCTION of a file in the working directory, or one that Python was given.

A rule for masks takes a `Seen` (core/arms.py), one for the bias a `BiasContext` (core/bias.py). What comes back is checked, since a
mask of another shape would be broadcast without a word.
"""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Callable, Collection
from typing import Any

from rarefeat.core.errors import RarefeatError
from rarefeat.core.user_modules import load_user_module, module_file

USER_FUNCTION_RE = re.compile(
    r"(?P<module>[A-Za-z_]\w*(\.[A-Za-z_]\w*)*):(?P<function>[A-Za-z_]\w*)"
)
REGISTERED: dict[str, Callable] = {}
"""Functions that Python was given, by their names."""


def register_function(function: Callable, built_in: Collection[str]) -> str:
    """The name under which a function that Python was given is known from here on; it may be none of those built in."""
    name = getattr(function, "__name__", "")
    if not name.isidentifier():
        raise RarefeatError(
            f"a rule of your own needs a name: write it as `def my_rule(...)`, got {name or function!r}"
        )
    if name in built_in:
        raise RarefeatError(
            f"a rule of your own is called {name}, as one that is built in; give it another name"
        )
    REGISTERED[name] = function
    return name


def explain_missing(name: str) -> str:
    """Why there is no function of this name; empty where there is one. Its file is read, not run."""
    if name in REGISTERED:
        return ""
    if not USER_FUNCTION_RE.fullmatch(name):
        return "there is none of this name; one of your own is MODULE:FUNCTION"
    module, _, function = name.partition(":")
    path = module_file(module)
    try:
        body = ast.parse(path.read_bytes()).body
    except OSError:
        return f"there is no file {path}"
    except (SyntaxError, ValueError) as error:
        return f"{path} is no Python: {error}"
    there = [part.name for part in body if isinstance(part, ast.FunctionDef)]
    return (
        ""
        if function in there
        else f"{path} has no function {function}; it has {', '.join(there) or 'none'}"
    )


def load_function(name: str) -> Callable:
    """The function of a name, of the file as it is now."""
    if name in REGISTERED:
        return REGISTERED[name]
    if why := explain_missing(name):
        raise RarefeatError(f"{name}: {why}")
    module, _, function = name.partition(":")
    return getattr(load_user_module(module).module, function)


def first_docstring_line(name: str) -> str:
    """The first line of a function's docstring; its name where it has none, or where its file is not here."""
    try:
        return (load_function(name).__doc__ or name).strip().partition("\n")[0]
    except RarefeatError:
        return name


def format_exception(error: Exception) -> str:
    """An error of a user's function in one line."""
    return f"{type(error).__name__}: {next(iter(str(error).splitlines()), '')}"


def call_user_function(name: str, load: Callable[[], Callable], seen: Any) -> Any:
    """Return what a user's function returns; RarefeatError with one line where it fails."""
    import torch

    try:
        found = load()(seen)
    except RarefeatError:
        raise
    except Exception as error:
        raise RarefeatError(
            f"the rule {name} fails at step {seen.step}: {format_exception(error)}"
        ) from error
    if not isinstance(found, torch.Tensor):
        raise RarefeatError(
            f"the rule {name} must return a tensor, got {type(found).__name__} at step {seen.step}"
        )
    return found


def make_user_mask_rule(name: str) -> Callable:
    """A rule for masks of a user's own, whose masks are checked."""
    # Imported once, so that a file that is edited while it trains changes no step.
    load = functools.cache(functools.partial(load_function, name))

    def rule(seen: Any) -> Any:
        import torch

        found, (S, m, p) = call_user_function(name, load, seen), seen.weights.shape
        if found.dtype != torch.bool or tuple(found.shape) not in ((S, m), (S, m, p)):
            raise RarefeatError(
                f"the rule {name} must return a mask, bool (S, m) = {S, m} or (S, m, p) = {S, m, p}, got {found.dtype}"
                f" {(*found.shape,)}"
            )
        # Under the reduced simulator the features are the first coordinates, and the others are no weights of the network.
        if found.dim() == 3 and torch.equal(
            seen.dictionary[0], torch.eye(p)[:, : seen.dictionary.shape[-1]]
        ):
            raise RarefeatError(
                f"the rule {name} masks single weights, which only the simulator direct has"
            )
        return found

    return rule


def make_user_bias_rule(name: str) -> Callable:
    """A rule for the bias of a user's own, whose values are checked."""
    load = functools.cache(functools.partial(load_function, name))

    def rule(moved: Any) -> Any:
        import torch

        found, shape = call_user_function(name, load, moved), moved.bias.shape
        if found.dtype != torch.float32 or found.shape != shape:
            raise RarefeatError(
                f"the rule {name} must return float32 (S, m) = {(*shape,)}, got {found.dtype} {(*found.shape,)}"
            )
        return found

    return rule
