"""Findings of a study kind, computed from the published tables."""

from rarefeat.workflow.files.published import PublishedTables
from rarefeat.workflow.project import Project
from rarefeat.workflow.registry import kinds
from rarefeat.workflow.run.cli_helpers import load_function


def published_findings(kind: str, tables: PublishedTables, project: Project) -> list[str]:
    """Return the findings of a kind of study, a sentence or two each.

    A kind without a module `findings` has those of its own pages of a run, as far as all their
    tables are published whole.
    """
    module = kinds()[kind].load("findings")
    if module is None:
        pages = [
            name
            for name, page in project.outputs[kind].pages.items()
            if all(table in tables for table in page.tables)
        ]
        return [line for name in pages for line in page_findings(project, name, tables)]
    if not all(name in tables for name in module.TABLES):
        return []
    optional = (name for name in getattr(module, "OPTIONAL", ()) if name in tables)
    chosen = {name: tables[name] for name in (*module.TABLES, *optional)}
    return module.findings(project.sections[kind], chosen)


def page_findings(project: Project, page: str, tables: PublishedTables) -> list[str]:
    """Return the list items of a page of a run, rendered from published tables."""
    job = project.page_job(page)
    return list_items(
        load_function(job.stage)({name: tables[name] for name in project.pages[page].tables}, job)
    )


def list_items(text: str) -> list[str]:
    """Return the list items of a page of Markdown."""
    return [line.removeprefix("- ") for line in text.splitlines() if line.startswith("- ")]
