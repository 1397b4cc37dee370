"""Two folders of results beside each other: keys that differ, and the same figures."""

import html
import os
from pathlib import Path

import yaml

from rarefeat.errors import RarefeatError
from rarefeat.workflow.files.sealed_files import write_file
from rarefeat.workflow.pages import document
from rarefeat.workflow.run.job import flat


def find_results(name: str, results: Path = Path("results")) -> Path:
    """Return a folder of results, by its path or by the key `name` of its config."""
    found = [path for path in (Path(name), results / name) if (path / "config.yaml").is_file()]
    if not found:
        raise RarefeatError(f"{name}: neither it nor {results / name} holds the results of a run")
    return found[0]


def read_settings(results: Path) -> dict[str, str]:
    """Return each key of the whole config of a run with its value."""
    text = (results / "config.yaml").read_text(encoding="utf-8")
    lines = flat(yaml.load(text, Loader=yaml.CSafeLoader))
    return dict(line.partition("=")[::2] for line in lines)


def differing_keys(first: Path, second: Path) -> list[tuple[str, str, str]]:
    """Return the keys whose values differ, with both values; `-` where a run has none."""
    one, other = map(read_settings, (first, second))
    keys = [key for key in {**one, **other} if key not in ("results", "name")]
    values = [(key, one.get(key, "-"), other.get(key, "-")) for key in keys]
    return [row for row in values if row[1] != row[2]]


def write_comparison(first: Path, second: Path) -> Path:
    """Write a page into the second folder: the keys that differ, and every figure of both."""
    target = second / f"beside_{first.name}.html"
    cells = "".join(
        f"<tr>{''.join(f'<td>{html.escape(text)}</td>' for text in row)}</tr>"
        for row in [("key", first.name, second.name), *differing_keys(first, second)]
    )
    names = {path.name for path in (first / "figures").glob("*.png")}
    shared = sorted(name for name in names if (second / "figures" / name).is_file())
    figures = "".join(
        f"<h2>{html.escape(name.removesuffix('.png'))}</h2>"
        + "".join(
            f'<img width="49%" alt="{html.escape(f"{name} of {folder.name}")}"'
            f' src="{html.escape(os.path.relpath(folder / "figures" / name, second))}">'
            for folder in (first, second)
        )
        for name in shared
    )
    title = f"{first.name} and {second.name}"
    write_file(target, document(title, f"<table>{cells}</table>{figures}"))
    return target
