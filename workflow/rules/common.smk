"""The checked project, parameters of jobs and their shell command, for all other files of rules."""

import os
import sys
from pathlib import Path

from snakemake.exceptions import WorkflowError
from snakemake.utils import min_version

from rarefeat.config.images import ImageStudy
from rarefeat.config.study import Study
from rarefeat.config.yaml_reader import read_yaml
from rarefeat.core.errors import RarefeatError
from rarefeat.project import parse as parse_config
from rarefeat.registry import kinds
from rarefeat.run import fork_server, output_cache, results_folder, write_guard

min_version("9.19")


def as_workflow_error(function, *arguments):
    """Return what a function returns; an error of a user's becomes one line of Snakemake's."""
    try:
        return function(*arguments)
    except RarefeatError as error:
        raise WorkflowError(str(error)) from None


# Snakemake takes the last of a key that stands twice in a file; here that is an error.
for path in workflow.configfiles:
    as_workflow_error(read_yaml, Path(path))
PACKAGED_STUDIES = Path(str(workflow.current_basedir)).parents[1] / "config/studies"
PROJECT = as_workflow_error(parse_config, config, Path("config/studies"), PACKAGED_STUDIES)


pathvars:
    results=PROJECT.results,


RESULTS = PROJECT.results
STUDIES = PROJECT.studies
ENCODER_STUDIES = [name for name, study in STUDIES.items() if isinstance(study, Study)]
IMAGE_STUDIES = [name for name, study in STUDIES.items() if isinstance(study, ImageStudy)]
config["captions"] = {name: item.caption for name, item in PROJECT.figures.items()}
config["warning"] = PROJECT.warning
# For the logger: where results are, and the names of targets.
os.environ.update(
    RAREFEAT_RESULTS=RESULTS,
    RAREFEAT_TARGETS=" ".join([*PROJECT.targets, *PROJECT.figure_targets]),
)

if warning := as_workflow_error(results_folder.explain_unrecorded, PROJECT):
    print(warning, file=sys.stderr)

VARIABLES = {
    **fork_server.MALLOC,
    write_guard.PLANNED: write_guard.source_state(),
    output_cache.FOLDER: f"{RESULTS}/.cache" if PROJECT.store_gb else "",
    output_cache.ROOM_GB: PROJECT.store_gb,
}
# Jobs use the Python that runs snakemake, whether or not its environment is activated.
shell.prefix(
    f"export PATH='{os.path.dirname(sys.executable)}':$PATH "
    + " ".join(f"{name}='{value}'" for name, value in VARIABLES.items())
    + "; set -euo pipefail; "
)
RUN_JOB = (
    "python -m rarefeat.run.launch --times {log:q}.tsv rarefeat.run.execute_job"
    " --job {params.job:q} --output {output:q} > {log:q} 2>&1"
)


onstart:
    as_workflow_error(results_folder.acquire, RESULTS)
    if any(re.fullmatch(r"-[fFR]|--force\w*", word) for word in sys.argv):
        os.environ[output_cache.FORCED] = "yes"
    # A server that has the packages loaded runs the jobs of this machine.
    if workflow.local_exec and (name := fork_server.start()):
        os.environ.update(RAREFEAT_FORK_SERVER=name)


def any_of(names):
    """Return a constraint of a wildcard: one of some names, and nothing where there is none."""
    return "|".join(map(re.escape, names)) or "(?!)"


wildcard_constraints:
    study=any_of(STUDIES),
    seeds=r"\d+-\d+",
    eps_min=r"[^/]+",
    sigma=r"[^/]+",
    rho=r"[^/]+",
    split=r"[^/]+",


def find_cell(wildcards):
    """Return the cell of a job by its axes, or what the cells that share its file have in common.

    None for a job of a whole study.
    """
    axes = {name: value for name, value in wildcards.items() if name not in ("study", "seeds")}
    if not axes:
        return None
    path = axes.get("cell") or str(Path(*map("=".join, axes.items())))
    if (wildcards.study, path) not in CELLS:
        raise WorkflowError(f"{wildcards.study} has no cell {path}; see its grid in the config")
    return CELLS[wildcards.study, path]


CELLS = {
    (name, shared.path): shared
    for name, study in STUDIES.items()
    for cell in study.cells()
    for shared in (
        *(cell.restrict_to(*list(cell.values)[:depth]) for depth in range(1, len(cell.axes))),
        cell,
    )
}


def job_file(build, *arguments):
    """Return the file of the job that a function builds, which is written unless it is there."""
    return as_workflow_error(build, *arguments).write(RESULTS)


def stage_job(stage, extra=lambda wildcards: {}):
    """Return the param of a rule of a stage: the file of the job.

    `extra(wildcards)` returns hashes of the user's files that the job reads.
    """

    def write_job(wildcards):
        block = getattr(wildcards, "seeds", "")
        arguments = wildcards.study, STUDIES[wildcards.study], find_cell(wildcards), block
        return job_file(stage.job, *arguments, extra(wildcards), PROJECT.accepted)

    return write_job


def table_job(name="{table}"):
    """Return the param of a rule of a table, whose name may hold wildcards: the file of the job."""
    return lambda wildcards: job_file(PROJECT.table_job, name.format(**wildcards))


def cell_files(name="{table}"):
    """Return an input function: the cell files of a table, whose name may hold wildcards."""
    return lambda wildcards: [
        f"<results>/{path}" for path in PROJECT.files_of(name.format(**wildcards))
    ]


def source_tables(name="{table}"):
    """Return an input function: the source tables of a table, whose name may hold wildcards."""
    return lambda wildcards: tables(PROJECT.tables[name.format(**wildcards)].tables)


def tables(names):
    """Return the files of tables."""
    return [f"<results>/tables/{name}.parquet" for name in names]


def scale_with_attempt(amount):
    """Return a resource that grows with every retry, so that a job that ran out of it gets more."""
    return lambda wildcards, attempt: attempt * amount


def gpus(wildcards):
    """Return the number of GPUs of a training."""
    return int(STUDIES[wildcards.study].training.device == "cuda")


def threads_of(wildcards):
    """Return the threads of a training on images."""
    return STUDIES[wildcards.study].training.threads
