"""Hash what a function depends on: what it reaches by name in its module, and modules imported.

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
from rarefeat.model.own_code import OWN_NAME_RE
from rarefeat.model.rooms import hash_user_code
from rarefeat.workflow.files.sealed_files import write_file

PACKAGE = Path(__file__).parents[2]
LEFT_OUT = {
    *(
        "model.own_code",
        "model.own_files",
        "model.rooms",
        "workflow.run",
        "workflow.registry",
        "workflow.project",
        "workflow.study_kind",
    ),
    *("workflow.files.sealed_files", "workflow.files.origin", "workflow.files.tensors"),
}
"""Modules and packages that run jobs, move bytes or declare products, and so set no number."""
EDITED = "was edited after this run began; run snakemake again"
GIVEN = ("inputs", "tables", "job", "cell", "seeds", "label")
"""Parameters of a function that the job itself has; any other one names a setting."""
USER_KEYS = ("arm", "rule", "data_law", "encoder", "loss", "optimiser")
"""Keys of the config that may name a user's function."""
FILE = "code.json"
"""File of a folder of results: size, time, hash and imports of each module as the run began, and
the hash of each user's function. A plan reads it, so that it parses only what was edited; a job of
the run compares with it."""
ACCEPTED_FILE = "accepted.json"
AT_START: dict[str, list] = {}
"""Content of that file."""
THIS = "workflow.run.code_hashes"
ACCEPTED: dict[str, dict[str, str]] = {}
"""Hashes of code that other code of the same bytes stands for, by the hash of the latter
(workflow/accept.py)."""
READ: dict[str, list] = {}
"""The same of the modules that this process has looked at."""


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


def imports(nodes: Iterable[ast.AST]) -> dict[str, set[str]]:
    """Return the modules of the package that statements import, by the name that they bind."""
    found: dict[str, set[str]] = {}
    queue = list(nodes)
    for node in queue:
        if isinstance(node, ast.Import):
            for alias in node.names:
                found.setdefault(alias.asname or alias.name.partition(".")[0], set()).add(
                    alias.name
                )
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                inside = f"{node.module}.{alias.name}"
                is_module = find_file(inside.partition(".")[2])
                name = inside if is_module else node.module
                found.setdefault(alias.asname or alias.name, set()).add(name)
        queue += [child for child in ast.iter_child_nodes(node) if not sets_no_number(child)]
    package = f"{PACKAGE.name}."
    return {
        name: {inside for full in modules if find_file(inside := full.removeprefix(package))}
        for name, modules in found.items()
        if any(full.startswith(package) for full in modules)
    }


def bound_names(node: ast.stmt) -> set[str]:
    """Return the names that a statement of a module binds or changes; none for any other one."""
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return {node.name}
    if isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        items = (item for target in targets for item in ast.walk(target))
        return {item.id for item in items if isinstance(item, ast.Name)}
    if isinstance(node, ast.Import | ast.ImportFrom):
        return {alias.asname or alias.name.partition(".")[0] for alias in node.names}
    return set()


def used_names(node: ast.stmt) -> set[str]:
    """Return the names that a statement of a module reads, without a function's own variables."""
    names = [item for item in ast.walk(node) if isinstance(item, ast.Name)]
    own = {item.arg for item in ast.walk(node) if isinstance(item, ast.arg)}
    if isinstance(node, ast.FunctionDef):
        own |= {item.id for item in names if isinstance(item.ctx, ast.Store)}
    return {item.id for item in names} - own


def reach(statements: list[ast.stmt], functions: Iterable[str]) -> Iterator[list[int]]:
    """Yield the numbers of what each function reaches by name, and of what binds no name."""
    by_name: dict[str, list[int]] = {}
    for number, node in enumerate(statements):
        for name in bound_names(node):
            by_name.setdefault(name, []).append(number)
    uses = [used_names(node) for node in statements]
    unbound = [number for number, node in enumerate(statements) if not bound_names(node)]
    for function in functions:
        queue = [*unbound, *by_name[function]]
        for number in queue:
            found = (other for name in uses[number] for other in by_name.get(name, ()))
            queue += [other for other in dict.fromkeys(found) if other not in queue]
        yield sorted(queue)


def read_module(module: str) -> list:
    """Return size, time (ns), hash and imports of a module, and the last two of each function."""
    if module not in READ:
        state = (path := find_file(module)).stat()
        known = AT_START.get(module, ())
        same = known[:2] == [state.st_size, state.st_mtime_ns]
        READ[module] = known if same else [state.st_size, state.st_mtime_ns, *parse_module(path)]
    return READ[module]


def parse_module(path: Path) -> tuple[str, list[str], dict[str, list]]:
    """Return hash and imports of a module, and of what each of its functions reaches."""
    try:
        body = ast.parse(path.read_bytes(), str(path)).body
    except SyntaxError as error:
        raise RarefeatError(f"{path}, line {error.lineno}: {error.msg}") from error
    statements = [node for node in body if not sets_no_number(node)]
    names = [node.name for node in statements if isinstance(node, ast.FunctionDef)]
    modules = [set().union(*imports([node]).values()) for node in statements]
    texts = [
        "" if isinstance(node, ast.Import | ast.ImportFrom) else repr(describe(node))
        for node in statements
    ]

    def part(numbers: Iterable[int]) -> list:
        text = f"[{', '.join(texts[i] for i in numbers if texts[i])}]"
        return [hash_texts(text.encode())[:12], sorted(set().union(*(modules[i] for i in numbers)))]

    parts = map(part, reach(statements, names))
    return *part(range(len(statements))), dict(zip(names, parts, strict=True))


@functools.cache
def module_hashes(*functions: str) -> dict[str, str]:
    """Return the hashes of what some functions reach, or those that they were accepted for."""
    found = reached_hashes(*functions)
    return ACCEPTED.get(hash_code(found), found)


def reached_hashes(*functions: str) -> dict[str, str]:
    """Return the hash of what some MODULE:FUNCTIONs reach in their modules, and of each import."""
    found: dict[str, str] = {}
    queue: list[str] = []
    for function in functions:
        module, _, name = function.partition(":")
        if not find_file(module):
            raise RarefeatError(f"{module}: the package has no such module; check its rule")
        if name not in (known := read_module(module)[4]):
            queue.append(module)  # a schema, or another name of the module
        elif not is_excluded(module):
            found[function], imported = known[name]
            queue += imported
    for module in queue:
        if module not in found and not is_excluded(module):
            found[module], imported = read_module(module)[2:4]
            queue += imported
    return dict(sorted(found.items()))


def hash_code(hashes: dict[str, str]) -> str:
    """Return one hash of the hashes of all parts of some code."""
    return hash_texts(json.dumps(sorted(hashes.items())).encode())[:16]


@functools.cache
def settings_read(function: str) -> tuple[str, ...]:
    """Return the settings that the parameters of a function name, without importing its module."""
    module, _, name = function.partition(":")
    for node in ast.parse(find_file(module).read_bytes()).body:
        if isinstance(node, ast.FunctionDef) and node.name == name:
            names = [item.arg for item in node.args.args]
            required = names[: len(names) - len(node.args.defaults)]
            return tuple(name for name in required if name not in GIVEN)
    raise RarefeatError(f"{function}: the package has no such function; check its rule")


def read_start(results: str | Path) -> None:
    """Read the modules as the last run in a folder of results began, and what was accepted."""
    for name, content in ((FILE, AT_START), (ACCEPTED_FILE, ACCEPTED)):
        path = Path(results, name)
        content.update(json.loads(path.read_bytes()) if path.is_file() else {})
    if AT_START.get(THIS, [])[:2] != read_module(THIS)[:2]:
        AT_START.clear()  # what another version of this module has read


def write_accepted(results: str | Path) -> None:
    """Write the code that other code stands for."""
    write_file(Path(results, ACCEPTED_FILE), json.dumps(ACCEPTED, indent=1))


def write_start(results: str | Path) -> None:
    """Write the modules that this plan, or an earlier one, has looked at, as they are now."""
    write_file(Path(results, FILE), json.dumps(AT_START | READ))


def check_unedited(function: str) -> None:
    """Raise RarefeatError if a module of a function is other than when the run began."""
    for part, now in reached_hashes(function).items():
        module, _, name = part.partition(":")
        *_, whole, _, functions = AT_START.get(module, (now, [], {}))
        if now != (functions.get(name, [now])[0] if name else whole):
            raise RarefeatError(f"{module} {EDITED}")


def user_code(config: Any) -> dict[str, str]:
    """Return the hash of each user's function that settings name."""
    names = sorted(set(user_functions(config)))  # in one order, or equal params would seem changed
    found = {f"own.{name}": hash_user_code(name) for name in names}
    READ.update((name, [digest]) for name, digest in found.items())
    return found


def check_own_code(config: Any) -> None:
    """Raise RarefeatError if a user's function is other than when the run, or this job, began."""
    for name, digest in user_code(config).items():
        if AT_START.setdefault(name, [digest]) != [digest]:
            raise RarefeatError(f"a file of {name.removeprefix('own.')} {EDITED}")


def user_functions(config: Any) -> Iterator[str]:
    """Yield the user's functions in plain values."""
    if isinstance(config, dict):
        for key in USER_KEYS:
            if isinstance(value := config.get(key), str) and OWN_NAME_RE.fullmatch(value):
                yield value
    children: Iterable = config.values() if isinstance(config, dict) else config
    for item in children if isinstance(config, dict | list) else ():
        yield from user_functions(item)
