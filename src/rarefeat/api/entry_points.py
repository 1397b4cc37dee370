"""The border of the public interface: torch's settings are held, and errors are one line."""

import functools
import inspect
import re
from collections.abc import Callable, Collection, Iterable
from pathlib import Path
from typing import ParamSpec, TypeVar

from rarefeat.api.keys import KEYS, LEARNER_KEYS, OTHER_NAMES
from rarefeat.errors import RarefeatError
from rarefeat.model.torch_settings import workflow_settings
from rarefeat.workflow.config.names import suggest

PACKAGE = str(Path(__file__).parents[1])

P = ParamSpec("P")
R = TypeVar("R")


def full_signature(function: Callable) -> inspect.Signature:
    """Return a signature in which the keys of `**changes` are named, for a shell to complete."""
    signature = inspect.signature(function)
    parameters = [*signature.parameters.values()]
    rest = next((item.name for item in parameters if item.kind is item.VAR_KEYWORD), "")
    if keys := {"changes": KEYS, "keys": [*LEARNER_KEYS, *KEYS]}.get(rest, []):
        taken = {item.name for item in parameters}
        # The default stands for what the config says.
        parameters[-1:] = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=...)
            for name in keys
            if name not in taken
        ]
    return signature.replace(parameters=parameters)


def check_keys(keys: Iterable[str], allowed: Collection[str]) -> None:
    """Raise RarefeatError for a key that is none of the allowed ones."""
    for key in keys:
        if key not in allowed and key != "lambda":
            hint = suggest(key, allowed)
            if key in OTHER_NAMES:
                hint = f" (it is called {OTHER_NAMES[key]!r} here)"
            elif key in LEARNER_KEYS:
                hint = " (it is an argument of train_learners)"
            raise RarefeatError(f"{key}: unknown key{hint}; allowed are {', '.join(allowed)}")


def entry_point(function: Callable[P, R]) -> Callable[P, R]:
    """Make a function public: it computes as the workflow does, and its errors are one line.

    Whatever the caller has set of torch (threads, precision, default dtype and device, autocast) is
    held meanwhile as the jobs of the workflow have it. A RarefeatError is raised anew with the
    function's name, so that its traceback shows the caller's line, and of ours this one alone.
    """
    signature = full_signature(function)
    name = function.__qualname__.removesuffix(".__call__").rpartition(".")[2]
    takes_keys = signature != inspect.signature(function)

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        __tracebackhide__ = True  # IPython and pytest leave such a frame out
        try:
            check_keys(kwargs if takes_keys else (), signature.parameters)
            with workflow_settings():
                return function(*args, **kwargs)
        except RarefeatError as error:
            failure, cause = type(error)(f"{name}: {error}"), users_cause(error)
        except (MemoryError, RuntimeError) as error:
            # torch has no type of its own for memory that the system refuses.
            if not isinstance(error, MemoryError) and not re.search("allocate memory", str(error)):
                raise
            line = str(error).partition("\n")[0]
            failure, cause = RarefeatError(f"out of memory: {line}; lower N, d1 or m"), None
        raise failure from cause

    call.__dict__["__signature__"] = signature
    return call


def users_cause(error: BaseException) -> BaseException | None:
    """Return the exception of the user's own code that an error tells of; None if there is none."""
    cause = error.__cause__
    frames = cause and cause.__traceback__
    is_ours = frames and frames.tb_frame.f_code.co_filename.startswith(PACKAGE)
    return None if is_ours else cause
