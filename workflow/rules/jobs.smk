"""Parameters, inputs and the shell command of jobs, for the files of rules."""

RUN_JOB = (
    "python -m rarefeat.run.launch --times {log:q}.tsv rarefeat.run.execute_job"
    " --job {params.job:q} --output {output:q} > {log:q} 2>&1"
)

CELLS = {
    (name, shared.path): shared
    for name, study in STUDIES.items()
    for cell in study.cells()
    for shared in (
        *(cell.restrict_to(*list(cell.values)[:depth]) for depth in range(1, len(cell.axes))),
        cell,
    )
}


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
