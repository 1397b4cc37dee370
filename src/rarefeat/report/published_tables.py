"""The small tables of docs/tables, from which every number in docs/ and README.md is filled in.

A kind of study declares them in `TABLES` of its module `doc_tables`: by name the tables of a run,
and the function that reduces them to a small one. The verdicts on the claims of each paper, in
primary and in other regimes, are published for all. Each table has its origin: run, commit, seeds.

    python -m rarefeat.report.published_tables results

writes everything that a run has tables for, and the figures that pages show.
"""

import argparse
import hashlib
import json
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

import pandas as pd

from rarefeat.claims.page import other_verdicts, primary_verdicts
from rarefeat.errors import RarefeatError
from rarefeat.workflow.files.sealed_files import atomic_write, write_file
from rarefeat.workflow.project import load
from rarefeat.workflow.registry import kinds
from rarefeat.workflow.run.cli_helpers import run_main
from rarefeat.workflow.run.code_hashes import PACKAGE
from rarefeat.workflow.run.metadata import read_table_and_origin

FOLDER = Path("docs/tables")
INDEX = "origin.json"
MAX_BYTES = 300_000
"""Largest table; a larger one belongs to results/, not to a page."""

Reduction = tuple[tuple[str, ...], Callable[..., pd.DataFrame]]
"""Names of tables of a run, and the function that makes one small table of them."""


def table_reductions(kind: str) -> dict[str, Reduction]:
    """Return the tables that a kind of study publishes, by name."""
    return getattr(kinds()[kind].load("doc_tables"), "TABLES", {})


def reductions() -> dict[str, Reduction]:
    """Return all published tables, by name."""
    tables = {
        name: reduction for kind in kinds() for name, reduction in table_reductions(kind).items()
    }
    verdicts = {"verdicts": primary_verdicts, "other_regimes": other_verdicts}
    return tables | {
        f"{name}_{paper}": ((f"claims_{paper}",), function)
        for paper in load().papers
        for name, function in verdicts.items()
    }


def git(*arguments: str) -> str:
    """Run git in the clone of the package; return an empty text if there is none."""
    try:
        process = subprocess.run(
            ["git", *arguments], cwd=PACKAGE, capture_output=True, encoding="utf-8", check=False
        )
    except OSError:  # There is no git.
        return ""
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
        try:
            content = path.read_bytes()
        except OSError as error:
            raise RarefeatError(f"cannot read {path}: {error.strerror}") from error
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


def publish(results: Path, published: PublishedTables) -> list[str]:
    """Reduce the tables of a run."""
    written, version = [], commit()
    for name, (sources, reduce) in reductions().items():
        paths = {source: results / "tables" / f"{source}.parquet" for source in sources}
        if not all(path.exists() for path in paths.values()):
            continue
        inputs = {source: read_table_and_origin(path) for source, path in paths.items()}
        small = reduce(*(table for table, _ in inputs.values()))
        # Claims without other regimes give an empty table.
        if small.empty:
            continue
        origins = {source: origin for source, (_, origin) in inputs.items()}
        published.put(
            name,
            small,
            {
                "run": "a run of this workflow",
                "commit": version,
                "seeds": {
                    study: seeds
                    for origin in origins.values()
                    for study, seeds in origin["seeds"].items()
                },
                "tables": {
                    source: hashlib.sha256(path.read_bytes()).hexdigest()
                    for source, path in paths.items()
                },
                "jobs": {source: origin["job"] for source, origin in origins.items()},
                "packages": next(iter(origins.values()))["packages"],
                "machine": next(iter(origins.values()))["machine"],
            },
        )
        written.append(name)
    return written


def publish_figures(results: Path, docs: Path) -> list[Path]:
    """Copy the figures of a run that a page or a template names; return their paths."""
    pages = (*docs.glob("*.md"), *docs.glob("*/*.md"), *(docs / "templates").rglob("*.md.j2"))
    texts = [page.read_text(encoding="utf-8") for page in pages]
    written = []
    for path in sorted((results / "figures").glob("*.png")):
        if any(f"figures/{path.name}" in text or f'"{path.stem}"' in text for text in texts):
            with atomic_write(docs / "figures" / path.name) as temporary:
                temporary.write_bytes(path.read_bytes())
            written.append(docs / "figures" / path.name)
    return written


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("results", type=Path, help="folder of results of a run")
    parser.add_argument("folder", type=Path, nargs="?", default=FOLDER)
    args = parser.parse_args()
    written = publish(args.results, PublishedTables(args.folder))
    if not written:
        raise RarefeatError(
            f"{args.results}/tables has none of the tables that the pages are filled in from"
        )
    docs = args.folder.parent
    figures = publish_figures(args.results, docs)
    print("\n".join([*(f"{args.folder}/{name}.csv" for name in written), *map(str, figures)]))


if __name__ == "__main__":
    run_main(main)
