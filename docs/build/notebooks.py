"""Notebooks of docs/gallery, one for each of its scripts, to be downloaded and run."""

import ast
from pathlib import Path

import nbformat

GALLERY = Path(__file__).parents[1] / "gallery"


def notebook(script: str) -> str:
    """Return a script as a notebook: its docstring and the comments after `# %%` are its text."""
    head, *blocks = script.split("\n# %%\n")
    title, _, *text = (ast.get_docstring(ast.parse(head)) or "").splitlines()
    cells = [nbformat.v4.new_markdown_cell("\n".join([f"# {title}", *text]))]
    code = head.split('"""', 2)[2]
    for block in (code, *blocks):
        lines = block.strip("\n").split("\n")
        n = next((i for i, line in enumerate(lines) if not line.startswith("#")), len(lines))
        n = 0 if block is code else n
        if text := "\n".join(line.removeprefix("#").strip() for line in lines[:n]):
            cells.append(nbformat.v4.new_markdown_cell(text))
        if body := "\n".join(lines[n:]).strip("\n"):
            cells.append(nbformat.v4.new_code_cell(body))
    for i, cell in enumerate(cells):
        cell["id"] = f"cell-{i}"
    return nbformat.writes(nbformat.v4.new_notebook(cells=cells)) + "\n"


def notebooks() -> dict[Path, str]:
    """Return every notebook by its path."""
    return {
        path.with_suffix(".ipynb"): notebook(path.read_text(encoding="utf-8"))
        for path in sorted(GALLERY.glob("plot_*.py"))
    }


if __name__ == "__main__":
    for path, text in notebooks().items():
        path.write_text(text, encoding="utf-8")
