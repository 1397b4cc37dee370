"""Hashes of functions that a session defines: a notebook, a script or an interactive Python.

A sweep keeps its trainings by the code that made them. The hash of a function is of its bytecode,
default values and attributes, and of all that it reaches by a global name or a closure: plain
values, arrays, other functions of the session, and packages by their versions. Everything else has
no hash that is certain to move with it, and is refused: classes of the session, objects of other
types, and functions of files, since a file may have been edited after its import. A rule of a file
is given by its name, MODULE:FUNCTION, and hashed by whole files (core/user_modules.py).
"""

import contextlib
import dis
import functools
import hashlib
import importlib.util
import json
import operator
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np
import torch

from rarefeat.core.errors import RarefeatError
from rarefeat.core.user_modules import PACKAGE, is_installed_file, module_file

PLAIN = (type(None), bool, int, float, complex, str, bytes, range, type(...), torch.dtype)
"""Types whose repr says all; their subclasses may hold more."""
HIDDEN = {"__import__", "compile", "eval", "exec", "globals", "locals", "open", "vars"}
"""Builtins through which a function reaches what no name in it tells."""
HIDDEN_MODULES = {"builtins", "ctypes", "gc", "importlib", "inspect", "os", "runpy", "sys"}
"""Modules through which it does."""

ITSELF = "itself"
"""Stands for the name of the function that is hashed."""
GLOBAL_READS = {"LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS"}


@functools.cache
def package_hash() -> str:
    """Hash all source files of rarefeat."""
    digest = hashlib.sha256()
    for path in sorted(PACKAGE.rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def hash_function(function: Callable) -> str:
    """Hash a function of this session, with everything that it reaches.

    Parameters
    ----------
    function : callable
        A rule; its name stands in messages.

    Returns
    -------
    str
        16 hexadecimal digits, the same in another session.

    Raises
    ------
    RarefeatError
        If it is a function of a file, or reaches something that has no certain hash.
    """
    name = getattr(function, "__name__", repr(function))
    try:
        value = SessionHash(name).describe(function, ITSELF)
    except RecursionError as error:
        raise RarefeatError(f"rule {name}: uses a value that contains itself") from error
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()[:16]


class SessionHash:
    """A description of a function in plain values, for its hash.

    Attributes
    ----------
    rule : str
        Name of the function, for messages.
    numbers : dict
        Number of each function that was described, by its identity: functions may call each other.
    """

    def __init__(self, rule: str) -> None:
        self.rule = rule
        self.numbers: dict[int, int] = {}

    def refuse(self, name: str, reason: str) -> RarefeatError:
        """Return the error for something that the function reaches by a name."""
        return RarefeatError(f"rule {self.rule}: uses {name}, {reason}")

    def describe(self, value: Any, name: str) -> Any:
        """Describe a value that a name stands for; RarefeatError if it has no certain hash."""
        if type(value) in PLAIN:
            return repr(value)
        if type(value) in (list, tuple):
            return [type(value).__name__, *(self.describe(item, name) for item in value)]
        if type(value) in (set, frozenset):
            return sorted(json.dumps(self.describe(item, name)) for item in value)
        if type(value) is dict:
            items = value.items()
            return [[self.describe(key, name), self.describe(item, name)] for key, item in items]
        if isinstance(value, np.generic) or type(value) in (np.ndarray, torch.Tensor):
            return self.describe_array(value, name)
        if isinstance(value, ModuleType):
            return self.describe_module(value.__name__, name)
        if package := installed_name(value):
            return package
        if type(value) is FunctionType:
            return self.describe_function(value, name)
        kind = "a class" if isinstance(value, type) else f"of type {type(value).__name__}"
        raise self.refuse(
            name,
            f"{kind}, which has no certain hash; use plain values, arrays"
            " and functions, or write the rule into a file and give its name, MODULE:FUNCTION",
        )

    def describe_array(self, value: Any, name: str) -> list[Any]:
        """Describe an array or a tensor by its bytes."""
        try:
            if isinstance(value, torch.Tensor):
                flat = value.detach().cpu().contiguous().flatten()
                content = flat.view(torch.uint8).numpy().tobytes()
            else:
                content = np.ascontiguousarray(value).tobytes()
        except (RuntimeError, TypeError, ValueError) as error:
            reason = f"an array of {value.dtype}, whose bytes cannot be read"
            raise self.refuse(name, reason) from error
        if str(value.dtype) == "object":
            raise self.refuse(name, "an array of objects, which has no certain hash")
        digest = hashlib.sha256(content).hexdigest()
        return [type(value).__name__, str(value.dtype), list(value.shape), digest]

    def describe_module(self, module: str, name: str) -> str:
        """Describe a module by the version of its package; RarefeatError for one of the user's."""
        package = module.partition(".")[0]
        if package == "rarefeat":
            return f"{module} {package_hash()}"
        if package in HIDDEN_MODULES:
            raise self.refuse(name, f"by which it may reach anything; leave {package} out")
        loaded = sys.modules.get(package)
        try:
            spec = getattr(loaded, "__spec__", None) or importlib.util.find_spec(package)
        except ValueError:
            spec = None
        origin = getattr(spec, "origin", None)
        # A package without a file of its own is a folder.
        files = [origin] if origin else getattr(spec, "submodule_search_locations", None) or [""]
        if origin not in ("built-in", "frozen") and not all(map(is_installed_file, files)):
            raise self.refuse(
                name,
                f"of {origin or module}, which may have been edited since it was imported; write"
                " the rule into a file, too, and give its name, MODULE:FUNCTION",
            )
        return f"{module} {getattr(loaded, '__version__', '')}"

    def describe_function(self, function: FunctionType, name: str) -> Any:
        """Describe a function of the session; RarefeatError for one of a file."""
        module = sys.modules.get(function.__module__ or "")
        file = getattr(module, "__file__", None)
        if file and function.__module__ != "__main__":
            raise RarefeatError(self.explain_file(function, name, file))
        if id(function) in self.numbers:
            return self.numbers[id(function)]
        self.numbers[id(function)] = len(self.numbers)
        try:
            cells = [cell.cell_contents for cell in function.__closure__ or ()]
        except ValueError:
            raise self.refuse(name, "before the names around it have values") from None
        names = self.global_names(function.__code__)
        if hidden := sorted((names & HIDDEN) - function.__globals__.keys()):
            raise self.refuse(hidden[0], f"by which it may reach anything; leave {hidden[0]} out")
        reached = {
            key: self.describe(function.__globals__[key], key)
            for key in sorted(names & function.__globals__.keys())
        }
        values = [function.__defaults__, function.__kwdefaults__, vars(function)]
        closure = [
            self.describe(cell, key)
            for cell, key in zip(cells, function.__code__.co_freevars, strict=True)
        ]
        return [
            self.describe_code(function.__code__),
            self.describe(values, name),
            closure,
            reached,
        ]

    def explain_file(self, function: FunctionType, name: str, file: str) -> str:
        """Return the message for a function that is of a file.

        Parameters
        ----------
        function : function
            The function.
        name : str
            Name by which it is reached.
        file : str
            Its file.
        """
        place = f"{function.__module__}:{function.__qualname__}"
        edited = f"of {Path(file).name}, which may have been edited since it was imported"
        if name != ITSELF:
            remedy = "write the rule into that file and give its name, MODULE:FUNCTION"
            return f"rule {self.rule}: uses {name} {edited}; {remedy}"
        if module_file(function.__module__) != Path(file):
            remedy = "put the file into the working directory and give its name, MODULE:FUNCTION"
        elif "<locals>" in place:
            remedy = "define it at the top of the file and give its name, MODULE:FUNCTION"
        else:
            remedy = f'give it by its name, "{place}"'
        return f"rule {self.rule}: is {edited}; {remedy}"

    def global_names(self, code: CodeType) -> set[str]:
        """List the global names that a function reads, with functions within it.

        RarefeatError for an import in it of a module of the user's.
        """
        names = set()
        for inner in nested_code(code):
            for instruction in dis.get_instructions(inner):
                if instruction.opname in GLOBAL_READS:
                    names.add(instruction.argval)
                elif instruction.opname == "IMPORT_NAME":
                    self.describe_module(instruction.argval, f"the import of {instruction.argval}")
        return names

    def describe_code(self, code: CodeType) -> list[Any]:
        """Describe bytecode, with that of functions within it; not where it stands."""
        constants = [
            self.describe_code(item)
            if isinstance(item, CodeType)
            else self.describe(item, "a constant")
            for item in code.co_consts
        ]
        counts = [code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags]
        names = [code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars]
        handlers = getattr(code, "co_exceptiontable", b"").hex()
        return [code.co_code.hex(), handlers, constants, counts, names]


def nested_code(code: CodeType) -> Iterator[CodeType]:
    """Yield code, and the code of every function within it."""
    yield code
    for item in code.co_consts:
        if isinstance(item, CodeType):
            yield from nested_code(item)


def installed_name(value: Any) -> str:
    """Return the path and version of an object of an installed package; else empty."""
    module = getattr(value, "__module__", None)
    if not isinstance(module, str) or module == "__main__" or module not in sys.modules:
        return ""
    loaded, package = sys.modules[module], module.partition(".")[0]
    file = getattr(loaded, "__file__", None)
    if file and not is_installed_file(file):
        return ""
    # The qualified name of a function of torch is that of a private class.
    for name in (getattr(value, "__qualname__", ""), getattr(value, "__name__", "")):
        with contextlib.suppress(AttributeError):
            if name and operator.attrgetter(name)(loaded) is value:
                version = getattr(sys.modules.get(package), "__version__", "")
                return f"{module}.{name} {package_hash() if package == 'rarefeat' else version}"
    return ""
