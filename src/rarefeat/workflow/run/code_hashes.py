"""Hash the modules that a function depends on: its own, and all of this package that these import.

Left out of a module is what sets no number: comments, docstrings, annotations, `print`, texts of
errors, fields and validators of config sections (settings hold their values). Machinery that runs
jobs and moves bytes (LEFT_OUT) is in no hash. A user's own code is hashed by whole files.
"""

import ast
import functools
import hashlib
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from rarefeat.errors import RarefeatError
from rarefeat.model.user_functions import USER_FUNCTION_RE
from rarefeat.model.user_modules import hash_user_code

PACKAGE = Path(__file__).parents[2]
LEFT_OUT = {
    *(
        "model.user_functions",
        "model.user_modules",
        "workflow.run",
        "workflow.registry",
        "workflow.project",
        "workflow.study_kind",
    ),
    *(
        "workflow.files.file_schema",
        "workflow.files.sealed_files",
        "workflow.files.origin",
        "workflow.files.tensors",
    ),
}
"""Modules and packages that run jobs, move bytes or declare products, and so set no number."""
USER_PREFIX = "own"
USER_KEYS = ("arm", "rule", "data_law", "encoder", "loss", "optimiser")
"""Keys of the config that may name a user's function."""
FILE = "code.json"
"""File of a folder of results: size, time, hash and imports of each module as the run began. A plan
reads it, so that it parses only what was edited; a job of the run compares with it."""
AT_START: dict[str, list] = {}
"""Content of that file."""


def hash_texts(*texts: bytes) -> str:
    """Hash several texts as one."""
    return hashlib.sha256(b"".join(hashlib.sha256(text).digest() for text in texts)).hexdigest()


def find_file(module: str) -> Path | None:
    """Return the file of a module, named from the package's root; None if there is none."""
    path = PACKAGE.joinpath(*module.split("."))
    return next((f for f in (path.with_suffix(".py"), path / "__init__.py") if f.is_file()), None)


def is_excluded(module: str) -> bool:
    """Return whether no hash contains a module."""
    return any(f"{module}.".startswith(f"{name}.") for name in LEFT_OUT)


def sets_no_number(node: ast.AST) -> bool:
    """Return whether a statement is a docstring, a `print`, a config key, or for types alone."""
    match node:
        case ast.Expr(value=ast.Constant(value=str()) | ast.Call(func=ast.Name(id="print"))):
            return True
        case ast.AnnAssign(value=ast.Call(func=ast.Name(id="Field"))):
            return True
        case ast.FunctionDef(decorator_list=[_, *_] as decorators):
            return any("validator" in ast.unparse(decorator) for decorator in decorators)
        case ast.If(test=ast.Name(id="TYPE_CHECKING")):
            return True
    return False


def describe(node: Any) -> Any:
    """Return a syntax tree as plain values, without what sets no number."""
    if isinstance(node, list):
        return [describe(item) for item in node if not sets_no_number(item)]
    if not isinstance(node, ast.AST):
        return node
    if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
        return "Raise", describe(node.exc.func)
    fields = (name for name in node._fields if name not in ("annotation", "returns", "ctx"))
    return type(node).__name__, *(describe(getattr(node, name)) for name in fields)


def imports(tree: ast.AST) -> set[str]:
    """Return the modules of the package that a module imports, anywhere but for types."""
    names, queue = set(), [tree]
    for node in queue:
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
        queue += [child for child in ast.iter_child_nodes(node) if not sets_no_number(child)]
    inside = (name.partition(".")[2] for name in names if name.startswith(f"{PACKAGE.name}."))
    return {name for name in inside if find_file(name)}


@functools.cache
def read_module(module: str) -> list:
    """Return size, time (ns), hash and imports of a module."""
    state = (path := find_file(module)).stat()
    known = AT_START.get(module, ())
    if known[:2] == [state.st_size, state.st_mtime_ns]:
        return known
    tree = ast.parse(path.read_bytes(), str(path))
    text = repr(describe(tree)).encode()
    return [state.st_size, state.st_mtime_ns, hash_texts(text)[:12], sorted(imports(tree))]


@functools.cache
def module_hashes(*functions: str) -> dict[str, str]:
    """Return the hash of each module that some MODULE:FUNCTIONs depend on."""
    queue = [function.partition(":")[0] for function in functions]
    if missing := [module for module in queue if not find_file(module)]:
        raise RarefeatError(f"{missing[0]}: the package has no such module; check its rule")
    found: dict[str, str] = {}
    for module in queue:
        if module not in found and not is_excluded(module):
            *_, found[module], imported = read_module(module)
            queue += imported
    return dict(sorted(found.items()))


@functools.cache
def code_hash(*functions: str) -> str:
    """Return one hash of the modules that some functions depend on."""
    return hash_texts(json.dumps(module_hashes(*functions)).encode())[:16]


@functools.cache
def parameters(function: str) -> tuple[str, ...]:
    """Return the names of a function's parameters, without an import of its module."""
    module, _, name = function.partition(":")
    for node in ast.parse(find_file(module).read_bytes()).body:
        if isinstance(node, ast.FunctionDef) and node.name == name:
            return tuple(item.arg for item in (*node.args.args, *node.args.kwonlyargs))
    raise RarefeatError(f"{function}: the package has no such function; check its rule")


def read_start(results: str | Path) -> None:
    """Read the modules as they were when the last run in a folder of results began."""
    path = Path(results, FILE)
    AT_START.update(json.loads(path.read_bytes()) if path.is_file() else {})


def dump_start() -> str:
    """Return the content of the file of the modules: all that were read since this plan began."""
    names = dict.fromkeys((*AT_START, *module_names()))
    return json.dumps({name: read_module(name) for name in names if find_file(name)})


def module_names() -> list[str]:
    """Return the names of all modules of the package."""
    paths = (path.relative_to(PACKAGE).with_suffix("") for path in PACKAGE.rglob("*.py"))
    return sorted(".".join(path.parts).removesuffix(".__init__") for path in paths)


def check_unedited(function: str) -> None:
    """Raise RarefeatError if a module of a function is other than when the run began."""
    for module, now in module_hashes(function).items():
        if module in AT_START and AT_START[module][2] != now:
            raise RarefeatError(f"{module} was edited after this run began; run snakemake again")


def user_code(config: Any) -> dict[str, str]:
    """Return the hash of each user's function that settings name."""
    return {name: hash_user_code(name.removeprefix("own.")) for name in set(user_functions(config))}


def user_functions(config: Any) -> Iterator[str]:
    """Yield the user's functions in plain values."""
    if isinstance(config, dict):
        for key in USER_KEYS:
            if isinstance(value := config.get(key), str) and USER_FUNCTION_RE.fullmatch(value):
                yield f"{USER_PREFIX}.{value}"
    children: Iterable = config.values() if isinstance(config, dict) else config
    for item in children if isinstance(config, dict | list) else ():
        yield from user_functions(item)
