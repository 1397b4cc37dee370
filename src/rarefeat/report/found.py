"""What was found, with seeds and grid: of the tables that pages are filled in from, and of a run for its report."""

from collections import Counter
from pathlib import Path

from rarefeat.claims.page import by_claim
from rarefeat.core.errors import RarefeatError
from rarefeat.project import Project
from rarefeat.registry import kinds
from rarefeat.report.published import Published
from rarefeat.run.cli_helpers import function_of
from rarefeat.run.metadata import page_text, read_origin, read_product


def published(kind: str, tables: Published, project: Project) -> list[str]:
    """What a kind of study has found, a sentence or two each, from the published tables; empty where one of them is not there.

    A kind without a module `found` says what its own pages of a run say, where all the tables of these are published whole.
    """
    says = kinds()[kind].load("found")
    if says is None:
        pages = [name for name, page in project.made[kind].pages.items() if all(table in tables for table in page.tables)]
        return [line for name in pages for line in answers(project, name, tables)]
    if not all(name in tables for name in says.TABLES):
        return []
    return says.found(project.sections[kind], {name: tables[name] for name in says.TABLES})


def answers(project: Project, page: str, tables: Published) -> list[str]:
    """The answers of a page of a run, made of published tables."""
    job = project.page_job(page)
    return items_of(function_of(job.stage)({name: tables[name] for name in project.pages[page].tables}, job))


def items_of(text: str) -> list[str]:
    """The items of a page."""
    return [line.removeprefix("- ") for line in text.splitlines() if line.startswith("- ")]


def of_run(project: Project) -> str:
    """In reStructuredText: an item for each kind of study whose page is there, and one for the claims of each paper."""
    items = []
    for name, kind in kinds().items():
        path = Path(project.results, f"{name}.md")
        if name in project.pages and path.exists():
            if read_origin(path).get("job") != project.page_job(name).identity:
                items.append((kind.title, ["What it found is of another config, or of other code."]))
            else:
                items.append((kind.title, items_of(page_text(path))))
    for paper in project.papers:
        path = Path(project.results, f"tables/claims_{paper}.parquet")
        if path.exists():
            try:
                table = read_product(path, project.identities([f"claims_{paper}"]))
            except RarefeatError:
                items.append((f"Claims of {paper}", ["They are of another config, or of other code."]))
                continue
            counts = Counter(primary["verdict"] for primary, _ in by_claim(table))
            said = ", ".join(f"{number} {verdict}" for verdict, number in counts.most_common())
            items.append(
                (f"Claims of {paper}", [f"{sum(counts.values())} claims, each in the regime that it was declared for: {said}."])
            )
    return "\n".join(f"* **{escaped(title)}.** {escaped(' '.join(lines))}" for title, lines in items) or "* Nothing yet."


def escaped(text: str) -> str:
    """Text that reStructuredText takes as it is."""
    return "".join(f"\\{character}" if character in "\\*`_|" else character for character in text)
