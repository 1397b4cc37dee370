"""User-defined rules: MODULE:FUNCTION of a file, or a session's function.

A file is looked for beside the config that is in use, then in the working directory.

A rule for masks takes a `PruningContext` (model/arms.py), one for the bias a `BiasContext`
(model/bias.py). It is called with copies, so that it changes nothing that the training uses, and
its result is checked and copied: a mask of another shape would be broadcast without a word.

A rule must be a function of its context: otherwise a number would depend on what ran before.
`UserRule` tests that at some steps. How files are imported and hashed is in model/user_modules.py.
"""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Callable, Collection
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from rarefeat.errors import RarefeatError
from rarefeat.model.torch_settings import changed_settings, torch_settings
from rarefeat.model.user_modules import (
    called_files,
    hashed_files,
    load_user_module,
    module_file,
    opened_files,
    search_folders,
)

if TYPE_CHECKING:
    from torch import Tensor

USER_FUNCTION_RE = re.compile(
    r"(?P<module>[A-Za-z_]\w*(\.[A-Za-z_]\w*)*):(?P<function>[A-Za-z_]\w*)"
)
REGISTERED: dict[str, Callable] = {}
"""Functions of this session by their names."""


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
    """Return why there is no function of this name; empty if there is one.

    Its file is read and not run.
    """
    if name in REGISTERED:
        return ""
    if not USER_FUNCTION_RE.fullmatch(name):
        return "there is none of this name; one of your own is MODULE:FUNCTION"
    module, _, function = name.partition(":")
    path = module_file(module)
    try:
        body = ast.parse(path.read_bytes()).body
    except OSError:
        return f"there is no file {module.replace('.', '/')}.py in {' or '.join(search_folders())}"
    except (SyntaxError, ValueError) as error:
        return f"{path} is no Python: {error}"
    functions = [node.name for node in body if isinstance(node, ast.FunctionDef | ast.ClassDef)]
    if function in functions:
        return ""
    return f"{path} has no function {function}; it has {', '.join(functions) or 'none'}"


def load_function(name: str) -> Callable:
    """Return a user-defined function, of its file as it is now."""
    if name in REGISTERED:
        return REGISTERED[name]
    if reason := explain_missing(name):
        raise RarefeatError(f"{name}: {reason}")
    module, _, function = name.partition(":")
    return getattr(load_user_module(module).module, function)


def first_docstring_line(name: str) -> str:
    """Return the first line of a function's docstring; its name if there is none to be read."""
    try:
        return (load_function(name).__doc__ or name).strip().partition("\n")[0]
    except RarefeatError:
        return name


def format_exception(error: Exception) -> str:
    """Return an error of a user-defined function in one line."""
    return f"{type(error).__name__}: {next(iter(str(error).splitlines()), '')}"


def copy_context(context: Any, *rows: int) -> Any:
    """Copy a context of a rule for some of its replicas."""
    import torch

    def copy(value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return value[list(rows)]
        if isinstance(value, torch.Generator):
            return torch.Generator(value.device).set_state(value.get_state())
        if isinstance(value, list):
            return [copy(value[row]) for row in rows]
        if isinstance(value, tuple) and value:
            return type(value)(*map(copy, value))
        return (lambda: copy(value())) if callable(value) else value

    return type(context)(*map(copy, context))


def are_same(first: Tensor, second: Tensor) -> bool:
    """Return whether two results are the same to the last bit, where NaN is NaN."""
    if first.shape != second.shape or first.dtype != second.dtype:
        return False
    return bool(((first == second) | ((first != first) & (second != second))).all())


class UserRule:
    """A user-defined rule during one training, which may depend on its context alone.

    It is called for one replica at a time, so that no number depends on which replicas are trained
    together. At steps 1, 2, 4, 8, ... it is called again, with the context of the last replica and
    with that of the test before, and refused where a result differs; and with two replicas, which
    tells a function from a cache.
    """

    def __init__(self, name: str, check: Callable[[Any, Tensor], None]) -> None:
        self.name, self.check = name, check
        self.function: Callable | None = None
        self.n_steps = 0
        self.tested: tuple[Any, Tensor] | None = None

    def __call__(self, context: Any) -> Tensor:
        """Return the rule's result for the replicas of a context, checked and copied."""
        import torch

        if self.function is None:
            # Imported once, so that a file that is edited while it trains changes no step.
            self.function = load_function(self.name)
        if hasattr(context, "gradient"):
            context = context._replace(gradient=functools.cache(context.gradient))
        generators = getattr(context, "generators", ())
        # One generator for all replicas, as on a device, is nobody's own.
        is_separable = isinstance(generators or [], list)
        self.n_steps += 1
        is_test = is_separable and self.n_steps & (self.n_steps - 1) == 0
        last = len(context.weights) - 1
        before = copy_context(context, last) if is_test else None
        settings, results = torch_settings(), []
        with opened_files() as files:
            for row in range(last + 1):
                argument = copy_context(context, row)
                if is_separable and generators:
                    # Its own generator, which a copy would not move on.
                    argument = argument._replace(generators=[generators[row]])
                results.append(self.run(argument))
                self.check(context, results[-1])
            if before:
                self.test(before, results[-1])
        if changed := changed_settings(settings):
            raise RarefeatError(f"rule {self.name}: changes settings of torch: {changed}")
        if self.name not in REGISTERED:
            self.check_files(files)
        if len({result.shape for result in results}) > 1:
            raise RarefeatError(
                f"rule {self.name}: masks neurons in one replica, weights in another"
            )
        return torch.cat(results)

    def run(self, argument: Any) -> Tensor:
        """Call the function for one replica; RarefeatError with one line where it fails."""
        import torch

        try:
            result = cast(Callable, self.function)(argument)
        except RarefeatError:
            raise
        except Exception as error:
            line = f"rule {self.name}: fails at step {argument.step}: {format_exception(error)}"
            own_frames = error.__traceback__.tb_next if error.__traceback__ else None
            raise RarefeatError(line) from error.with_traceback(own_frames)
        if not isinstance(result, torch.Tensor):
            kind = type(result).__name__
            raise RarefeatError(
                f"rule {self.name}: must return a tensor, got {kind} at step {argument.step}"
            )
        return result.detach().clone()

    def check_files(self, files: set[Path]) -> None:
        """Raise RarefeatError for a file that the function has opened or run and no hash has."""
        module = self.name.partition(":")[0]
        for path in sorted(files - hashed_files(module)):
            if self.name in REGISTERED:
                remedy = "write the rule into a file, too, and give its name, MODULE:FUNCTION"
            elif path.suffix == ".py":
                remedy = f"import it at the top of {module_file(module).name}"
            else:
                remedy = f'declare it in {module_file(module).name}: reads = ["{path.name}"]'
            raise RarefeatError(
                f"rule {self.name}: uses {path}, which may be edited unseen; {remedy}"
            )

    def test(self, context: Any, result: Tensor) -> None:
        """Raise RarefeatError unless the function repeats a result, and that of the last test."""
        for rows in ((0,), (0, 0), (0,)):
            with called_files() as files:
                again = self.run(copy_context(context, *rows))
            self.check_files(files)
            if len(again) != len(rows):
                raise RarefeatError(
                    f"rule {self.name}: returns {len(again)} rows for {len(rows)} replicas; it must"
                    " keep no state, and leave the first axis as it is"
                )
            if len(rows) == 1 and not are_same(again, result):
                raise RarefeatError(
                    f"rule {self.name}: returns another result when it is called again; it must"
                    " keep no state, and draw from the generators of its context alone"
                )
        if self.tested and not are_same(self.run(copy_context(self.tested[0], 0)), self.tested[1]):
            raise RarefeatError(
                f"rule {self.name}: returns another result for an earlier step than it did then; it"
                " must keep no state"
            )
        self.tested = context, result


def make_user_mask_rule(name: str) -> Callable[[Any], Tensor]:
    """Return a user-defined rule for masks, for one training."""

    def check(context: Any, mask: Tensor) -> None:
        import torch

        m, p = context.weights.shape[1:]
        if mask.dtype != torch.bool or tuple(mask.shape) not in ((1, m), (1, m, p)):
            raise RarefeatError(
                f"rule {name}: must return a mask, bool (S, m) = {1, m} or (S, m, p) = {1, m, p},"
                f" got {mask.dtype} {(*mask.shape,)}"
            )
        # Under the reduced simulator the features are the first coordinates, and the others are no
        # weights of the network.
        d = context.dictionary.shape[-1]
        if mask.dim() == 3 and torch.equal(context.dictionary[0].cpu(), torch.eye(p)[:, :d]):
            raise RarefeatError(
                f"rule {name}: masks single weights, which only the simulator direct has"
            )
        check_device(name, mask, context.weights)

    return UserRule(name, check)


def make_user_bias_rule(name: str) -> Callable[[Any], Tensor]:
    """Return a user-defined rule for the bias, for one training."""

    def check(context: Any, bias: Tensor) -> None:
        import torch

        if bias.dtype != torch.float32 or bias.shape != context.bias[:1].shape:
            raise RarefeatError(
                f"rule {name}: must return float32 (S, m) = {(*context.bias[:1].shape,)},"
                f" got {bias.dtype} {(*bias.shape,)}"
            )
        check_device(name, bias, context.bias)

    return UserRule(name, check)


def check_device(name: str, result: Tensor, other: Tensor) -> None:
    """Raise RarefeatError unless the result of a rule is on the device of its context."""
    if result.device != other.device:
        raise RarefeatError(
            f"rule {name}: must return a tensor on {other.device}, got one on {result.device}"
        )
