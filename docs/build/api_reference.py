"""The page of the public Python interface, rendered from signatures and docstrings.

python docs/build/api_reference.py
"""

import ast
import inspect
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path

import rarefeat
from rarefeat.workflow.files.markdown import markdown_table
from rarefeat.workflow.files.sealed_files import write_file
from rarefeat.workflow.run.cli_helpers import run_main

MEMBERS = (
    "train", "sweep", "train_learners", "stream_pairs", "load", "load_encoder",
    "predict_critical_frequency", "read_table", "preset", "load_config", "Encoder", "Batch",
    "Sweep", "Learners", "Preset", "PruningContext", "BiasContext", "RarefeatError",
)  # fmt: skip
"""Public names in the order of the page."""
BEGIN = """# Python

```python
import rarefeat
```

The functions, the encoders and sweeps that they return, and what a
[rule of your own](../own_rule.md) receives. Everything else in the package belongs to the workflow
and may change; [the mathematics](core.md) is pure functions on tensors.
"""
SECTION = re.compile(r"^([A-Z][A-Za-z ]+)\n-{3,}\n", re.MULTILINE)
CODE = re.compile(r"(``.+?``|`.+?`)", re.DOTALL)


def escape(text: str) -> str:
    """Escape what Markdown takes for HTML, outside of code."""
    pieces = CODE.split(text)
    return "".join(
        piece if index % 2 else piece.replace("<", "&lt;").replace("*", "\\*")
        for index, piece in enumerate(pieces)
    )


def format_entries(body: str) -> list[str]:
    """Format entries of a numpydoc section, each a line with an indented text, as a list."""
    lines: list[str] = []
    for line in body.splitlines():
        if line and not line.startswith(" "):
            name, _, kind = line.partition(" : ")
            lines.append(f"- `{name}`" + (f" ({escape(kind)})" if kind else "") + ":")
        elif lines:
            lines[-1] += f" {escape(line.strip())}" if line.strip() else ""
    return [line.removesuffix(":") for line in lines]


def format_docstring(text: str) -> Iterator[str]:
    """Yield the lines of a numpydoc docstring as Markdown."""
    summary, *sections = SECTION.split(text)
    yield escape(summary.strip())
    for title, body in zip(sections[::2], sections[1::2], strict=True):
        body = body.strip("\n")
        yield from ("", f"**{title}**", "")
        if title == "Examples":
            yield from ("```python", body, "```")
        elif title in ("Parameters", "Returns", "Raises", "Attributes"):
            yield from format_entries(body)
        else:
            yield escape(body)


def signature(definition: ast.FunctionDef) -> str:
    """Return the signature of a function as source text, on one line or a line per parameter."""
    definition = ast.FunctionDef(
        definition.name, definition.args, [ast.Pass()], [], definition.returns, lineno=0
    )
    words = ast.unparse(definition).splitlines()[0].removeprefix("def ").removesuffix(":")
    words = re.sub(r"^(\w+\()self(, )?", r"\1", words)
    if len(words) <= 100:
        return words
    # A parameter begins after a comma outside of brackets.
    depth, result = 0, ""
    for letter in words:
        depth += (letter in "([") - (letter in ")]")
        result += ",\n   " if letter == "," and depth == 1 else letter
    return result.replace("(", "(\n    ", 1).replace(") ->", "\n) ->")


def attributes(definition: ast.ClassDef) -> list[tuple[str, str, str]]:
    """Return name, type and description of the documented fields and properties of a class."""
    rows = []
    for node, after in zip(definition.body, [*definition.body[1:], None], strict=True):
        if isinstance(node, ast.AnnAssign) and isinstance(after, ast.Expr):
            rows.append((node.target.id, ast.unparse(node.annotation), after.value.value))
        is_property = isinstance(node, ast.FunctionDef) and any(
            "property" in ast.unparse(decorator) for decorator in node.decorator_list
        )
        if is_property and not node.name.startswith("_") and ast.get_docstring(node):
            kind = ast.unparse(node.returns) if node.returns else ""
            rows.append((node.name, kind, ast.get_docstring(node)))
    return [
        (f"`{name}`", f"`{kind}`".replace("|", "\\|"), " ".join(escape(text).split()))
        for name, kind, text in rows
    ]


def methods(definition: ast.ClassDef) -> Iterator[ast.FunctionDef]:
    """Yield the documented public methods of a class."""
    for node in definition.body:
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
            is_plain = not any("property" in ast.unparse(item) for item in node.decorator_list)
            if is_plain and ast.get_docstring(node):
                yield node


def describe(definition: ast.FunctionDef | ast.ClassDef, level: int, owner: str) -> Iterator[str]:
    """Yield the lines of a function or a class with its fields and methods."""
    name = f"{owner}{definition.name}"
    yield from ("", f"{'#' * level} {name}", "")
    if isinstance(definition, ast.FunctionDef):
        yield from ("```python", signature(definition), "```", "")
    yield from format_docstring(ast.get_docstring(definition) or "")
    if isinstance(definition, ast.ClassDef):
        if rows := attributes(definition):
            yield from ("", markdown_table(("field", "type", "description"), *rows))
        for method in methods(definition):
            yield from describe(method, level + 1, f"{definition.name}.")


def api_page() -> str:
    """Render docs/reference/api.md."""
    lines = [BEGIN.rstrip()]
    for name in MEMBERS:
        source = textwrap.dedent(inspect.getsource(getattr(rarefeat, name)))
        lines += describe(ast.parse(source).body[0], 2, "rarefeat.")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Write the page."""
    write_file(Path("docs/reference/api.md"), api_page())


if __name__ == "__main__":
    run_main(main)
