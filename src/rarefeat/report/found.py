"""What a run has found, with its seeds and its grid: the first page of the report, from the tables that are there."""

import importlib
import importlib.util
from collections import Counter
from pathlib import Path

from rarefeat.claims.page import by_claim
from rarefeat.project import Project
from rarefeat.registry import kinds
from rarefeat.storage.files import read_table


def found(project: Project) -> str:
    """In reStructuredText: an item for each kind of study whose tables are all there, and one for the claims of each paper.

    A kind says it in a module `found` of its folder: TABLES, and found(section, tables) with its sentences.
    """
    items = []
    for name, kind in kinds().items():
        module = f"rarefeat.{kind.module('found')}"
        if importlib.util.find_spec(module):
            says = importlib.import_module(module)
            paths = {table: Path(project.results, f"tables/{table}.parquet") for table in says.TABLES}
            if all(path.exists() for path in paths.values()):
                tables = {table: read_table(path).to_pandas() for table, path in paths.items()}
                items.append((kind.title, says.found(project.sections[name], tables)))
    for paper in project.papers:
        path = Path(project.results, f"tables/claims_{paper}.parquet")
        if path.exists():
            counts = Counter(primary["verdict"] for primary, _ in by_claim(read_table(path).to_pandas()))
            said = ", ".join(f"{number} {verdict}" for verdict, number in counts.most_common())
            items.append(
                (f"Claims of {paper}", [f"{sum(counts.values())} claims, each in the regime that it was declared for: {said}."])
            )
    return "\n".join(f"* **{escaped(title)}.** {escaped(' '.join(lines))}" for title, lines in items) or "* Nothing yet."


def escaped(text: str) -> str:
    """Text that reStructuredText takes as it is."""
    return "".join(f"\\{character}" if character in "\\*`_|" else character for character in text)
