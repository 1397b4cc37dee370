"""What a stage depends on: the modules that it imports, as one digest of what they do."""

import ast
import functools
import hashlib
from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path(__file__).parents[1]
APART = ("config", "run")
"""Packages that no digest holds: declarations of the config, whose values jobs are told, and how jobs are run."""
DECLARATIONS = ("config.py", "kind.py", "registry.py", "project.py")
"""Nor modules of these names, for the same reason."""
FOR_PEOPLE = ("description", "help", "caption", "title")
"""Nor arguments of these names, nor those of `described` (storage/schema.py): an edit changes no number."""


def closure(*modules: str) -> set[Path]:
    """Files of the package that the modules import, directly or not, themselves and the packages on the way included.

    A module is named from the package's root, as in "chain.pretrain".
    """
    found: set[Path] = set()
    waiting = [path for module in modules for path in on_the_way(module.split("."))]
    while waiting:
        path = waiting.pop()
        if path not in found:
            found.add(path)
            waiting += imported(path)
    return found


def source_files(*modules: str) -> list[Path]:
    """Files of the closure whose code is in the digest of a stage, sorted."""
    return sorted(path for path in closure(*modules) if not apart(path))


def apart(path: Path) -> bool:
    """Whether a file is in no digest."""
    inside = path.relative_to(PACKAGE)
    return inside.parts[0] in APART or inside.name in DECLARATIONS


def on_the_way(parts: list[str]) -> Iterator[Path]:
    """The file of a module and those of the packages that Python imports on the way to it."""
    for depth in range(len(parts) + 1):
        place = PACKAGE.joinpath(*parts[:depth])
        for candidate in (place / "__init__.py", place.with_suffix(".py")):
            if candidate.is_file():
                yield candidate


@functools.cache
def imported(path: Path) -> list[Path]:
    """Files of the package that one of them imports, however it says so."""
    package = [PACKAGE.name, *path.relative_to(PACKAGE).parts[:-1]]
    names = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = (
                ".".join([*package[: len(package) + 1 - node.level], *([node.module] if node.module else [])])
                if node.level
                else node.module
            )
            names += [base, *(f"{base}.{alias.name}" for alias in node.names)]
    inside = [name.split(".")[1:] for name in names if name.split(".")[0] == PACKAGE.name]
    return [found for parts in inside for found in on_the_way(parts)]


class Bare(ast.NodeTransformer):
    """Code without what is there for people."""

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """A call without its texts for people."""
        self.generic_visit(node)
        if isinstance(node.func, ast.Name) and node.func.id == "described":
            node.keywords = [ast.keyword(item.arg, ast.Constant("")) for item in node.keywords]
        node.keywords = [item for item in node.keywords if item.arg not in FOR_PEOPLE]
        return node

    def visit_Expr(self, node: ast.Expr) -> ast.AST | None:
        """No text that stands alone: a docstring."""
        if isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            return None
        return self.generic_visit(node)


def bare(text: str) -> bytes:
    """What a module does, without comments, docstrings and layout."""
    return ast.dump(Bare().visit(ast.parse(text))).encode()


@functools.cache
def code(stage: str) -> str:
    """The digest of a stage: of what its sources do."""
    return digest(*(bare(path.read_text(encoding="utf-8")) for path in source_files(stage)))[:16]


def digest(*texts: bytes) -> str:
    """One content hash of several texts."""
    return hashlib.sha256(b"".join(hashlib.sha256(text).digest() for text in texts)).hexdigest()
