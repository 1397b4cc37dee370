"""The border of the public interface: torch's settings are held, and errors are one line."""

import functools
import inspect
import re
from collections.abc import Callable
from pathlib import Path
from typing import ParamSpec, TypeVar, Unpack, get_args, get_origin

from rarefeat.errors import RarefeatError
from rarefeat.model.torch_settings import workflow_settings

PACKAGE = str(Path(__file__).parents[1])

P = ParamSpec("P")
R = TypeVar("R")


class OfConfig:
    """Stands for the default of a key in signatures: what the config says."""

    def __repr__(self) -> str:
        return "of the config"


def full_signature(function: Callable) -> inspect.Signature:
    """Return a signature in which the keys of `**changes` are named, for a shell to complete."""
    signature = inspect.signature(function)
    parameters = list(signature.parameters.values())
    if parameters and get_origin(parameters[-1].annotation) is Unpack:
        (keys,) = get_args(parameters.pop().annotation)
        hints = (get_origin(keys) or keys).__annotations__
        named = {item.name for item in parameters}
        parameters += [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=OfConfig())
            for name in hints
            if name not in named
        ]
    return signature.replace(parameters=parameters)


def entry_point(function: Callable[P, R]) -> Callable[P, R]:
    """Make a function public: it computes as the workflow does, and its errors are one line.

    Whatever the caller has set of torch (threads, precision, default dtype and device, autocast) is
    held meanwhile as the jobs of the workflow have it. A RarefeatError is raised anew, so that its
    traceback shows the caller's line, and of ours this function's alone.
    """

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        __tracebackhide__ = True  # IPython and pytest leave such a frame out
        try:
            with workflow_settings():
                return function(*args, **kwargs)
        except RarefeatError as error:
            failure, cause = type(error)(str(error)), users_cause(error)
        except (MemoryError, RuntimeError) as error:
            # torch has no type of its own for memory that the system refuses.
            if not isinstance(error, MemoryError) and not re.search("allocate memory", str(error)):
                raise
            line = str(error).partition("\n")[0]
            failure, cause = RarefeatError(f"out of memory: {line}; lower N, d1 or m"), None
        raise failure from cause

    call.__dict__["__signature__"] = full_signature(function)
    return call


def users_cause(error: BaseException) -> BaseException | None:
    """Return the exception of the user's own code that an error tells of; None if there is none."""
    cause = error.__cause__
    frames = cause and cause.__traceback__
    is_ours = frames and frames.tb_frame.f_code.co_filename.startswith(PACKAGE)
    return None if is_ours else cause
