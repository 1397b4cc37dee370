"""Accept changed code that gives the same bytes, so that nothing is computed again.

A sample of the files whose code has changed is computed again, elsewhere: of every function the
three smallest. If all have the same bytes, the new code stands for the old one from then on
(`run/code_hashes.py: ACCEPTED`). If one differs it is named, and nothing is accepted.
"""

import multiprocessing
import os
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from rarefeat.errors import RarefeatError
from rarefeat.workflow.project import MERGED, Project, load_merged
from rarefeat.workflow.provenance import Planned, planned
from rarefeat.workflow.run import code_hashes
from rarefeat.workflow.run.cli_helpers import progress
from rarefeat.workflow.run.command import find_job, write_outputs
from rarefeat.workflow.run.job import Job
from rarefeat.workflow.run.job_inputs import JobInputs
from rarefeat.workflow.run.metadata import read_job_metadata

SAMPLE_SIZE = 3


class Made(NamedTuple):
    """Files of one job, the job as it is now, and the code that they say they are of."""

    paths: list[Path]
    job: Job
    before: dict[str, str]
    can_run: bool
    """Whether all files that the job reads are there."""


def made_files(project: Project) -> Iterator[Made]:
    """Yield the files of cells and the tables that are there and of the current config."""
    for item in planned(project):
        if item.paths[0].suffix in (".parquet", ".safetensors"):
            yield from as_made(item)


def as_made(item: Planned) -> Iterator[Made]:
    """Yield the files of a job if they are there, and differ from it in their code at most."""
    paths = item.paths
    if not all(path.is_file() for path in paths):
        return
    job = item.job()
    says = read_job_metadata(paths[0]) or {}
    before = says.get("code", {})
    told = job.model_copy(update={"code": before, "tables": says.get("tables", {})})
    # A table says the identity of its job, and the file of a cell its settings.
    same = says["job"] == told.identity if "job" in says else says.get("config", {}) == job.config
    if same and own_code(before) == own_code(job.code):
        yield Made(paths, job, before, all(path.is_file() for path in item.read))


def own_code(code: dict[str, str]) -> dict[str, str]:
    """Return the hashes of a user's own files."""
    return {name: value for name, value in code.items() if name.startswith("own.")}


def package_code(code: dict[str, str]) -> dict[str, str]:
    """Return the hashes of the package's modules."""
    return {name: value for name, value in code.items() if not name.startswith("own.")}


def run_again(made: Made, results: Path) -> str:
    """Run a job again, elsewhere, and say which file differs; empty if none does."""
    project, old = load_merged(str(results)), made.job
    name = old.study if old.seeds else made.paths[0].stem
    try:
        job = find_job(project, old.stage, name, old.cell_object.path, old.seeds)
        with tempfile.TemporaryDirectory(prefix="rarefeat-") as folder:
            copies = [Path(folder, str(i), path.name) for i, path in enumerate(made.paths)]
            write_outputs(job, JobInputs(job, results), copies)
            for path, copy in zip(made.paths, copies, strict=True):
                if path.read_bytes() != copy.read_bytes():
                    return f"{path}: the new bytes differ"
    except RarefeatError as error:
        return f"{made.paths[0]}: {error}"
    return ""


def accept(results: Path, cores: int = 1) -> list[str]:
    """Let changed code that gives the same bytes stand for the old one; return the functions.

    RarefeatError if a file of the sample differs.
    """
    if not (results / MERGED).is_file():
        raise RarefeatError(f"{results}: no run has been made in it")
    code_hashes.read_start(results)
    project = load_merged(str(results))
    changed: dict[str, list[Made]] = defaultdict(list)
    for made in made_files(project):
        now, before = package_code(made.job.code), package_code(made.before)
        if now != before:
            code_hashes.ACCEPTED[code_hashes.hash_code(now)] = before
            changed[made.job.stage].append(made)
    sample = []
    for function, files in changed.items():
        runnable = sorted((made for made in files if made.can_run), key=size)
        if not runnable:
            raise RarefeatError(f"cannot accept: what {function} reads is gone; run snakemake")
        sample += runnable[:SAMPLE_SIZE]
    code_hashes.module_hashes.cache_clear()
    jobs = [(made, results) for made in sample]
    with multiprocessing.get_context("fork").Pool(cores, maxtasksperchild=1) as pool:
        found = pool.starmap(run_again, jobs, chunksize=1)
        if wrong := [line for line in progress(found, len(jobs), "jobs run again") if line]:
            raise RarefeatError(f"cannot accept: {wrong[0]}")
    code_hashes.write_accepted(results)
    return sorted(changed)


def size(made: Made) -> int:
    """Return the bytes of the files of a job."""
    return sum(os.path.getsize(path) for path in made.paths)
