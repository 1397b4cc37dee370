"""Run the function of a job and write what it returns.

`python -m rarefeat.run.execute_job --job FILE --output PATH...`.

The function is called with its inputs (run/job_inputs.py) and the job. It returns a table, several
tables by name, the tensors or rows of a cell, a figure, or the text of a page.
"""

import argparse
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa

from rarefeat.core.errors import RarefeatError
from rarefeat.registry import find_stage
from rarefeat.run import output_cache, write_guard
from rarefeat.run.cli_helpers import load_function, run_main
from rarefeat.run.code_hashes import read_accepted
from rarefeat.run.job import Job, read_job_file
from rarefeat.run.job_inputs import JobInputs
from rarefeat.run.metadata import build_origin, write_page, write_product
from rarefeat.storage.origin import KEY
from rarefeat.storage.sealed_files import write_table


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--job", type=Path, required=True, help="file of the job, in the folder jobs of the results"
    )
    parser.add_argument(
        "--output", nargs="+", type=Path, required=True, help="files to write, in order"
    )
    args = parser.parse_args()
    job, results = read_job_file(args.job), args.job.parent.parent
    write_guard.check_code(job.code, read_accepted(results))
    if output_cache.restore(job, args.output):
        return
    write_outputs(job, JobInputs(job, results), args.output)
    output_cache.store(job, args.output)


def write_outputs(job: Job, inputs: JobInputs, outputs: list[Path]) -> None:
    """Call the function of a job and write its result.

    Parameters
    ----------
    job : Job
        The job.
    inputs : JobInputs
        Its inputs.
    outputs : list of path
        Files to write: one for each part of the result, or named as its tables are.
    """
    if torch := sys.modules.get("torch"):
        # One thread, so that the bytes are the same on every machine of a kind; parallelism is over
        # jobs.
        torch.set_num_threads(1)
    function = load_function(job.stage)
    result = load_function(job.runs)(function, inputs, job) if job.runs else function(inputs, job)
    if isinstance(result, dict) and outputs[0].suffix == ".parquet":
        result = tuple(result[path.stem] for path in outputs)
    contents = result if isinstance(result, tuple) else (result,)
    if is_figure(result):
        from rarefeat.figures.save import save
        from rarefeat.figures.style import project_style

        with project_style():
            save(result, outputs, job, inputs.table_paths)
    elif len(contents) != len(outputs):
        raise RarefeatError(f"{job.stage}: expected {len(outputs)} results, got {len(contents)}")
    else:
        for path, content in zip(outputs, contents, strict=True):
            write(path, content, job, inputs.table_paths)
    for function in inputs.afterwards:
        function()


def is_figure(result: Any) -> bool:
    """Return whether a result is a figure of matplotlib."""
    return "matplotlib.figure" in sys.modules and isinstance(
        result, sys.modules["matplotlib.figure"].Figure
    )


def write(path: Path, content: Any, job: Job, tables: list[Path]) -> None:
    """Write one content in the form that its type and its path ask for.

    Parameters
    ----------
    path : Path
        File.
    content : str, mapping of Tensor, list of dict or DataFrame
        Text of a page, tensors, rows of a cell, or a table.
    job : Job
        The job.
    tables : list of Path
        Tables that the job has read.
    """
    if isinstance(content, str):
        write_page(path, add_size_note(content, job) if path.suffix == ".md" else content, job)
    elif isinstance(content, dict):
        from rarefeat.storage.tensors import write_tensors

        write_tensors(path, content, job.to_json)
    elif find_stage(job.stage):
        rows = (
            pa.Table.from_pylist(content)
            if isinstance(content, list)
            else pa.Table.from_pandas(content, preserve_index=False)
        )
        write_table(path, rows, {KEY: job.to_json})
    else:
        if job.table_schema:
            from rarefeat.storage.schema import validate

            content = validate(load_function(job.table_schema), content)
        write_product(path, content, build_origin(job, tables))


def add_size_note(text: str, job: Job) -> str:
    """Return a page of Markdown that says below its title of what size the run is.

    Where it is not the default one.
    """
    title, _, rest = text.partition("\n")
    note = f"\n**{job.size_note[0].upper()}{job.size_note[1:]}.**\n" if job.size_note else ""
    return f"{title}\n{note}{rest}"


if __name__ == "__main__":
    run_main(main)
