"""Run the function that a job names, MODULE:FUNCTION of what it reads (run/read.py) and the job, and write what it gives.

A table, or several; the tensors or the rows of a cell; or the text of a page, which begins with its title.
"""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa

from rarefeat.run.cli_helpers import function_of, run, stage
from rarefeat.run.job import Job
from rarefeat.run.metadata import made_from, write_page, write_product
from rarefeat.run.read import Read, written_by
from rarefeat.storage.files import write_table
from rarefeat.storage.origin import KEY


def make(description: str | None, then: Callable[[Any, Job], Any] = lambda found, job: found) -> None:
    """The command line; `then` takes what the function gives and the job, and gives what is written."""
    parser = stage(description)
    parser.add_argument("--tables", nargs="*", type=Path, default=[], help="the tables that are read")
    parser.add_argument("--results", type=Path, help="folder of results, for files of cells")
    parser.add_argument("--checkpoints", type=Path, help="folder of what an interrupted training goes on from")
    parser.add_argument("--output", nargs="+", type=Path, required=True, help="files to write, in order")
    args = parser.parse_args()
    job: Job = args.job
    function, files = function_of(job.stage), written_by(job)
    if job.files and not args.results:
        parser.error("--results is missing, the folder of the files that the job reads")
    if files and len(args.output) != len(files):
        parser.error(f"--output: {job.stage} writes {len(files)} files, got {len(args.output)} paths")
    if torch := sys.modules.get("torch"):
        # One thread, so that the bytes are the same on every machine of a kind; parallelism is over jobs.
        torch.set_num_threads(1)
    read = Read(job, args.results, args.tables, args.checkpoints)
    found = then(function(read, job), job)
    for path, part in zip(args.output, found if isinstance(found, tuple) else (found,), strict=True):
        write(path, part, job, args.tables)
    for do in read.afterwards:
        do()


def write(path: Path, found: Any, job: Job, tables: list[Path]) -> None:
    """Write one part of what a function gave."""
    if isinstance(found, str):
        write_page(path, of_its_size(found, job) if path.suffix == ".md" else found, job)
    elif isinstance(found, dict):
        from rarefeat.storage.tensors import write_tensors

        write_tensors(path, found, job.text)
    elif job.cell:
        rows = pa.Table.from_pylist(found) if isinstance(found, list) else pa.Table.from_pandas(found, preserve_index=False)
        write_table(path, rows, {KEY: job.text})
    else:
        write_product(path, found, made_from(job, tables))


def of_its_size(text: str, job: Job) -> str:
    """A page of Markdown that says below its title of what size the run is, where there is something to say."""
    title, _, rest = text.partition("\n")
    note = f"\n**{job.of_size[0].upper()}{job.of_size[1:]}.**\n" if job.of_size else ""
    return f"{title}\n{note}{rest}"


def main() -> None:
    """Command line."""
    make(__doc__)


if __name__ == "__main__":
    run(main)
