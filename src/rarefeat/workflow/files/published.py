"""Published tables: small ones of docs/tables, each with the run, commit and seeds it is from."""

import hashlib
import json
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pandas as pd

from rarefeat.errors import RarefeatError
from rarefeat.workflow.files.sealed_files import write_file

FOLDER = Path("docs/tables")
INDEX = "origin.json"
MAX_BYTES = 300_000
"""Largest table; a larger one belongs to results/, not to a page."""
PACKAGE = Path(__file__).parents[2]


def git(*arguments: str) -> str:
    """Run git in the clone of the package; return an empty text if it is no clone."""
    process = subprocess.run(
        ["git", *arguments], cwd=PACKAGE, capture_output=True, encoding="utf-8", check=False
    )
    return process.stdout.strip() if process.returncode == 0 else ""


def commit() -> str:
    """Return the commit of the code, marked if files were changed since; or `unknown`."""
    changed = git("status", "--porcelain", "--", ".", ":/config", ":/workflow")
    return (git("rev-parse", "--short=7", "HEAD") or "unknown") + (
        "+uncommitted" if changed else ""
    )


class PublishedTables:
    """The published tables of a folder, with their origins.

    A table that was edited is refused.
    """

    def __init__(self, folder: Path = FOLDER):
        self.folder = folder
        path = folder / INDEX
        try:
            self.origins: dict[str, dict] = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise RarefeatError(f"cannot read {path}: {error}") from error

    def __contains__(self, name: str) -> bool:
        return name in self.origins

    def __getitem__(self, name: str) -> pd.DataFrame:
        path = self.folder / f"{name}.csv"
        if name not in self.origins:
            raise RarefeatError(
                f"{self.folder} has no table {name}; its tables: {', '.join(sorted(self.origins))}"
            )
        content = path.read_bytes()
        if self.origins[name]["sha256"] != hashlib.sha256(content).hexdigest():
            raise RarefeatError(
                f"{path} was edited; take it from a run with `make publish`, do not edit it"
            )
        return pd.read_csv(path)

    def put(self, name: str, table: pd.DataFrame, origin: Mapping) -> None:
        """Write a table and its origin."""
        content = table.to_csv(index=False, lineterminator="\n", float_format="%.6g").encode()
        if len(content) > MAX_BYTES:
            raise RarefeatError(
                f"table {name}: must have at most {MAX_BYTES} bytes, got {len(content)}; reduce it"
            )
        write_file(self.folder / f"{name}.csv", content)
        self.origins[name] = {"sha256": hashlib.sha256(content).hexdigest(), **origin}
        write_file(self.folder / INDEX, json.dumps(self.origins, indent=1, sort_keys=True) + "\n")
