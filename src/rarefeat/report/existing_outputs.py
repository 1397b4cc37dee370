"""The figures and pages that a run has made so far, for a report that computes nothing."""

from pathlib import Path

from rarefeat.errors import RarefeatError
from rarefeat.report.front_page import CURRENT, MISSING, STALE, render_front_page
from rarefeat.workflow.project import Project
from rarefeat.workflow.run.metadata import read_job_metadata


def find_existing_outputs(project: Project) -> tuple[list[str], str, str]:
    """Return the figures and pages that exist, a line on the others, and the first page."""
    jobs = {f"figures/{name}.png": (project.figure_job, name) for name in project.figures}
    jobs |= {f"pages/{name}.html": (project.page_job, name) for name in project.pages}
    jobs |= {f"pages/{name}.html": (project.html_page_job, name) for name in project.html_pages}
    origins = {path: read_job_metadata(Path(project.results, path)) for path in jobs}
    existing = [path for path, origin in origins.items() if origin]
    if not existing:
        hint = "for those of `make quick`: make report CONFIGFILE=config/quick.yaml"
        raise RarefeatError(f"{project.results}: no figures or pages to report; {hint}")
    missing = [path for path in project.default if path in jobs and path not in existing]
    stale = [
        path
        for path in existing
        if origins[path].get("job") != jobs[path][0](jobs[path][1]).identity
    ]
    line = f"{len(existing)} figures and pages in the report"
    for label, paths in {MISSING: missing, STALE: stale}.items():
        if paths:
            examples = ", ".join(paths[:3]) + ", ..." * (len(paths) > 3)
            line += f"; {len(paths)} {label}: {examples}"
    states = dict.fromkeys(existing, CURRENT)
    states |= dict.fromkeys(stale, STALE) | dict.fromkeys(missing, MISSING)
    return existing, line, render_front_page(project, states)
