"""What the rules share: the checked project, what a job is told, and the names of files. It knows no study by name."""

import json
import os
import re
import signal
import sys
from collections.abc import Iterable
from pathlib import Path

from snakemake.exceptions import WorkflowError
from snakemake.io import regex_from_filepattern
from snakemake.utils import min_version

from rarefeat.config.cells import path_of, paths_of
from rarefeat.config.images import ImageStudy
from rarefeat.config.study import Study, merged
from rarefeat.core.errors import RarefeatError
from rarefeat.project import parse as typed
from rarefeat.project import read, retyped
from rarefeat.registry import kinds
from rarefeat.run import workers
from rarefeat.run.job import job
from rarefeat.run.memory import refuse_too_large
from rarefeat.run.results_folder import (
    handle_in_a_thread,
    refuse_unrecorded,
    take_over,
    usable,
)

min_version("9.19")

# A training frees and takes the same megabytes at every step; glibc would hand them back to the system each time, which costs
# half of the speed as soon as two jobs do it at once.
MALLOC = {
    "MALLOC_MMAP_THRESHOLD_": "33554432",
    "MALLOC_TRIM_THRESHOLD_": "1073741824",
}


def refused(function, *arguments):
    """What a function returns; its error as one line of Snakemake's."""
    try:
        return function(*arguments)
    except RarefeatError as error:
        raise WorkflowError(str(error)) from None


# Snakemake, which has read these, takes the last of a key that is given twice.
for path in workflow.configfiles:
    refused(read, Path(path))
# The files of the kinds of study beside the user's config, and else those of this workflow.
PROJECT = refused(
    typed,
    merged(config, retyped(workflow.config_settings.config)),
    Path("config/studies"),
    Path(str(workflow.current_basedir)).parents[1] / "config/studies",
)
RESULTS = refused(usable, PROJECT.results)
# Where the terminal's last line says that tables and figures are.
os.environ.update(RAREFEAT_RESULTS=RESULTS)
# For the captions of the report: a text there is no reason to draw a figure again, as a param would be.
config["captions"] = {
    **{name: item.caption for name, item in PROJECT.figures.items()},
    **{
        name: f"{item.title[0].upper()}{item.title[1:]}."
        for name, item in PROJECT.pages.items()
    },
}
config["of_this_run"] = PROJECT.of_this_run


def found_by_now() -> str:
    """What the first page of the report says, which alone needs to read tables."""
    from rarefeat.report.found import found

    return found(PROJECT)


config["found"] = found_by_now
STUDIES = PROJECT.studies
ENCODED = {name: study for name, study in STUDIES.items() if isinstance(study, Study)}
PICTURED = {
    name: study for name, study in STUDIES.items() if isinstance(study, ImageStudy)
}
# Jobs use the Python that runs snakemake, whether or not its environment is activated. A job knows its run (results_folder.py), so
# that it writes nothing once another one is in charge.
shell.prefix(
    f"export PATH='{os.path.dirname(sys.executable)}':$PATH RAREFEAT_LOCK='{RESULTS}/.lock'"
    f" {' '.join(f'{name}={value}' for name, value in MALLOC.items())}"
    f" RAREFEAT_SNAKEMAKE=$PPID RAREFEAT_RUN=\"$(cat '{RESULTS}/.lock' 2>&-)\"; set -euo pipefail; "
)


onstart:
    try:
        take_over(RESULTS)
        refuse_unrecorded(workflow.dag)
        if workflow.local_exec:
            refuse_too_large(
                {
                    name: STUDIES[name]
                    for planned in workflow.dag.needrun_jobs()
                    if (name := planned.wildcards.get("study")) in STUDIES
                }
            )
    except RarefeatError as error:
        raise WorkflowError(str(error)) from None
    handle_in_a_thread(signal.SIGTERM)
    if workflow.is_main_process and workflow.local_exec:
        if socket := workers.start(**MALLOC):
            os.environ.update(RAREFEAT_WORKERS=socket)


def either(names: Iterable[str]) -> str:
    """A regular expression for one of these names."""
    return "|".join(map(re.escape, names)) or "(?!)"


wildcard_constraints:
    cell=r"[^/=]{1,99}=[^/]{1,99}(/[^/=]{1,99}=[^/]{1,99})*",
    block=r"[0-9]{1,9}-[0-9]{1,9}",
    figure=either(PROJECT.figures),
    page=either(PROJECT.pages),
    browsed=either(PROJECT.browsed),
    paper=either(PROJECT.papers),
    kind=either(PROJECT.claimed),
    table=either(PROJECT.tables),


def command(arguments: str) -> str:
    """A shell command: a module and its arguments, which may fork from a warm process, with its times and its log."""
    return f"python -m rarefeat.run.stage --times {{log:q}}.tsv {arguments} > {{log:q}} 2>&1"


def stage(files: str) -> str:
    """A shell command: the stage that the job names, with what it is told, and its files."""
    return command(f"--job {{params.job:q}} {files}")


def growing(amount):
    """A resource that grows with each try, so that a job that ran out of it gets more."""
    return lambda wildcards, attempt: attempt * amount


def table(name: str) -> str:
    """The file of a table."""
    return f"{RESULTS}/tables/{name}.parquet"


def names_of(stage: str) -> list[str]:
    """The tables that a stage writes."""
    return [name for name, item in PROJECT.tables.items() if item.stage == stage]


def told_for_table(name: str):
    """A params function: the job that writes a table, whose name may hold wildcards."""
    return lambda wildcards: PROJECT.table_job(name.format(**wildcards)).text


CELLS = {
    (name, at.path): at
    for name, study in STUDIES.items()
    for cell in study.cells()
    for at in (
        cell,
        *(cell.to(*list(cell.values)[:depth]) for depth in range(1, len(cell.axes))),
    )
} | {
    (name, cell.path): cell for name, study in STUDIES.items() for cell in study.cells()
}


def cell_of(wildcards):
    """The cell of a job, or what several cells share."""
    if (wildcards.study, wildcards.cell) not in CELLS:
        raise WorkflowError(
            f"{wildcards.cell} is no cell of the study {wildcards.study}; its grid has none with these values"
        )
    return CELLS[wildcards.study, wildcards.cell]


def told(stage: str, through: Iterable[str], parts):
    """A params function: the job of one cell and block; parts: names of the study's sections, or a function of study and cell."""

    def of_job(wildcards):
        study = STUDIES[wildcards.study]
        at = cell_of(wildcards) if hasattr(wildcards, "cell") else None
        config = (
            parts(study, at)
            if callable(parts)
            else {name: getattr(study, name) for name in parts}
        )
        return job(
            stage, through, config, wildcards.study, at, getattr(wildcards, "block", "")
        ).text

    return of_job


def of_cell(kind: str, suffix: str, *axes: str):
    """An input function: the file of a job's cell, or of what it shares with others on some axes, and block."""

    def file(wildcards):
        at = cell_of(wildcards).to(*axes) if axes else cell_of(wildcards)
        return (
            f"{RESULTS}/{path_of(kind, wildcards.study, at, wildcards.block, suffix)}"
        )

    return file


def of_study(
    kind: str, name: str, suffix: str, study=None, trained_only: bool = False
) -> list[str]:
    """The files of every cell and block of a study."""
    study = study or STUDIES[name]
    cells = [cell for cell in study.cells() if not trained_only or cell.trained]
    return [
        f"{RESULTS}/{path}"
        for path in paths_of(kind, name, cells, study.blocks(), suffix)
    ]


def encoders_of(wildcards):
    """The encoders of every cell and block of the study of a table."""
    return of_study("encoders", wildcards.study, "safetensors", trained_only=True)


PICTURES = ("images.datasets", "images.splits", "images.pretrain")


def threads_of(wildcards):
    return STUDIES[wildcards.study].training.threads


def gpus(wildcards):
    return int(STUDIES[wildcards.study].training.device == "cuda")


GRIDS = {
    name.removesuffix("_grid"): item
    for name, item in PROJECT.tables.items()
    if item.stage == "chain.aggregate" and name.endswith("_grid")
}
COURSES = {
    name.removesuffix("_trajectories"): item
    for name, item in PROJECT.tables.items()
    if item.stage == "chain.aggregate" and name.endswith("_trajectories")
}


def gathered(kind, items, trained_only=False):
    """An input function: the probes or trajectories that the tables of a study, or of one block of its grid, are made from."""

    def of_table(wildcards):
        item = items[wildcards.tabled]
        (study,) = item.parts.values()
        return of_study(kind, item.study, "parquet", study, trained_only)

    return of_table


def title_of(name):
    """The kind of study of a product, for people."""
    kind = PROJECT.kind_of.get(name)
    return kinds()[kind].title if kind else "claims"


def times_of_rules(wildcards):
    """The times that the jobs of each rule write beside their logs as a regular expression, as JSON.

    Only when a job is made are all rules known.
    """
    return json.dumps(
        {
            made.name: regex_from_filepattern(f"{made.log[0]}.tsv")
            for made in workflow.rules
            if made.log
        }
    )
