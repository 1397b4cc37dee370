"""Accept changed code that gives the same bytes, so that nothing is computed again.

A sample of the files whose code has changed is computed again, elsewhere: of every function the
three smallest. If all have the same bytes, the new code stands for the old one from then on
(`run/code_hashes.py: ACCEPTED`). If one differs it is named, and nothing is accepted.
"""

import multiprocessing
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from rarefeat.errors import RarefeatError
from rarefeat.workflow.project import MERGED, Project, load_merged
from rarefeat.workflow.provenance import planned
from rarefeat.workflow.run import code_hashes
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

    @property
    def size(self) -> int:
        """Bytes of its files."""
        return sum(path.stat().st_size for path in self.paths)


def made_files(project: Project) -> Iterator[Made]:
    """Yield the files of cells and the tables that are there and of the current config.

    They differ from their job in the code of the package at most.
    """
    for item in planned(project):
        paths = item.paths
        is_data = paths[0].suffix in (".parquet", ".safetensors")
        if not is_data or not all(path.is_file() for path in paths):
            continue
        job, says = item.job(), read_job_metadata(paths[0]) or {}
        before = says.get("code", {})
        told = job.model_copy(update={"code": before, "tables": says.get("tables", {})})
        # A table says the identity of its job, and the file of a cell its settings.
        same = (
            says["job"] == told.identity if "job" in says else says.get("config", {}) == job.config
        )
        if same and split_code(before)[1] == split_code(job.code)[1]:
            yield Made(paths, job, before, all(path.is_file() for path in item.read))


def split_code(code: dict[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """Return the hashes of the package's modules, and those of a user's own files."""
    own = {name: value for name, value in code.items() if name.startswith("own.")}
    return {name: value for name, value in code.items() if name not in own}, own


def run_again(made: Made, results: Path) -> str:
    """Run a job again, elsewhere, and say which file differs; empty if none does."""
    project, old = load_merged(str(results)), made.job
    name = old.study if old.cell else made.paths[0].stem
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
        now, before = split_code(made.job.code)[0], split_code(made.before)[0]
        if now != before:
            code_hashes.ACCEPTED[code_hashes.hash_code(now)] = before
            changed[made.job.stage].append(made)
    sample = []
    for function, files in changed.items():
        runnable = sorted((made for made in files if made.can_run), key=lambda made: made.size)
        if not runnable:
            raise RarefeatError(f"cannot accept: what {function} reads is gone; run snakemake")
        sample += runnable[:SAMPLE_SIZE]
    code_hashes.module_hashes.cache_clear()
    with multiprocessing.get_context("fork").Pool(cores, maxtasksperchild=1) as pool:
        found = pool.starmap(run_again, [(made, results) for made in sample], chunksize=1)
        if wrong := [line for line in found if line]:
            raise RarefeatError(f"cannot accept: {wrong[0]}")
    code_hashes.write_accepted(results)
    return sorted(changed)
