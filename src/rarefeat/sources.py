"""The source files that a stage depends on, and content hashes."""

import ast
import functools
import hashlib
from pathlib import Path

PACKAGE = Path(__file__).parent


def sources(*modules: str) -> list[Path]:
    """Files of the package that the modules import, directly or not, themselves included; sorted.

    A module is named from the package's root, as in "pretrain" or "core.encoder".
    """
    found: set[Path] = set()
    waiting = [PACKAGE.joinpath(*module.split(".")).with_suffix(".py") for module in modules]
    while waiting:
        path = waiting.pop()
        if path in found:
            continue
        found.add(path)
        waiting += imported(path)
    return sorted(found)


@functools.cache
def imported(path: Path) -> list[Path]:
    """Files of the package that one of them imports."""
    files = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(PACKAGE.name):
            base = PACKAGE.parent.joinpath(*node.module.split("."))
            candidates = [base.with_suffix(".py"), *(base / f"{alias.name}.py" for alias in node.names)]
            files += [candidate for candidate in candidates if candidate.is_file()]
    return files


def digest(*texts: bytes) -> str:
    """One content hash of several texts."""
    return hashlib.sha256(b"".join(hashlib.sha256(text).digest() for text in texts)).hexdigest()
