"""The report of what a run has made so far; it computes nothing.

Its first page has a few figures, and the state of every study.
"""

import base64
import html
import io
from collections.abc import Mapping
from pathlib import Path

from PIL import Image

from rarefeat.errors import RarefeatError
from rarefeat.workflow.project import Project
from rarefeat.workflow.registry import kinds
from rarefeat.workflow.run.metadata import read_job_metadata

THUMBNAILS, WIDTH = 5, 320
"""Number of small pictures, and their width (pixels)."""
STATES = CURRENT, STALE, MISSING = "up to date", "of another config or code", "not made yet"
"""States of a figure or a page."""


def find_existing_outputs(project: Project) -> tuple[list[str], str, str]:
    """Return the figures and pages that exist, a line on the others, and the first page."""
    jobs = {
        path: (job_of, name)
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
    now = {path: job_of(name).identity for path, (job_of, name) in jobs.items() if path in existing}
    stale = [path for path in existing if origins[path].get("job") != now[path]]
    line = f"{len(existing)} figures and pages in the report"
    for label, paths in {MISSING: missing, STALE: stale}.items():
        if paths:
            examples = ", ".join(paths[:3]) + ", ..." * (len(paths) > 3)
            line += f"; {len(paths)} {label}: {examples}"
    states = dict.fromkeys(existing, CURRENT)
    states |= dict.fromkeys(stale, STALE) | dict.fromkeys(missing, MISSING)
    return existing, line, render_front_page(project, states)


def render_front_page(project: Project, states: Mapping[str, str]) -> str:
    """Render the small pictures and the table of studies, as HTML."""
    rows, candidates = [], []
    for name, kind in kinds().items():
        outputs = project.outputs[name]
        paths = [f"figures/{figure}.png" for figure in outputs.figures]
        paths += [f"pages/{page}.html" for page in outputs.pages]
        counts = [sum(states.get(path) == state for path in paths) for state in STATES]
        if any(counts[:2]):
            cells = "".join(f"<td>{count or ''}</td>" for count in counts)
            rows.append(f"<tr><td>{html.escape(kind.title)}</td>{cells}</tr>")
        current = [path for path in paths if path.endswith(".png") and states.get(path) == CURRENT]
        candidates += [(place, path, kind.title) for place, path in enumerate(current)]
    # One of each kind first, then a second one.
    chosen = sorted(candidates, key=lambda candidate: candidate[0])[:THUMBNAILS]
    pictures = [draw_thumbnail(Path(project.results, path), title) for _, path, title in chosen]
    head = "".join(f"<th>{words}</th>" for words in ("study", *STATES))
    return (
        f'<div style="display:flex;flex-wrap:wrap;gap:1rem">{"".join(pictures)}</div>'
        f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>"
    )


def draw_thumbnail(path: Path, title: str) -> str:
    """Return a small picture of a figure with its title, as HTML that holds the picture."""
    buffer = io.BytesIO()
    with Image.open(path, formats=["PNG"]) as image:
        image.thumbnail((WIDTH, WIDTH))
        image.save(buffer, "png")
    # In short lines, since reStructuredText takes none of more than 10,000 characters.
    data = base64.encodebytes(buffer.getvalue()).decode()
    title = html.escape(title)
    return (
        f'<figure style="margin:0"><img src="data:image/png;base64,{data}" alt="{title}">'
        f"<figcaption>{title}</figcaption></figure>"
    )
