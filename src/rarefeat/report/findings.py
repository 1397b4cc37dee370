"""Findings of a study kind, computed from the published tables."""

from rarefeat.project import Project
from rarefeat.registry import kinds
from rarefeat.report.published_tables import PublishedTables
from rarefeat.run.cli_helpers import load_function


def published_findings(kind: str, tables: PublishedTables, project: Project) -> list[str]:
    """What a kind of study has found, a sentence or two each, from the published tables; empty where one of them is not there.

    A kind without a module `found` says what its own pages of a run say, where all the tables of these are published whole.
    """
    says = kinds()[kind].load("findings")
    if says is None:
        pages = [
            name
            for name, page in project.outputs[kind].pages.items()
            if all(table in tables for table in page.tables)
        ]
        return [line for name in pages for line in page_findings(project, name, tables)]
    if not all(name in tables for name in says.TABLES):
        return []
    return says.findings(project.sections[kind], {name: tables[name] for name in says.TABLES})


def page_findings(project: Project, page: str, tables: PublishedTables) -> list[str]:
    """The answers of a page of a run, made of published tables."""
    job = project.page_job(page)
    return list_items(
        load_function(job.stage)({name: tables[name] for name in project.pages[page].tables}, job)
    )


def list_items(text: str) -> list[str]:
    """The items of a page."""
    return [line.removeprefix("- ") for line in text.splitlines() if line.startswith("- ")]
