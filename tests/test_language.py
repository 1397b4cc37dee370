"""Names, docstrings and tests follow the style guide: no debt of a kind that was paid off."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCES = [path for path in sorted((ROOT / "src").rglob("*.py")) if "shipped" not in path.parts]
TESTS = sorted((ROOT / "tests").rglob("*.py"))
BANNED = """
found told said made drawn redrawn kept given seen moved known called held asked claimed browsed
declared measured through unsaid own now there here what how whole part parts of at by alike
""".split()  # noqa: SIM905
FRAGMENT = re.compile(r"(Of|What|Who|Where|Which|How|When|Why|Whether|Those|Its|As|See|With)\b")
MAX_TEST_NAME = 60
MIN_DOCUMENTED = 3
"""Number of parameters from which on a function describes them."""


def nodes(paths: list[Path]) -> Iterator[tuple[Path, ast.AST]]:
    """Yield every node of some files."""
    for path in paths:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            yield path.relative_to(ROOT), node


def defined_name(node: ast.AST) -> str:
    """Return the name that a node defines; empty where it defines none."""
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return node.name.lower()
    if isinstance(node, ast.arg):
        return node.arg
    is_variable = isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    return node.id if is_variable else ""


def banned_names() -> Iterator[str]:
    """Yield names that are participles, prepositions or pronouns."""
    for path, node in nodes(SOURCES):
        if (name := defined_name(node)) in BANNED:
            yield f"{path}:{node.lineno}: {name}"


def fragments() -> Iterator[str]:
    """Yield first lines of docstrings that have no verb."""
    for path, node in nodes(SOURCES):
        text = ast.get_docstring(node) if isinstance(node, ast.FunctionDef) else None
        if text and FRAGMENT.match(text):
            yield f"{path}:{node.lineno}: {text.splitlines()[0]}"


def undocumented_parameters() -> Iterator[str]:
    """Yield functions with a docstring, three or more parameters, and no section for these."""
    for path, node in nodes(SOURCES):
        text = ast.get_docstring(node) if isinstance(node, ast.FunctionDef) else None
        if text:
            names = [arg.arg for arg in (*node.args.args, *node.args.kwonlyargs)]
            many = len([name for name in names if name != "self"]) >= MIN_DOCUMENTED
            if many and "Parameters" not in text:
                yield f"{path}:{node.lineno}: {node.name}"


def long_test_names() -> Iterator[str]:
    """Yield names of tests that are sentences."""
    for path, node in nodes(TESTS):
        name = node.name if isinstance(node, ast.FunctionDef) else ""
        if name.startswith("test_") and len(name) > MAX_TEST_NAME:
            yield f"{path}:{node.lineno}: {name}"


@pytest.mark.parametrize(
    "debt", [banned_names, fragments, undocumented_parameters, long_test_names]
)
def test_language_has_no_debt(debt):
    assert list(debt()) == []
