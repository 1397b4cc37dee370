"""What the rules share: the checked project, what a job is told, and the names of files. It knows no study by name."""

import gc
import os
import re
import signal
import sys
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from snakemake.exceptions import WorkflowError
from snakemake.utils import min_version
from snakemake_interface_executor_plugins.settings import DeploymentMethod

from rarefeat.config.images import ImageStudy
from rarefeat.config.study import Study
from rarefeat.config.yaml_reader import read_yaml
from rarefeat.core.errors import RarefeatError
from rarefeat.kind import (
    IMAGE_DATA,
    IMAGE_PRETRAIN,
    IMAGE_PROBE,
    IMAGE_SPLITS,
    PRETRAIN,
    PROBE,
    SYNTHESISE,
    Stage,
)
from rarefeat.project import parse as typed
from rarefeat.registry import kinds
from rarefeat.run import fork_server
from rarefeat.run.job import job_file
from rarefeat.run.results_folder import (
    CODE,
    deployable,
    handle_in_a_thread,
    leave_at_once,
    rerun_what_files_say,
    take_over,
    usable,
)
from rarefeat.run.write_guard import source_state

min_version("9.19")

# A plan makes millions of objects that live as long as it does; to look through them for cycles takes a tenth of its time.
gc.set_threshold(200_000, 100, 100)

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


# Snakemake takes the last of a key that is given twice; here that is an error.
for path in workflow.configfiles:
    refused(read_yaml, Path(path))
# The files of the kinds of study beside the user's config, and else those of this workflow.
PROJECT = refused(
    typed,
    config,
    Path("config/studies"),
    Path(str(workflow.current_basedir)).parents[1] / "config/studies",
)
# Where this is a module with a prefix, that stands before the folder of results: once, for what is done apart from rules as well.
paths = workflow.modifier.path_modifier
RESULTS = refused(usable, paths.replace_prefix(f"{PROJECT.results}/").removesuffix("/"))
paths.prefix = paths._prefix_replacements = paths.inner_modifier = None
PROJECT = replace(PROJECT, results=RESULTS)
rerun_what_files_say()
# Where the terminal's last line says that tables and figures are.
os.environ.update(RAREFEAT_RESULTS=RESULTS)
# For captions, and for a target that is misspelt.
config["results"] = RESULTS
os.environ.update(RAREFEAT_TARGETS=" ".join(PROJECT.targets | PROJECT.names))
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
    from rarefeat.report.found import of_run

    return refused(of_run, PROJECT)


config["found"] = found_by_now
STUDIES = PROJECT.studies
ENCODED = {name: study for name, study in STUDIES.items() if isinstance(study, Study)}
PICTURED = {
    name: study for name, study in STUDIES.items() if isinstance(study, ImageStudy)
}
# With --software-deployment-method jobs have the Python of workflow/envs/rarefeat.yaml or of rarefeat.sif, with the code that plans.
DEPLOYED = workflow.deployment_settings.deployment_method & {
    DeploymentMethod.CONDA,
    DeploymentMethod.APPTAINER,
}
IMAGE = "rarefeat.sif"


container: IMAGE


if DEPLOYED:
    refused(deployable, CODE, IMAGE if DeploymentMethod.APPTAINER in DEPLOYED else "")
# Else they use the Python that runs snakemake, whether or not its environment is activated.
PYTHON = (
    f"PYTHONPATH='{CODE}'"
    if DEPLOYED
    else f"PATH='{os.path.dirname(sys.executable)}':$PATH"
)
shell.prefix(
    f"export {PYTHON} {' '.join(f'{name}={value}' for name, value in MALLOC.items())}"
    f" RAREFEAT_SOURCE={source_state()}; set -euo pipefail; "
)


onstart:
    try:
        take_over(RESULTS)
        if workflow.local_exec:
            # Jobs here need no limit of submissions, for which each finished one would wake the scheduler up once per timespan,
            # but for one that is asked for.
            limit = workflow.scheduling_settings.max_jobs_per_timespan
            if limit and (limit.max_jobs, limit.timespan) == (100, 1):
                workflow.scheduler.job_rate_limiter = None
    except RarefeatError as error:
        raise WorkflowError(str(error)) from None
    handle_in_a_thread(signal.SIGTERM)
    # What is to be made again in any case is not to come from the store.
    asked = workflow.dag_settings
    again = asked.forceall or asked.forcerun or asked.forcetargets
    os.environ.update(
        RAREFEAT_STORE="" if again or not PROJECT.store_gb else f"{RESULTS}/.store",
        RAREFEAT_STORE_GB=str(PROJECT.store_gb),
    )
    if workflow.is_main_process and workflow.local_exec and not DEPLOYED:
        if socket := fork_server.start(**MALLOC):
            os.environ.update(RAREFEAT_FORK_SERVER=socket)


onsuccess:
    leave_at_once()


onerror:
    leave_at_once()


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
    return f"python -m rarefeat.run.launch --times {{log:q}}.tsv {arguments} > {{log:q}} 2>&1"


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


def written(job) -> str:
    """The file of a job, which holds a hash of it in its name."""
    return refused(job_file, job, RESULTS)


def told_for_table(name: str):
    """A params function: the job that writes a table, whose name may hold wildcards."""
    return lambda wildcards: written(PROJECT.table_job(name.format(**wildcards)))


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


def told(stage: Stage, more=lambda name, block: {}):
    """A params function: what the job of a stage is told of its study, cell and block.

    more: what else, from the study's name and the block.
    """

    def of_job(wildcards):
        name, cell, block = place(wildcards)
        study, of_files = STUDIES[name], more(name, block)
        return written(stage.job(name, study, cell, block, of_files, PROJECT.accepted))

    return of_job


def place(wildcards) -> tuple:
    """The study, cell and block of a job; no cell and no block, where a study has one job."""
    cell = cell_of(wildcards) if hasattr(wildcards, "cell") else None
    return wildcards.study, cell, getattr(wildcards, "block", "")


def file_of(stage: Stage, folder: str = ""):
    """An input function: the file of a stage before, of the job's own cell and block."""
    folder = folder or next(iter(stage.folders))
    return lambda wildcards: f"{RESULTS}/{stage.path(folder, *place(wildcards))}"


def files_of(name: str) -> list[str]:
    """The files of cells that a table is made from."""
    item = PROJECT.tables[name]
    return [
        f"{RESULTS}/{path}"
        for folder, stage in item.files.items()
        for *_, path in stage.files_of(item.study, item.of, folder)
    ]


def gathered(name: str):
    """An input function: files of cells that the table is made from, whose name may hold wildcards."""
    return lambda wildcards: files_of(name.format(**wildcards))


def threads_of(wildcards):
    return STUDIES[wildcards.study].training.threads


def gpus(wildcards):
    return int(STUDIES[wildcards.study].training.device == "cuda")


GRIDS = [
    name.removesuffix("_grid")
    for name in names_of("chain.aggregate:aggregate_grid")
    if name.endswith("_grid")
]


def title_of(name):
    """The kind of study of a product, for people."""
    kind = PROJECT.kind_of.get(name)
    return kinds()[kind].title if kind else "claims"
