"""Own code: MODULE:NAME of a file, or an object of the session.

A file is looked for beside the config that is in use, then in the working directory. Six kinds of
own code are called: rules for masks (`PruningContext`, model/arms.py) and for the bias
(`BiasContext`, model/bias.py), and a learner's data law, encoder, loss and optimiser. They run in
rooms (model/rooms.py), where they may keep, draw and patch what they like. Left to be checked is
the form of what they return: a mask of another shape would be broadcast without a word.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import inspect
import re
import sys
from collections.abc import Callable, Collection, Iterator
from typing import TYPE_CHECKING, Any

from rarefeat.errors import RarefeatError
from rarefeat.model.own_files import import_module, module_file, one_line, search_folders

if TYPE_CHECKING:
    from torch import Tensor

OWN_NAME_RE = re.compile(r"(?P<module>[A-Za-z_]\w*(\.[A-Za-z_]\w*)*):(?P<function>[A-Za-z_]\w*)")
REGISTERED: dict[str, Callable] = {}
"""Functions of this session by their names."""


class OwnCallable:
    """A function or class of the user's: the only thing through which own code is called."""

    def __init__(self, kind: str, source: str | Callable) -> None:
        self.kind, self.source, self.__name__ = kind, source, own_name(source)

    @functools.cached_property
    def function(self) -> Callable:
        """The object; of a file as the room, or this process, has imported it."""
        if not isinstance(self.source, str):
            return self.source
        if self.source in REGISTERED:
            return REGISTERED[self.source]
        if reason := explain_missing(self.source):
            raise RarefeatError(f"{self.source}: {reason}")
        module, _, name = self.source.partition(":")
        if module not in sys.modules:
            import_module(module)
        return getattr(sys.modules[module], name)

    @property
    def __signature__(self) -> inspect.Signature:
        return inspect.signature(self.function)

    def __call__(self, *args: Any, **options: Any) -> Any:
        """Call it; an error of its own is one line."""
        with one_line_errors(f"{self.kind} {self.__name__}"):
            return self.function(*args, **options)


def own_name(source: str | Callable) -> str:
    """Return the name of own code; that of a file has a colon."""
    return source if isinstance(source, str) else getattr(source, "__name__", type(source).__name__)


def is_own(name: str) -> bool:
    """Return whether a name is of own code."""
    return name in REGISTERED or bool(OWN_NAME_RE.fullmatch(name))


def register_function(function: Callable, built_in: Collection[str]) -> str:
    """Register a function of a session, and return the name under which a config has it."""
    name = getattr(function, "__name__", "")
    if not name.isidentifier():
        raise RarefeatError(
            "a rule of your own needs a name: write it as `def my_rule(...)`, got"
            f" {name or function!r}"
        )
    if name in built_in:
        raise RarefeatError(
            f"a rule of your own is called {name}, as one that is built in; give it another name"
        )
    REGISTERED[name] = function
    return name


def explain_missing(name: str) -> str:
    """Return why there is no own code of this name; empty if there is some."""
    if name in REGISTERED:
        return ""
    if not OWN_NAME_RE.fullmatch(name):
        return "there is none of this name; one of your own is MODULE:FUNCTION"
    module, _, function = name.partition(":")
    path = module_file(module)
    try:
        body = ast.parse(path.read_bytes()).body
    except OSError:
        return f"there is no file {module.replace('.', '/')}.py in {' or '.join(search_folders())}"
    except (SyntaxError, ValueError) as error:
        return f"{path} is no Python: {error}"
    kinds = ast.FunctionDef | ast.ClassDef  # of a file that is read and not run
    functions = [node.name for node in body if isinstance(node, kinds)]
    if function in functions:
        return ""
    return f"{path} has no function {function}; it has {', '.join(functions) or 'none'}"


@contextlib.contextmanager
def one_line_errors(name: str) -> Iterator[None]:
    """Raise an error of own code as one line, in which it is named."""
    try:
        yield
    except RarefeatError:
        raise
    except Exception as error:
        own_frames = error.__traceback__.tb_next if error.__traceback__ else None
        line = f"{name}: fails: {one_line(error)}"
        raise RarefeatError(line) from error.with_traceback(own_frames)


def copied(value: Any) -> Any:
    """Copy the tensors of a context of a rule."""
    import torch

    if isinstance(value, torch.Tensor):
        return value.clone()
    if isinstance(value, tuple) and value:
        return type(value)(*map(copied, value))
    is_function = callable(value) and not isinstance(value, torch.Generator)
    return (lambda: copied(value())) if is_function else value


class OwnRule:
    """A rule of the user's during one training: it is called with copies, its result checked."""

    def __init__(self, name: str, check: Callable[[Any, Tensor], str]) -> None:
        self.own, self.check = OwnCallable("rule", name), check

    def __call__(self, context: Any) -> Tensor:
        """Return the rule's result."""
        import torch

        result, device = self.own(copied(context)), context.weights.device
        if not isinstance(result, torch.Tensor):
            wrong = f"must return a tensor, got {type(result).__name__}"
        elif not (wrong := self.check(context, result)) and result.device != device:
            wrong = f"must return a tensor on {device}, got one on {result.device}"
        if wrong:
            raise RarefeatError(f"rule {self.own.__name__}: {wrong} at step {context.step}")
        return result.detach().as_subclass(torch.Tensor).clone()


def check_mask(context: Any, mask: Tensor) -> str:
    """Return what is wrong with the mask of a rule; empty if it is right."""
    import torch

    S, m, p = context.weights.shape
    if mask.dtype != torch.bool or tuple(mask.shape) not in ((S, m), (S, m, p)):
        return (
            f"must return a mask, bool (S, m) = {S, m} or (S, m, p) = {S, m, p},"
            f" got {mask.dtype} {(*mask.shape,)}"
        )
    # Under the reduced simulator the features are the first coordinates, and the others are no
    # weights of the network.
    identity = torch.eye(p)[:, : context.dictionary.shape[-1]]
    if mask.dim() == 3 and torch.equal(context.dictionary[0].cpu(), identity):
        return "masks single weights, which only the simulator direct has,"
    return ""


def check_bias(context: Any, bias: Tensor) -> str:
    """Return what is wrong with the bias of a rule; empty if it is right."""
    import torch

    shape = (*context.bias.shape,)
    if bias.dtype == torch.float32 and bias.shape == shape:
        # Of a training that has diverged a rule may return anything.
        is_wrong = (bias.isnan() & context.norms.isfinite()).any()
        return "must return no NaN" if is_wrong else ""
    return f"must return float32 (S, m) = {shape}, got {bias.dtype} {(*bias.shape,)}"
