"""The report of what a run has made so far; it computes nothing."""

from functools import partial
from pathlib import Path

from rarefeat.errors import RarefeatError
from rarefeat.workflow.project import Project
from rarefeat.workflow.run.metadata import read_job_metadata


def find_existing_outputs(project: Project) -> tuple[list[str], str]:
    """Return the figures and pages that exist, and a line on the others."""
    jobs = {
        path: partial(job_of, name)
        for name, job_of, made, _ in project.products
        for path in made
        if path.endswith((".png", ".html"))
    }
    origins = {path: read_job_metadata(Path(project.results, path)) for path in jobs}
    # Snakemake asks for what a page is made of.
    shown = {f"pages/{name}.html": page.figures for name, page in project.pages.items()}
    existing = [
        path
        for path, origin in origins.items()
        if origin and all(origins.get(f"figures/{name}.png") for name in shown.get(path, ()))
    ]
    if not existing:
        hint = "for those of `make quick`: make report CONFIGFILE=config/quick.yaml"
        raise RarefeatError(f"{project.results}: no figures or pages to report; {hint}")
    missing = [path for path in project.default if path in jobs and path not in existing]
    stale = [path for path in existing if origins[path].get("job") != jobs[path]().identity]
    line = f"{len(existing)} figures and pages in the report"
    for label, paths in {"not made yet": missing, "of another config or code": stale}.items():
        if paths:
            examples = ", ".join(paths[:3]) + ", ..." * (len(paths) > 3)
            line += f"; {len(paths)} {label}: {examples}"
    return existing, line
