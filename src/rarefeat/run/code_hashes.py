"""Hash the code that a pipeline stage depends on: what R's `targets` does, for Python.

The hash covers the stage's dependency closure: its function, every module-level definition
(function, class, constant) of the package that can be reached from there by name, and the
statements that the modules on the way run at import. A class counts as a whole, and so does a
module that is used as a value rather than for one of its attributes.

Left out is what cannot change a number: comments, docstrings, annotations, `print`, texts of
errors and other texts for readers; fields and validators of config sections, because jobs store
their values; and EXCLUDED_MODULES. An arm counts only in jobs whose config names it
(`registry_entries`). A user's own code is hashed by whole files (core/user_modules.py).

Snakemake's own `code` trigger sees the text of a shell command and the date of a script, and none
of their imports. Jobs have these hashes among their parameters instead (job.py).
"""

import ast
import contextlib
import functools
import hashlib
import json
import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from pathlib import Path
from typing import Any, NamedTuple

from rarefeat.core.user_functions import USER_FUNCTION_RE
from rarefeat.core.user_modules import hash_user_code
from rarefeat.storage.sealed_files import read_error, verify

PACKAGE = Path(__file__).parents[1]
EXCLUDED_MODULES = {
    *("core.user_functions", "core.user_modules", "run", "registry", "project", "study_kind"),
    *("storage.file_schema", "storage.sealed_files", "storage.origin", "storage.tensors"),
}
"""Modules and packages that run jobs, move bytes or declare products, and so set no number.

`run/execute_job.py` sets torch to one thread and writes rows as they are. It would be in the hash
of every table, so tests/run/test_execute_job.py checks both instead.
"""
USER_PREFIX = "own"
"""Stands before the module of a user's function among the code that a job depends on."""
USER_KEYS = ("arm", "rule", "data_law", "encoder", "loss", "optimiser")
"""Keys of the config that may name a user's function."""
ACCEPTED = "accepted.json"
"""File below a folder of results, written by manage/accept.py."""
WHOLE, IMPORT = "*", ""
"""Stand for all definitions of a module, and for what it runs at import."""
DECLARING_CALLS = ("Field", "column", "Column", "DataFrameSchema", "ArgumentParser", "add_argument")
TEXT_ARGUMENTS = ("description", "help", "label", "style")
"""Arguments of DECLARING_CALLS, and of a registry entry, that are for readers."""


class Definition(NamedTuple):
    """A name at the top of a module of the package, which is named from the package's root."""

    module: str
    name: str


SECTION, REGISTRY = Definition("config.section", "Section"), Definition("core.arms", "ARMS")
ENTRY_CLASS, ENTRY_FUNCTION = "ArmSpec", "rule"
"""Class of a registry entry, and its field that is called."""


class StatementNormaliser(ast.NodeTransformer):
    """Removes from a statement what cannot change a number; its annotations are kept apart."""

    def __init__(self, is_section: Callable[[ast.ClassDef], bool]) -> None:
        self.is_section = is_section
        self.annotations: list[ast.expr] = []

    def visit(self, node: ast.AST) -> ast.AST | None:
        """Move the annotation of any node to `annotations`, where quoted ones are parsed."""
        for field in ("annotation", "returns"):
            annotation = getattr(node, field, None)
            for child in ast.walk(annotation) if annotation else ():
                if isinstance(child, ast.Constant) and isinstance(child.value, str):
                    with contextlib.suppress(SyntaxError):
                        self.annotations.append(ast.parse(child.value, mode="eval").body)
            if annotation:
                self.annotations.append(annotation)
                setattr(node, field, None)
        return super().visit(node)

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        """Drop the fields and validators of a config section."""
        if self.is_section(node):
            dropped = [statement for statement in node.body if is_declaration(statement)]
            node.body = [statement for statement in node.body if statement not in dropped]
            for statement in dropped:
                self.annotations += filter(None, [getattr(statement, "annotation", None)])
        return self.generic_visit(node)

    def visit_Raise(self, node: ast.Raise) -> ast.AST:
        """Drop the texts of an error, and keep its type."""
        if isinstance(node.exc, ast.Call):
            node.exc.args = [value for value in node.exc.args if not is_text(value)]
        return self.generic_visit(node)

    def visit_Expr(self, node: ast.Expr) -> ast.AST | None:
        """Drop a docstring and a call of `print`."""
        is_print = dotted_name(getattr(node.value, "func", node)) == "print"
        return None if is_print or is_text(node.value) else self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """Drop the arguments of a call that are texts for readers."""
        function = dotted_name(node.func).rpartition(".")[2]
        if function == "metric_descriptions":
            node.keywords = [ast.keyword(item.arg, ast.Constant("")) for item in node.keywords]
        if function == "progress":
            node.args, node.keywords = node.args[:1], []
        if function == ENTRY_CLASS:
            del node.args[1:3]  # label and description
        if function in (*DECLARING_CALLS, ENTRY_CLASS):
            node.keywords = [item for item in node.keywords if item.arg not in TEXT_ARGUMENTS]
        return self.generic_visit(node)


def dotted_name(node: ast.AST) -> str:
    """Return a name, or names with dots between them, as a text; empty for anything else."""
    base = dotted_name(node.value) if isinstance(node, ast.Attribute) else ""
    return f"{base}.{node.attr}" if base else getattr(node, "id", "")


def is_text(node: ast.AST) -> bool:
    """Return whether an expression is a text, or an f-string."""
    return isinstance(node, ast.JoinedStr) or isinstance(getattr(node, "value", None), str)


def is_import(node: ast.AST) -> bool:
    """Return whether a statement is an import."""
    return isinstance(node, ast.Import | ast.ImportFrom)


def is_declaration(node: ast.stmt) -> bool:
    """Return whether a statement of a config section declares a key, or checks its value."""
    if isinstance(node, ast.AnnAssign):
        return not ast.unparse(node.annotation).startswith(("ClassVar", "Final"))
    decorators = map(ast.unparse, getattr(node, "decorator_list", ()))
    return "model_config" in bound_names(node) or any("validator" in text for text in decorators)


def bound_names(node: ast.stmt) -> set[str]:
    """List the names that a statement may bind."""
    names = set()
    for child in [node] if isinstance(node, ast.FunctionDef | ast.ClassDef) else ast.walk(node):
        if isinstance(child, ast.Name) and isinstance(child.ctx, ast.Store):
            names.add(child.id)
        elif isinstance(child, ast.FunctionDef | ast.ClassDef):
            names.add(child.name)
        elif is_import(child):
            names |= {alias.asname or alias.name.partition(".")[0] for alias in child.names}
    return names


class PackageSource:
    """The modules of the package, each read once."""

    def __init__(self, root: Path = PACKAGE) -> None:
        self.root = root
        self.modules: dict[str, dict[str, list[ast.stmt]]] = {}
        self.normalised: dict[Definition, tuple[str, set[Definition]]] = {}
        self.find_file = functools.cache(self._find_file)
        self.closure, self.hash = map(functools.cache, (self._closure, self._hash))

    def _find_file(self, module: str) -> Path | None:
        """Find the file of a module; None if there is none."""
        path = self.root.joinpath(*filter(None, module.split(".")))
        files = (path.with_suffix(".py"), path / "__init__.py")
        return next((file for file in files if file.is_file()), None)

    def bindings(self, module: str) -> dict[str, list[ast.stmt]]:
        """Map each name at the top of a module, or IMPORT, to the statements that bind it."""
        if module not in self.modules:
            names = self.modules[module] = {IMPORT: []}
            for node in ast.parse(self.find_file(module).read_bytes()).body:
                test = ast.unparse(node.test) if isinstance(node, ast.If) else ""
                statements = node.body if test.endswith("TYPE_CHECKING") else [node]
                for statement in statements if "__main__" not in test else []:
                    for name in bound_names(statement) or {IMPORT}:
                        names.setdefault(name, []).append(statement)
        return self.modules[module]

    def import_paths(self, module: str, node: ast.Import | ast.ImportFrom) -> dict[str, str]:
        """Map each name that an import in a module binds to the absolute path of its meaning."""
        if isinstance(node, ast.Import):
            paths = {alias.asname: alias.name for alias in node.names}
            return {name: paths.get(name, name) for name in bound_names(node)}
        base = node.module
        if node.level:
            is_package = self.find_file(module).name == "__init__.py"
            parents = [self.root.name, *filter(None, module.split("."))]
            parents = parents[: len(parents) + is_package - node.level]
            base = ".".join([*parents, *filter(None, [node.module])])
        return {alias.asname or alias.name: f"{base}.{alias.name}" for alias in node.names}

    def resolve(self, module: str, path: str) -> Definition | str | None:
        """Find what a dotted name in a module means.

        That is a definition of the package, WHOLE for a module; the absolute path of something in
        another package; or None for a builtin or local name.
        """
        name, _, rest = path.partition(".")
        statements = self.bindings(module).get(name, [])
        submodule = f"{module}.{name}".strip(".")
        if not name:
            return Definition(module, WHOLE)
        if len(statements) == 1 and is_import(statements[0]):
            target = self.import_paths(module, statements[0])[name]
            if target != f"{self.root.name}.{submodule}":  # as `from . import name` in a package
                return self.resolve_absolute(f"{target}.{rest}".rstrip("."))
        elif statements:
            return Definition(module, name)
        return self.resolve(submodule, rest) if self.find_file(submodule) else None

    def resolve_absolute(self, path: str) -> Definition | str | None:
        """Find what an absolute dotted path means."""
        first, _, rest = path.partition(".")
        return self.resolve("", rest) if first == self.root.name else path

    def references(self, module: str, node: ast.AST) -> Iterator[tuple[str, Definition | str]]:
        """Yield each dotted name in a statement that is bound outside of it, with its meaning."""
        if is_import(node):
            for path in self.import_paths(module, node).values():
                if target := self.resolve_absolute(path):
                    yield path, target
        elif path := dotted_name(node):
            # A function may have imported the package itself.
            is_absolute = path.startswith(f"{self.root.name}.")
            if target := self.resolve_absolute(path) if is_absolute else self.resolve(module, path):
                yield path, target
        else:
            for child in ast.iter_child_nodes(node):
                yield from self.references(module, child)

    def is_section(self, module: str, node: ast.ClassDef) -> bool:
        """Return whether a class is a section of the config."""
        bases = [self.resolve(module, dotted_name(base) or "?") for base in node.bases]
        return (module, node.name) == SECTION or any(
            isinstance(statement, ast.ClassDef) and self.is_section(base.module, statement)
            for base in bases
            if isinstance(base, Definition)
            for statement in self.bindings(base.module).get(base.name, [])
        )

    def entries(self) -> dict[str, ast.Call]:
        """List the entries of the registry by name."""
        (statement,) = self.bindings(REGISTRY.module)[REGISTRY.name]
        calls = [node for node in ast.walk(statement) if isinstance(node, ast.Call)]
        return {call.args[0].value: call for call in calls if dotted_name(call.func) == ENTRY_CLASS}

    def normalise(self, definition: Definition) -> tuple[str, set[Definition]]:
        """Return what a definition does, as a text, and the definitions that it refers to."""
        module, (name, _, key) = definition.module, definition.name.partition("[")
        names = self.bindings(module)
        if name == WHOLE:
            return "", {Definition(module, each) for each in names}
        if definition not in self.normalised:
            statements = [self.entries()[key[:-1]]] if key else names[name]
            # The registry itself counts by its entries. Statements are copied, as they are changed.
            copy = pickle.loads(pickle.dumps(statements if definition != REGISTRY else []))
            normaliser = StatementNormaliser(functools.partial(self.is_section, module))
            tree = normaliser.visit(ast.Module(copy, []))
            trees = [tree, *normaliser.annotations]
            pairs = {pair for node in trees for pair in self.references(module, node)}
            targets = {target for _, target in pairs if isinstance(target, Definition)}
            counted = [pair for pair in pairs if not is_excluded(getattr(pair[1], "module", ""))]
            text = f"{ast.dump(tree)} {sorted(map(str, counted))}" if tree.body else ""
            if name == IMPORT:
                imports = [one for group in names.values() for one in group if is_import(one)]
                pairs = {pair for one in imports for pair in self.references(module, one)}
                modules = {target.module for _, target in pairs if isinstance(target, Definition)}
                targets |= {Definition(imported, IMPORT) for imported in modules}
            self.normalised[definition] = text, targets
        return self.normalised[definition]

    def _closure(self, entry: str) -> dict[Definition, str]:
        """Map every definition that a stage depends on to its text."""
        module, _, name = entry.partition(":")
        start = self.resolve(module, name or "main") if self.find_file(module) else None
        if name.endswith("]") and name.partition("[")[2][:-1] in self.entries():
            start = Definition(module, name)
        if not isinstance(start, Definition) or start.name == WHOLE:
            raise LookupError(f"{entry} is no definition of {self.root.name}")
        texts: dict[Definition, str] = {}
        queue = [start]
        for definition in queue:
            if definition not in texts and not is_excluded(definition.module):
                texts[definition], targets = self.normalise(definition)
                queue += [*targets, Definition(definition.module, IMPORT)]
        return texts

    def _hash(self, entry: str) -> str:
        """Hash the names and texts of all that a stage depends on."""
        texts = sorted((name, text) for name, text in self.closure(entry).items() if text)
        return hash_texts(*(f"{name} {text}".encode() for name, text in texts))[:16]


@functools.cache
def source() -> PackageSource:
    """Return the package as it is when this process first needs it."""
    return PackageSource()


def code_hash(entry: str) -> str:
    """Hash the code of MODULE:FUNCTION; LookupError if there is none.

    A user's function is hashed by its files as they are now.
    """
    if entry.startswith(f"{USER_PREFIX}."):
        return hash_user_code(entry.removeprefix(f"{USER_PREFIX}."))
    return source().hash(entry)


def calls_registry_entries(stage: str) -> bool:
    """Return whether a stage calls functions of registry entries, and does not only name some."""
    texts, attribute = source().closure(stage), f"attr={ENTRY_FUNCTION!r}"
    return REGISTRY in texts and any(attribute in text for text in texts.values())


def registry_entries(stages: Iterable[str], names: Set[str]) -> list[str]:
    """List the registry entries that stages may use and names contain, and user's functions."""
    uses_registry = any(REGISTRY in source().closure(stage) for stage in stages)
    keys = names & source().entries().keys() if uses_registry else set()
    user_functions = {name for name in names if name.startswith(f"{USER_PREFIX}.")}
    return sorted({f"{REGISTRY.module}:{REGISTRY.name}[{key}]" for key in keys} | user_functions)


def is_excluded(module: str) -> bool:
    """Return whether no hash contains a module."""
    return any(f"{module}.".startswith(f"{name}.") for name in EXCLUDED_MODULES)


def is_registry_entry(name: str) -> bool:
    """Return whether code is an entry of the registry, or a user's function."""
    return name.endswith("]") or name.startswith(f"{USER_PREFIX}.")


def iter_strings(config: Any) -> Iterator[str]:
    """Yield every text in plain values, and user's functions by their names for `code_hash`."""
    if isinstance(config, dict):
        for key in USER_KEYS:
            if isinstance(value := config.get(key), str) and USER_FUNCTION_RE.fullmatch(value):
                yield f"{USER_PREFIX}.{value}"
        config = list(config.values())
    if isinstance(config, list):
        for item in config:
            yield from iter_strings(item)
    elif isinstance(config, str):
        yield config


def read_accepted(results: Path) -> list[dict[str, Any]]:
    """Read the accepted code hashes; RarefeatError if the file was changed by hand."""
    path = results / ACCEPTED
    if not path.exists():
        return []
    verify(path)
    try:
        return json.loads(path.read_text(encoding="utf-8"))["accepted"]
    except (ValueError, KeyError, TypeError) as error:
        raise read_error(path, ValueError("it is damaged, and lists nothing accepted")) from error


def accepted_hash(value: str, stage: str, accepted: Iterable[Mapping[str, Any]]) -> str:
    """Map a code hash to the earliest one that it was accepted as equivalent to.

    Parameters
    ----------
    value : str
        Current hash of the stage, which is returned if nothing was accepted for it.
    stage : str
        The stage, as `code_hash` takes it.
    accepted : iterable of mappings
        Entries of `read_accepted`.
    """
    for entry in reversed(list(accepted)):
        if (entry["stage"], entry["now"]) == (stage, value):
            value = entry["before"]
    return value


def hash_texts(*texts: bytes) -> str:
    """Hash several texts as one."""
    return hashlib.sha256(b"".join(hashlib.sha256(text).digest() for text in texts)).hexdigest()
