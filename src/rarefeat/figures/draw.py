"""Stage 5: one figure from its tables, as PDF and PNG."""

from pathlib import Path

from matplotlib.figure import Figure

from rarefeat.figures.save import save
from rarefeat.figures.style import GREY, styled
from rarefeat.run.cli_helpers import function_of, run, stage
from rarefeat.run.job import Job
from rarefeat.run.metadata import read_products


def say_size(figure: Figure, text: str) -> None:
    """Above a figure, of what size its run is, where there is something to say."""
    if text:
        figure.suptitle(text, x=0.995, ha="right", style="italic", color=GREY)


def main() -> None:
    """Command line of the stage: the function that the job names takes the tables by name and the job."""
    parser = stage(__doc__)
    parser.add_argument("--tables", nargs="+", type=Path, required=True, help="the figure's tables, in order")
    parser.add_argument("--output", nargs="+", type=Path, required=True, help="files to write; the suffix says the format")
    args = parser.parse_args()
    job: Job = args.job
    draw = function_of(job.stage)
    tables = read_products(args.tables, job)
    with styled():
        figure = draw(tables, job)
        say_size(figure, job.of_size)
        save(figure, args.output, job, args.tables)


if __name__ == "__main__":
    run(main)
