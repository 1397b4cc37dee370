"""The small tables of docs/tables, from which every number in docs/ and README.md is filled in.

They are in `TABLES` of tables_KIND.py beside this file, or declared by the study itself: by name
the tables of a run, and the function that reduces them to a small one. The verdicts on the claims
of each paper, in primary and in other regimes, are published for all. Each table has its origin:
run, commit, seeds.

    python docs/build/published_tables.py results

writes everything that a run has tables for, and the figures that pages show.
"""

import argparse
import hashlib
import importlib
from collections.abc import Callable
from pathlib import Path

import pandas as pd

from claim_records import other_verdicts, primary_verdicts
from rarefeat.errors import RarefeatError
from rarefeat.workflow.files.published import FOLDER, PublishedTables, commit
from rarefeat.workflow.files.sealed_files import atomic_write
from rarefeat.workflow.project import load
from rarefeat.workflow.registry import kinds
from rarefeat.workflow.run.cli_helpers import run_main
from rarefeat.workflow.run.metadata import read_table_and_origin

Reduction = tuple[tuple[str, ...], Callable[..., pd.DataFrame]]
"""Names of tables of a run, and the function that makes one small table of them."""


def table_reductions(kind: str) -> dict[str, Reduction]:
    """Return the tables that a kind of study publishes, by name."""
    if Path(__file__).with_name(f"tables_{kind}.py").exists():
        return importlib.import_module(f"tables_{kind}").TABLES
    module = importlib.import_module(f"rarefeat.studies.{kind}")
    if study := getattr(module, "STUDY", None):
        return study.published_tables
    return getattr(module, "TABLES", {})


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
