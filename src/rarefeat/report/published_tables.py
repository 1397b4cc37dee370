"""The small tables of docs/tables, from which every number in docs/ and README.md is filled in, each with where it is from.

A kind of study says in the module `page` of its folder, or in its file, what it publishes: `TABLES`, by name the tables of a run that it reads and the
function that makes a small one of them. Beside these there are the verdicts on the claims of each paper, in primary and other regimes.
`python -m rarefeat.report.published_tables results` writes all that a run has tables for, its claims, and the figures that pages show.
"""

import argparse
import hashlib
import json
import re
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

import pandas as pd

from rarefeat.claims.declarations import page_of
from rarefeat.claims.page import other_verdicts, part, primary_verdicts
from rarefeat.claims.tables import VERDICTS
from rarefeat.core.errors import RarefeatError
from rarefeat.project import load
from rarefeat.registry import kinds
from rarefeat.run.cli_helpers import run_main
from rarefeat.run.code_hashes import PACKAGE
from rarefeat.run.metadata import read_table_and_origin
from rarefeat.storage.sealed_files import atomic_write, write_file

FOLDER = Path("docs/tables")
INDEX = "origin.json"
LARGEST = 300_000
"""Bytes of a table: what is larger belongs to results/, not to a page."""

Reduction = tuple[tuple[str, ...], Callable[..., pd.DataFrame]]
"""Names of tables of a run, and what makes one small table of them."""


def table_reductions(kind: str) -> dict[str, Reduction]:
    """What a kind of study publishes, by the name of the small table."""
    return getattr(kinds()[kind].load("doc_tables"), "TABLES", {})


def reductions() -> dict[str, Reduction]:
    """What every kind of study publishes, by the name of the small table."""
    found = {
        name: reduction for kind in kinds() for name, reduction in table_reductions(kind).items()
    }
    verdicts = {"verdicts": primary_verdicts, "other_regimes": other_verdicts}
    return found | {
        f"{name}_{paper}": ((f"claims_{paper}",), made)
        for paper in load().papers
        for name, made in verdicts.items()
    }


def git(*arguments: str) -> str:
    """Ask git about the clone of the package; empty if there is none."""
    try:
        done = subprocess.run(
            ["git", *arguments], cwd=PACKAGE, capture_output=True, encoding="utf-8", check=False
        )
    except OSError:  # there is no git
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def commit() -> str:
    """Return the commit of the code, marked if it does not hold all code and configs; or `unknown`."""
    changed = git("status", "--porcelain", "--", ".", ":/config", ":/workflow")
    return (git("rev-parse", "--short=7", "HEAD") or "unknown") + (
        "+uncommitted" if changed else ""
    )


class PublishedTables:
    """The small tables of a folder, and where each is from; refused where one is not as it was written."""

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
                f"{path} is not as it was written; take it from a run with `make publish`, do not edit it"
            )
        return pd.read_csv(path)

    def put(self, name: str, table: pd.DataFrame, origin: Mapping) -> None:
        """Write a table and where it is from."""
        content = table.to_csv(index=False, lineterminator="\n", float_format="%.6g").encode()
        if len(content) > LARGEST:
            raise RarefeatError(
                f"the table {name} has {len(content)} bytes, and a published one at most {LARGEST}; reduce it"
            )
        write_file(self.folder / f"{name}.csv", content)
        self.origins[name] = {"sha256": hashlib.sha256(content).hexdigest(), **origin}
        write_file(self.folder / INDEX, json.dumps(self.origins, indent=1, sort_keys=True) + "\n")


def publish(results: Path, published: PublishedTables) -> list[str]:
    """Reduce the tables of a run.

    Args:
        results: the folder of results of a run.

    Returns:
        The names of the tables that were written: those whose sources the run has, and that have rows.
    """
    written, version = [], commit()
    for name, (sources, reduce) in reductions().items():
        paths = {source: results / "tables" / f"{source}.parquet" for source in sources}
        if not all(path.exists() for path in paths.values()):
            continue
        found = {source: read_table_and_origin(path) for source, path in paths.items()}
        small = reduce(*(table for table, _ in found.values()))
        if small.empty:  # claims that have no other regime
            continue
        origins = {source: origin for source, (_, origin) in found.items()}
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


ZEROS = "|".join(f"{verdict} in 0" for verdict in VERDICTS)
"""What is said of verdicts that no regime has."""
DECLARED = ("- Measured: ", "- Required: ", "- Control: ")
"""Lines of a claim that its declaration has as well."""


def publish_claims(results: Path, folder: Path) -> list[Path]:
    """Write the pages of a run's claims, one for each part of a theory; return their paths."""
    written = []
    for paper in load().papers:
        table = results / f"tables/claims_{paper}.parquet"
        claims = read_table_and_origin(table)[0] if table.exists() else pd.DataFrame({"group": []})
        for group in claims["group"].unique():
            path = folder / f"{page_of(group)}.md"
            text = part(claims, group, f"claims_{paper}.md")
            write_file(path, drop_declared_text(text, path.stem.removeprefix("claims_")))
            written.append(path)
    return written


def drop_declared_text(text: str, part: str) -> str:
    """The page of a part without what docs/reference/claims says of it already (quantity, range, control), and without zeros."""
    text = re.sub(rf"(?<=[:,] )(?:{ZEROS}), |, (?:{ZEROS})", "", text)
    lines = [
        line
        for line in text.replace("](figures/", "](../figures/").splitlines()
        if not line.startswith(DECLARED)
    ]
    told = f"Quantity, range and control of each: [as declared](../reference/claims/{part}.md). [All claims, and how to read this](index.md)."
    lines = [
        told if line.startswith("[All claims, and how to read this]") else line for line in lines
    ]
    return "\n".join(map(shorten_verdict_line, lines)).rstrip() + "\n"


def shorten_verdict_line(line: str) -> str:
    """A line of regimes by verdict, with the longest list of them told as the rest; any other line as it is."""
    told = re.split(
        rf"\. (?=(?:{'|'.join(map(str.capitalize, VERDICTS))}): )",
        line.removeprefix("- ").rstrip("."),
    )
    if len(told) < 2 or not line.startswith(
        tuple(f"- {verdict.capitalize()}: " for verdict in VERDICTS)
    ):
        return line
    most = max(told, key=len)
    rest = ". ".join(said for said in told if said is not most)
    return f"- {rest}. {most.partition(':')[0]} elsewhere."


def publish_figures(results: Path, docs: Path) -> list[Path]:
    """The figures of a run that a page of docs/ shows, or a template names; there are many more in results/."""
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
    """Publish what a run has measured."""
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
    pages = [*publish_claims(args.results, docs / "claims"), *publish_figures(args.results, docs)]
    print("\n".join([*(f"{args.folder}/{name}.csv" for name in written), *map(str, pages)]))


if __name__ == "__main__":
    run_main(main)
