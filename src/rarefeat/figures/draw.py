"""Drawing of a figure in the project's style, with a note on the size of its run."""

from collections.abc import Callable

from matplotlib.figure import Figure

from rarefeat.figures.style import GREY, project_style
from rarefeat.workflow.run.job import Job
from rarefeat.workflow.run.job_inputs import JobInputs, call


def draw(function: Callable, tables: JobInputs, job: Job) -> Figure:
    """Return the figure that a function draws, with a note if the run is not of full size."""
    with project_style():
        figure = call(function, tables, job)
        title, note = figure.get_suptitle(), job.size_note
        if note and title:
            figure.suptitle(f"{title}\n({note})")
        elif note:
            figure.suptitle(note, x=0.995, ha="right", style="italic", color=GREY)
        return figure
