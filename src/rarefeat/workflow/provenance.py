"""Show what made a file of the workflow.

Verify that results are whole and what their names say. Whether files are of today's config and
code is what `snakemake -n` says.
"""

import difflib
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rarefeat.errors import RarefeatError
from rarefeat.workflow.files.origin import KEY
from rarefeat.workflow.files.sealed_files import SEAL
from rarefeat.workflow.run.metadata import read_origin

INTERMEDIATE = re.compile(r"seeds=\d+-\d+\.(safetensors|parquet)")
"""Name of a file of one cell and block; a checkpoint of an unfinished training has a longer one."""


def show(path: str | Path) -> str:
    """Format what made a file: its metadata."""
    if not Path(path).exists():
        raise RarefeatError(f"{path} does not exist{suggest_files(Path(path))}")
    origin = read_origin(path)
    return json.dumps(origin, indent=2, ensure_ascii=False)


def suggest_files(path: Path) -> str:
    """Return which files beside a path, or of `results`, it may mean; empty if none is near."""
    kinds = ("tables", "figures", "pages")
    files = [*path.parent.glob("*"), *(f for k in kinds for f in Path("results").glob(f"**/{k}/*"))]
    files = [file for file in files if file.is_file()]
    stems = difflib.get_close_matches(path.stem, {file.stem for file in files}, 2, 0.8)
    names = dict.fromkeys(str(file) for stem in stems for file in files if file.stem == stem)
    return f"; did you mean {' or '.join([*names][:4])}?" if names else ""


def verify(results: str | Path) -> list[str]:
    """List the files below a folder of results that are damaged, or not what their names say."""
    if not Path(results).is_dir():
        raise RarefeatError(f"{results} is not a folder")
    lines = []
    for path in iter_files(Path(results)):
        try:
            name = other_name(path, read_origin(path))
        except RarefeatError as error:
            lines.append(str(error))
            continue
        if name:
            lines.append(
                f"{path} is not the file that its name says: it is {name}; delete it and run"
                f" snakemake again"
            )
    return lines


def iter_files(results: Path) -> Iterator[Path]:
    """Yield the files of the workflow, without checkpoints, hidden files and a user's own."""
    for path in sorted(results.rglob("*")):
        names = path.relative_to(results).parts
        if "checkpoints" in names or any(name.startswith(".") for name in names):
            continue
        match path.suffix:
            case ".parquet" | ".safetensors":
                yield path
            case ".png" | ".pdf" if path.parent.name == "figures":
                yield path
            case ".md" | ".html" if re.search(f"{SEAL}|<!-- {KEY} ".encode(), path.read_bytes()):
                yield path


def other_name(path: Path, origin: dict[str, Any]) -> str:
    """Return what a file is if its path says something else; empty if it does not."""
    if "name" in origin:
        return "" if origin["name"] == path.stem else origin["name"]
    if not INTERMEDIATE.fullmatch(path.name):
        return ""
    cell = [f"{axis}={value}" for axis, value in origin.get("cell", {}).items()]
    names = [str(origin.get("study")), *sorted(cell), f"seeds={origin.get('seeds')}"]
    # Axes may stand in any order.
    study, *axes, seeds = path.with_suffix("").parts[-len(names) :]
    return "" if [study, *sorted(axes), seeds] == names else "/".join(names)
