"""`rarefeat run FUNCTION NAME`: what every rule runs, and what a person can type.

FUNCTION is MODULE:FUNCTION of the package; NAME a study, or the table, figure or page to make. The
function is called with what its parameters name: `inputs` or `tables` (workflow/run/job_inputs.py),
`cell`, `seeds`, `label`, settings of the study, or `job` for all of it. It returns a table, several
tables, the tensors or rows of a cell, a figure, or the text of a page.
"""

import argparse
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa

from rarefeat.errors import RarefeatError
from rarefeat.workflow.files.origin import KEY
from rarefeat.workflow.files.sealed_files import write_table
from rarefeat.workflow.project import MERGED, Project, load, load_merged
from rarefeat.workflow.registry import find_stage
from rarefeat.workflow.run.cli_helpers import load_function
from rarefeat.workflow.run.code_hashes import check_own_code, check_unedited, read_start
from rarefeat.workflow.run.job import Job, flat
from rarefeat.workflow.run.job_inputs import JobInputs, call
from rarefeat.workflow.run.metadata import build_origin, write_page, write_product

WHOLE_KIND = "all"
"""Name for what is made once for all studies of a kind."""
PROJECTS: dict[str, Project] = {}
"""Projects by folder of results, which the forks of a server find here."""


def main(words: list[str]) -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser("rarefeat run", description=__doc__)
    parser.add_argument("function", help="MODULE:FUNCTION")
    parser.add_argument("name", help="study; or table, figure or page")
    parser.add_argument("--cell", default="", help="AXIS=VALUE/...")
    parser.add_argument("--seeds", default="", help="FIRST-LAST")
    parser.add_argument("--config", nargs="*", help="config files; by default that of the last run")
    parser.add_argument("--output", nargs="+", type=Path, required=True)
    args = parser.parse_args(words)
    project = find_project(args.config, args.output[0], args.function, args.name)
    job = find_job(project, args.function, args.name, args.cell, args.seeds)
    if PROJECTS:  # a fork of the server, which may have imported the modules as they were
        check_unedited(args.function)
    write_outputs(job, JobInputs(job, project.results), args.output)


def find_project(configs: list[str] | None, output: Path, function: str, name: str) -> Project:
    """Return the project of config files, or of the run in whose folder of results a file is."""
    folders = [str(folder) for folder in output.parents if (folder / MERGED).is_file()]
    if configs is not None:
        return load(*configs)
    if not folders:
        raise RarefeatError(f"{output}: no run has begun in a folder above it; name --config FILES")
    if folders[0] in PROJECTS:
        return PROJECTS[folders[0]]
    read_start(folders[0])
    return load_merged(folders[0], function, name)


def remember(results: str) -> None:
    """Read the project of a run, for the forks of this process."""
    read_start(results)
    PROJECTS[results] = load_merged(results)


def find_job(project: Project, function: str, name: str, cell: str, seeds: str) -> Job:
    """Return the job that a command line names; RarefeatError where the config has none."""
    if not (stage := find_stage(function)):
        return project.product_job(function, name)
    if name not in (WHOLE_KIND, *project.studies):
        names = ", ".join(project.studies_of(stage))
        raise RarefeatError(f"{function} runs on no study {name}; it runs on {names}")
    return project.stage_job(stage, "" if name == WHOLE_KIND else name, cell, seeds)


def write_outputs(job: Job, inputs: JobInputs, outputs: list[Path]) -> None:
    """Call the function of a job and write its result."""
    check_own_code(job.config)
    function = load_function(job.stage)
    if torch := sys.modules.get("torch"):
        # One thread, so that the bytes are the same on every machine of a kind; parallelism is over
        # jobs.
        torch.set_num_threads(1)
    if outputs[0].suffix in (".pdf", ".png"):
        from rarefeat.figures.save import draw

        return draw(function, inputs, job, outputs)
    result = call(function, inputs, job)
    if isinstance(result, dict) and outputs[0].suffix == ".parquet":
        result = tuple(table_named(result, path.stem) for path in outputs)
    check_own_code(job.config)
    contents = result if isinstance(result, tuple) else (result,)
    if len(contents) != len(outputs):
        raise RarefeatError(f"{job.stage}: expected {len(outputs)} results, got {len(contents)}")
    for path, content in zip(outputs, contents, strict=True):
        write(path, content, job, inputs.table_paths)
    for function in inputs.afterwards:
        function()


def table_named(tables: dict[str, Any], name: str) -> Any:
    """Return the table of a name, of tables by the ends of their names."""
    return tables[max((end for end in tables if name.endswith(end)), key=len)]


def write(path: Path, content: Any, job: Job, tables: list[Path]) -> None:
    """Write one content in the form that its type and its path ask for."""
    if isinstance(content, str):
        write_page(path, content, job)
    elif isinstance(content, dict):
        from rarefeat.workflow.files.tensors import write_tensors

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
            from rarefeat.workflow.files.schema import validate

            content = validate(load_function(job.table_schema), content)
        origin = build_origin(job, tables) | {"settings": flat(job.config), "code": job.code}
        write_product(path, content, origin)
