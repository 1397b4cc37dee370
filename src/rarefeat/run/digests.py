"""What a stage does, as one digest: its function and every definition that this reaches, across modules.

A definition is what binds a name at the top of a module: a function, a class, a constant. From the stage's function the global
names are followed that its bytecode reads, in every definition that they lead to. Of a class of the package those methods count
whose name is asked of some object on the way: a property of a section of the config is in the digest of what reads it, and of
nothing else. Who computes a name for `getattr` asks for all methods of all classes on the way; other ways to a definition
without its name are told (`Reach.dynamic`), and a test refuses them.

Left out is what sets no number: comments, docstrings, annotations, `print`, texts of errors and for people; of a section of the
config its fields and validators, since a job is told their values; and the modules that only run jobs or move bytes (APART).
Definitions are numbered as they are met, so that another name or another module for one changes nothing.
"""

import ast
import dis
import functools
import hashlib
import json
import pickle
import re
from collections.abc import Iterable, Iterator, Mapping, Set
from pathlib import Path
from types import CodeType
from typing import Any, NamedTuple

from rarefeat.core.own import OWN
from rarefeat.storage.files import unreadable, verify

PACKAGE = Path(__file__).parents[1]
ENTRY = "main"
"""The function of a stage's module, where none is named."""
APART = (
    "core.own",
    "run",
    "registry",
    "project",
    "kind",
    "storage.contents",
    "storage.files",
    "storage.origin",
    "storage.tensors",
)
"""Packages and modules that run jobs, move bytes, declare what is made or load a user's own: no number comes from them.

`run/make.py` sets torch to one thread, and writes rows as they are: in a digest it would be in that of every table, so
tests/run/test_make.py holds it to both instead.
"""
SECTION = "config.section:Section"
"""Base of the sections of the config."""
FOR_PEOPLE = ("description", "help")
"""Arguments that are texts for people, of the functions that DECLARE; so are those of `described` (storage/schema.py)."""
DECLARE = ("Field", "column", "Column", "DataFrameSchema", "ArgumentParser", "add_argument")
DYNAMIC = ("globals", "vars", "eval", "exec", "__import__", "import_module", "attrgetter", "methodcaller")
"""Functions that may reach a definition without its name; the last three also as attributes of a module."""
REGISTRIES = {"core.arms:ARMS": ("core.arms:NamedArm", ("label", "description", "look"), "rule")}
"""Definitions that hold entries by name, with the class of these, its fields for people and the one that is a function: a job
depends on the entries that its config names (`entries_of`), and on no other."""
OURS = "own"
"""Stands before the modules of a user's own, of files in the working directory, that entries and definitions are named by."""
PLAIN = ("NamedTuple", "object", "Protocol")
"""Bases from outside of the package that call no method of a class."""


class Definition(NamedTuple):
    """What binds a name at the top of a module, which is named from the package's root."""

    module: str
    name: str

    def __str__(self) -> str:
        return f"{self.module}:{self.name}"


class Part(NamedTuple):
    """A statement of a module as digests see it."""

    text: str
    """What it does, with ⟦MODULE:NAME⟧ for every definition that it names."""
    asked: set[str]
    """Names that it asks of objects."""
    types: dict[Definition, None]
    """Classes that its annotations name."""
    computes: bool
    """Whether it asks an object for a name that it computes."""
    dynamic: list[str]
    """Where it may reach a definition without its name."""


EMPTY = Part("", set(), {}, False, [])
REFERENCE = re.compile("⟦([^:⟧]*):([^⟧]*)⟧")


class Source:
    """The package's modules, read once."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.bound: dict[str, dict[str, list[ast.stmt]]] = {}
        self.effects: dict[str, list[ast.stmt]] = {}
        self.parts: dict[int, Part] = {}
        self.held: dict[Definition, dict[str, ast.Expr]] = {}
        self.files: dict[str, Path | None] = {}

    def file(self, module: str) -> Path | None:
        """The file of a module; None where there is none."""
        if module not in self.files:
            own, _, rest = module.partition(".")
            place = self.root.joinpath(*module.split(".")) if module else self.root
            paths = (place / "__init__.py", place.with_suffix(".py"))
            if own == OURS:
                paths = (Path.cwd().joinpath(*rest.split(".")).with_suffix(".py"),) if rest else ()
            self.files[module] = next((path for path in paths if path.is_file()), None)
        return self.files[module]

    def read(self, module: str) -> None:
        """Note a module's statements by the names that they bind, and those that have an effect alone."""
        if module in self.bound:
            return
        self.bound[module], self.effects[module] = {}, []
        for node in statements_in(ast.parse(self.file(module).read_text(encoding="utf-8")).body):
            names = () if is_start(node) else tuple(names_bound(node))
            for name in names:
                self.bound[module].setdefault(name, []).append(node)
            if not names and not is_start(node) and not is_text(node):
                self.effects[module].append(node)

    def resolve(self, module: str, name: str) -> Definition | str | None:
        """What a name in a module stands for: a definition, a module of the package, or None for what is not of it."""
        self.read(module)
        statements = self.bound[module].get(name)
        if statements is None:
            inside = f"{module}.{name}".removeprefix(".")
            return inside if self.file(inside) else None
        if len(statements) > 1 or not isinstance(statements[0], ast.Import | ast.ImportFrom):
            return Definition(module, name)
        return self.imported(module, statements[0], name)

    def imported(self, module: str, node: ast.Import | ast.ImportFrom, name: str) -> Definition | str | None:
        """What an import in a module binds a name to."""
        alias = next(item for item in node.names if (item.asname or item.name.partition(".")[0]) == name)
        if isinstance(node, ast.Import):
            return self.inside(module, alias.name if alias.asname else name)
        base = self.inside(module, node.module or "")
        if node.level:
            package = module.split(".") if self.file(module).name == "__init__.py" else module.split(".")[:-1]
            base = ".".join([*package[: len(package) + 1 - node.level], *([node.module] if node.module else [])])
        if base is None or self.file(base) is None:
            return None
        if base == module:  # a package and its own module
            return f"{base}.{alias.name}"
        return self.resolve(base, alias.name)

    def elsewhere(self, module: str, name: str) -> str:
        """The whole name of what a module imports from another package, or the name itself."""
        self.read(module)
        for node in self.bound[module].get(name, ()):
            for alias in node.names if isinstance(node, ast.Import | ast.ImportFrom) else ():
                if (alias.asname or alias.name.partition(".")[0]) == name:
                    base = f"{node.module}." if isinstance(node, ast.ImportFrom) else ""
                    return f"{base}{alias.name}" if base or alias.asname else name
        return name

    def inside(self, module: str, name: str) -> str | None:
        """A module from the package's root, or of a user's own as seen from one; None where it is of another package."""
        first, _, rest = name.partition(".")
        if first == self.root.name:
            return rest
        return own if module.startswith(f"{OURS}.") and self.file(own := f"{OURS}.{name}") else None

    def statements(self, found: Definition) -> list[ast.stmt]:
        """The statements that bind a definition's name."""
        self.read(found.module)
        return self.bound[found.module][found.name]

    def effects_of(self, module: str) -> list[ast.stmt]:
        """The statements of a module that bind no name."""
        self.read(module)
        return self.effects[module]

    def entries(self, registry: Definition) -> dict[str, ast.Expr]:
        """The entries of a registry by name, without what is there for people."""
        if registry in self.held:
            return self.held[registry]
        kind, for_people, _ = REGISTRIES[str(registry)]
        module, _, name = kind.partition(":")
        (declared,) = self.statements(Definition(module, name))
        fields = [part.target.id for part in declared.body if isinstance(part, ast.AnnAssign)]
        # Kept, since parts are known by the identity of their nodes.
        found = self.held.setdefault(registry, {})
        for statement in self.statements(registry):
            for node in ast.walk(statement):
                if isinstance(node, ast.Call) and self.target(registry.module, node.func) == Definition(module, name):
                    given = dict(zip(fields, node.args, strict=False)) | {item.arg: item.value for item in node.keywords}
                    kept = [ast.keyword(key, value) for key, value in given.items() if key not in for_people]
                    entry = ast.copy_location(ast.Expr(ast.Call(node.func, [], kept)), node)
                    found[given["name"].value] = ast.fix_missing_locations(entry)
        return found

    def target(self, module: str, node: ast.expr) -> Definition | str | None:
        """What a name in a module, or an attribute of a module, stands for."""
        if isinstance(node, ast.Name):
            return self.resolve(module, node.id)
        if isinstance(node, ast.Attribute):
            base = self.target(module, node.value)
            return self.resolve(base, node.attr) if isinstance(base, str) else None
        return None

    def classes(self, module: str, annotation: ast.expr, seen: frozenset[Definition] = frozenset()) -> Iterator[Definition]:
        """The classes that an annotation names, also by another name for several."""
        if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
            annotation = ast.parse(annotation.value, mode="eval").body
        for node in ast.walk(annotation):
            found = self.target(module, node) if isinstance(node, ast.Name | ast.Attribute) else None
            if isinstance(found, Definition) and not is_apart(found.module) and found not in seen:
                for statement in self.statements(found):
                    if isinstance(statement, ast.ClassDef):
                        yield found
                    elif isinstance(statement, ast.Assign | ast.AnnAssign) and statement.value:
                        yield from self.classes(found.module, statement.value, seen | {found})

    def bases(self, found: Definition) -> Iterator[Definition | str]:
        """The bases of a class: definitions, or their names where they are not of the package."""
        for node in self.statements(found):
            for base in node.bases if isinstance(node, ast.ClassDef) else ():
                target = self.target(found.module, base)
                yield target if isinstance(target, Definition) else ast.unparse(base).partition("[")[0].rpartition(".")[2]

    def is_section(self, found: Definition) -> bool:
        """Whether a class is a section of the config."""
        return str(found) == SECTION or any(
            isinstance(base, Definition) and self.is_section(base) for base in self.bases(found)
        )

    def is_called(self, found: Definition) -> bool:
        """Whether a base of a class from outside of the package may call its methods, as torch calls `forward`."""
        if str(found) == SECTION:
            return False
        return any(self.is_called(base) if isinstance(base, Definition) else base not in PLAIN for base in self.bases(found))

    def part(self, found: Definition, node: ast.stmt) -> Part:
        """A statement of a definition, or a method; of a class what is no method, and of a section its constants alone."""
        if id(node) not in self.parts:
            name = node.name if isinstance(node, ast.FunctionDef) and node.name != found.name else ""
            place = f"{found}.{name}" if name else str(found)
            if not isinstance(node, ast.ClassDef):
                whole = node
            else:
                body = [part for part in node.body if not isinstance(part, ast.FunctionDef)]
                if self.is_section(found):
                    body = [bare_field(part) for part in body if is_field(part) or is_constant(part)]
                whole = ast.ClassDef(node.name, node.bases, node.keywords, body or [ast.Pass()], node.decorator_list)
                ast.fix_missing_locations(whole)
            # A copy, since what follows changes it; by pickle, the fastest one of a tree.
            fresh = pickle.loads(pickle.dumps(ast.Module([whole], [])))
            names, asked = names_read(compile(fresh, place, "exec"))
            # Whichever of several names led here, all that a statement binds are its own.
            own = {found.name} if name else {found.name, *names_bound(node)}
            bare = Bare(self, found.module, place, names | own)
            bare.visit(fresh)
            if isinstance(node, ast.ClassDef) and self.is_section(found):
                fresh.body[0].body = [part for part in fresh.body[0].body if getattr(part, "value", None)]
            self.parts[id(node)] = Part(ast.dump(fresh), asked | bare.asked, bare.types, bare.computes, bare.dynamic)
        return self.parts[id(node)]


class Bare(ast.NodeTransformer):
    """Leaves of a statement what sets numbers; one use each."""

    def __init__(self, source: "Source", module: str, place: str, names: set[str]) -> None:
        self.source, self.module, self.place, self.names = source, module, place, names
        self.asked: set[str] = set()
        self.types: dict[Definition, None] = {}
        self.computes = False
        self.dynamic: list[str] = []

    def named(self, node: ast.expr) -> ast.AST:
        """What stands for a name, or an attribute of a module: the definition; itself where that is apart or none of ours."""
        base = node
        while isinstance(base, ast.Attribute):
            base = base.value
        target = self.source.target(self.module, node) if isinstance(base, ast.Name) and base.id in self.names else None
        if isinstance(target, str) and not is_apart(target):
            self.dynamic.append(f"{self.place}: the module {target} as a value")
        if isinstance(target, Definition):
            return ast.Name(target.name if is_apart(target.module) else f"⟦{target}⟧")
        if isinstance(node, ast.Attribute) and (node.attr == "__dict__" or ast.unparse(node) == "sys.modules"):
            self.dynamic.append(f"{self.place}: {ast.unparse(node)}")
        if isinstance(node, ast.Name) and node.id in self.names:
            return ast.Name(self.source.elsewhere(self.module, node.id))
        return node if isinstance(node, ast.Name) else self.generic_visit(node)

    visit_Name = visit_Attribute = named

    def note(self, annotation: ast.expr | None) -> None:
        """Note the classes that an annotation names."""
        self.types.update(dict.fromkeys(self.source.classes(self.module, annotation)) if annotation else {})

    def visit_arg(self, node: ast.arg) -> ast.AST:
        """An argument without its annotation."""
        self.note(node.annotation)
        return ast.arg(node.arg)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        """A function without annotations, and without its own name where it is a definition."""
        self.note(node.returns)
        node.returns = None
        if node.name in self.names:
            node.name = self.named(ast.Name(node.name)).id
        return self.generic_visit(node)

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        """A class without its own name."""
        node.name = ""
        return self.generic_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        """A value without its annotation."""
        self.note(node.annotation)
        node.annotation = ast.Constant(None)
        return self.generic_visit(node)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> ast.AST:
        """An import within a function."""
        targets = [self.source.imported(self.module, node, alias.asname or alias.name) for alias in node.names]
        ours = [target for target in targets if target is not None and not is_apart(getattr(target, "module", target))]
        self.dynamic += [f"{self.place}: imports the module {target}" for target in ours if isinstance(target, str)]
        numbered = [ast.Name(f"⟦{target}⟧") for target in ours if isinstance(target, Definition)]
        return ast.Expr(ast.Tuple(numbered)) if numbered else node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """A call without its texts for people."""
        called = getattr(node.func, "id", getattr(node.func, "attr", ""))
        if called in DYNAMIC and (isinstance(node.func, ast.Name) or called in DYNAMIC[-3:]):
            self.dynamic.append(f"{self.place}: {ast.unparse(node)}")
        if called == "getattr" and len(node.args) > 1:
            name = node.args[1]
            self.asked |= {name.value} if isinstance(name, ast.Constant) else set()
            self.computes |= not isinstance(name, ast.Constant)
        if called == "described":
            node.keywords = [ast.keyword(item.arg, ast.Constant("")) for item in node.keywords]
        if called == "progress":
            node.args, node.keywords = node.args[:1], []
        if called in DECLARE:
            node.keywords = [item for item in node.keywords if item.arg not in FOR_PEOPLE]
        return self.generic_visit(node)

    def visit_Raise(self, node: ast.Raise) -> ast.AST:
        """An error, whatever it says."""
        return ast.Raise()

    def visit_Expr(self, node: ast.Expr) -> ast.AST | None:
        """No text that stands alone, and nothing that is printed."""
        printed = isinstance(node.value, ast.Call) and getattr(node.value.func, "id", "") == "print"
        return None if is_text(node) or printed else self.generic_visit(node)


class Reach:
    """All that is reached from some entries, in the order in which it is met."""

    def __init__(self, source: Source, *entries: str) -> None:
        self.source = source
        self.numbers: dict[Definition, int] = {}
        self.parts: list[tuple[str, Part]] = []
        """With the name of a method, or what a definition is another name of."""
        self.methods: dict[tuple[int, str], list[tuple[Definition, ast.stmt]]] = {}
        """Of the classes met, those not asked for so far."""
        self.asked: set[str] = set()
        self.queue: list[Definition] = []
        modules: set[str] = set()
        for entry in entries:
            module, _, name = entry.partition(":")
            name, _, key = name.removesuffix("]").partition("[")
            found = source.resolve(module, name or ENTRY) if source.file(module) else None
            if not isinstance(found, Definition) or (key and key not in source.entries(found)):
                raise LookupError(f"{entry} is no definition of {source.root.name}")
            if key:
                self.keep(key, source.part(found, source.entries(found)[key]))
            else:
                self.number(found)
        while (found := self.next()) is not None:
            self.add(found)
            # What modules do when they are imported.
            places = found.module.split(".")
            for module in {".".join(places[: depth + 1]): None for depth in range(len(places))}.keys() - modules:
                modules.add(module)
                if self.source.file(module) is None:
                    continue
                for node in source.effects_of(module):
                    self.keep("", source.part(Definition(module, ""), node))

    def number(self, found: Definition) -> str:
        """What stands for a definition."""
        if found not in self.numbers:
            self.numbers[found] = len(self.numbers)
            self.queue.append(found)
        return f"#{self.numbers[found]}"

    def next(self) -> Definition | None:
        """The next definition to add: those that are named, and once there is none more the classes of objects."""
        while not self.queue:
            computed = any(part.computes for _, part in self.parts)
            if key := min((key for key in self.methods if computed or key[1] in self.asked), default=None):
                for found, node in self.methods.pop(key):
                    self.keep(key[1], self.source.part(found, node))
            elif typed := next((item for _, part in self.parts for item in part.types if item not in self.numbers), None):
                self.number(typed)
            else:
                return None
        return self.queue.pop(0)

    def add(self, found: Definition) -> None:
        """A definition; of a class its methods are kept until they are asked for."""
        if str(found) in REGISTRIES:
            return
        for node in self.source.statements(found):
            if isinstance(node, ast.ClassDef):
                section, called = self.source.is_section(found), self.source.is_called(found)
                for method in methods_of(node):
                    if section and any("validator" in ast.unparse(one) for one in method.decorator_list):
                        continue
                    self.methods.setdefault((self.numbers[found], method.name), []).append((found, method))
                    if called or method.name.startswith("__"):
                        self.asked.add(method.name)
                self.keep("", self.source.part(found, node))
            elif not isinstance(node, ast.Import | ast.ImportFrom):
                self.keep("", self.source.part(found, node))
            elif isinstance(target := self.source.imported(found.module, node, found.name), Definition):
                self.keep(f"{self.number(found)} is {self.number(target)}", EMPTY)

    def keep(self, name: str, part: Part) -> None:
        """Note a part, and number what it names."""
        for module, found in re.findall(REFERENCE, part.text):
            self.number(Definition(module, found))
        self.asked |= part.asked
        self.parts.append((name, part))

    @property
    def runs(self) -> bool:
        """Whether a function of an entry of a registry is called, or may be, and not just its name."""
        return any(
            f"⟦{registry}⟧" in part.text and function in part.asked
            for registry, (*_, function) in REGISTRIES.items()
            for _, part in self.parts
        )

    @property
    def dynamic(self) -> list[str]:
        """Where a definition may be reached without its name."""
        return [place for _, part in self.parts for place in part.dynamic]

    @property
    def digest(self) -> str:
        """Of all parts."""
        numbered = (
            re.sub(REFERENCE, lambda found: self.number(Definition(*found.groups())), part.text) for _, part in self.parts
        )
        return digest(*(f"{name} {text}".encode() for (name, _), text in zip(self.parts, numbered, strict=True)))[:16]


def methods_of(node: ast.ClassDef) -> list[ast.FunctionDef]:
    """The methods of a class."""
    return [part for part in node.body if isinstance(part, ast.FunctionDef)]


def statements_in(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements of a module, with what is there for annotations alone as if it were always."""
    for node in body:
        yield from node.body if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING") else [node]


def is_field(node: ast.stmt) -> bool:
    """Whether a statement in a section of the config declares a key, whose value jobs are told."""
    return isinstance(node, ast.AnnAssign) and not re.search(r"\b(ClassVar|Final)\b", ast.unparse(node.annotation))


def is_constant(node: ast.stmt) -> bool:
    """Whether a statement in a section of the config says what no key does."""
    return not (is_text(node) or isinstance(node, ast.Pass) or is_field(node) or "model_config" in names_bound(node))


def bare_field(node: ast.stmt) -> ast.stmt:
    """A statement in a section of the config, of a field without its value."""
    return ast.AnnAssign(node.target, node.annotation, None, node.simple) if is_field(node) else node


def names_bound(node: ast.stmt) -> Iterator[str]:
    """The names that a statement at the top of a module binds."""
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        yield node.name
    elif isinstance(node, ast.Import | ast.ImportFrom):
        yield from (alias.asname or alias.name.partition(".")[0] for alias in node.names)
    elif isinstance(node, ast.If | ast.Try | ast.With | ast.For | ast.While):
        blocks = [getattr(node, block, []) for block in ("body", "orelse", "finalbody")]
        blocks += [handler.body for handler in getattr(node, "handlers", [])]
        yield from (name for block in blocks for inner in block for name in names_bound(inner))
    else:
        yield from (part.id for part in ast.walk(node) if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store))


def names_read(code: CodeType) -> tuple[set[str], set[str]]:
    """The global names that bytecode reads, and the names that it asks of objects, with what is nested in it."""
    names: set[str] = set()
    asked: set[str] = set()
    for instruction in dis.get_instructions(code):
        if instruction.opname in ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS"):
            names.add(instruction.argval)
        elif instruction.opname.startswith(("LOAD_ATTR", "LOAD_METHOD", "LOAD_SUPER")):
            asked.add(instruction.argval)
    for part in code.co_consts:
        if isinstance(part, CodeType):
            more = names_read(part)
            names, asked = names | more[0], asked | more[1]
    return names, asked


def is_text(node: ast.stmt) -> bool:
    """Whether a statement is a text that stands alone, such as a docstring."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def is_start(node: ast.stmt) -> bool:
    """Whether a statement runs a module as a program."""
    return isinstance(node, ast.If) and "__main__" in ast.unparse(node.test)


def is_apart(module: str) -> bool:
    """Whether a module is in no digest."""
    return any(module == one or module.startswith(f"{one}.") for one in APART)


@functools.cache
def source() -> Source:
    """The package as it is when this process first asks."""
    return Source(PACKAGE)


@functools.cache
def code_and_registries(entry: str) -> tuple[str, tuple[Definition, ...], bool]:
    """The digest of a stage, the registries that it reaches, and whether it runs functions of their entries."""
    reach = Reach(source(), entry)
    return reach.digest, tuple(found for found in reach.numbers if str(found) in REGISTRIES), reach.runs


def runs_entries(stage: str) -> bool:
    """Whether a stage runs functions of entries of registries, and does not just name some."""
    return code_and_registries(stage)[2]


def is_entry(name: str) -> bool:
    """Whether the code that a job came through is an entry of a registry, or a user's own rule."""
    return name.endswith("]") or name.startswith(f"{OURS}.")


def code(entry: str) -> str:
    """The digest of a stage: of a module's `main`, or of MODULE:NAME, and all that it reaches.

    A function of a user's own, own.MODULE:NAME, is read anew: who tries rules in a notebook edits its file in between.

    Raises:
        LookupError: where the package has no such definition.
    """
    return code_and_registries(entry)[0] if not entry.startswith(f"{OURS}.") else Reach(Source(PACKAGE), entry).digest


def entries_of(stages: Iterable[str], named: Set[str]) -> list[str]:
    """The entries of registries that some stages reach and some texts name, as MODULE:NAME[ENTRY], and a user's own, sorted."""
    reached = {registry for stage in stages for registry in code_and_registries(stage)[1]}
    found = [f"{registry}[{key}]" for registry in reached for key in source().entries(registry) if key in named]
    return sorted([*found, *(name for name in named if name.startswith(f"{OURS}."))])


def texts_in(config: Any) -> Iterator[str]:
    """Every text in plain values; and the functions of a user's own that they name as an arm or a rule, as entries."""
    if isinstance(config, dict):
        for key in ("arm", "rule"):
            if isinstance(value := config.get(key), str) and OWN.fullmatch(value):
                yield f"{OURS}.{value}"
        config = list(config.values())
    if isinstance(config, list):
        for part in config:
            yield from texts_in(part)
    elif isinstance(config, str):
        yield config


ACCEPTED = "accepted.json"
"""Below a folder of results: what manage/accept.py has recorded."""


def read_accepted(results: Path) -> list[dict[str, Any]]:
    """What was accepted for a folder of results: stage, digest before and now, date and sample of each, in order.

    Raises:
        RarefeatError: where the record is damaged or was changed by hand.
    """
    path = results / ACCEPTED
    if not path.exists():
        return []
    verify(path)
    try:
        return json.loads(path.read_text(encoding="utf-8"))["accepted"]
    except (ValueError, KeyError, TypeError) as error:
        raise unreadable(path, ValueError("it is damaged, and holds nothing that was accepted")) from error


def standing(digest: str, stage: str, accepted: Iterable[Mapping[str, Any]]) -> str:
    """The digest of a stage that stands for one that was accepted; itself where none does."""
    for entry in reversed(list(accepted)):
        if (entry["stage"], entry["now"]) == (stage, digest):
            digest = entry["before"]
    return digest


def digest(*texts: bytes) -> str:
    """One content hash of several texts."""
    return hashlib.sha256(b"".join(hashlib.sha256(text).digest() for text in texts)).hexdigest()
