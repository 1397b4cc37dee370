"""Findings of a study kind, computed from the published tables."""

import importlib
import importlib.util

from rarefeat.workflow.files.published import PublishedTables
from rarefeat.workflow.project import Project


def published_findings(kind: str, tables: PublishedTables, project: Project) -> list[str]:
    """Return the findings of a kind of study, a sentence or two each."""
    if not importlib.util.find_spec(f"answers.{kind}"):
        return []
    module = importlib.import_module(f"answers.{kind}")
    if not all(name in tables for name in module.TABLES):
        return []
    optional = (name for name in getattr(module, "OPTIONAL", ()) if name in tables)
    chosen = {name: tables[name] for name in (*module.TABLES, *optional)}
    return module.findings(project.sections[kind], chosen)
