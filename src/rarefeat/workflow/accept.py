"""Accept changed code that gives the same bytes, so that nothing is computed again.

A sample of the outputs of every stage that runs changed code is computed again, elsewhere: three of
every study, the smallest. If all of them have the same bytes, the new code hashes are recorded as
equivalent to the old ones, with the sample. If one differs it is named, and nothing is accepted.
"""

import datetime
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from rarefeat.errors import RarefeatError
from rarefeat.workflow.files.sealed_files import BLANK, SEAL, write_file
from rarefeat.workflow.registry import find_stage
from rarefeat.workflow.run.cli_helpers import progress
from rarefeat.workflow.run.code_hashes import (
    ACCEPTED,
    calls_registry_entries,
    code_hash,
    is_registry_entry,
    read_accepted,
)
from rarefeat.workflow.run.job import Job
from rarefeat.workflow.run.metadata import read_job_metadata
from rarefeat.workflow.run.write_guard import ACCEPTING

JOBS = "jobs"
"""Folder of the files of jobs, below that of results."""
EXECUTE = (sys.executable, "-m", "rarefeat.workflow.run.execute_job")
ORDER = (".md", ".html", ".safetensors", ".parquet", ".pdf", ".png")
"""Suffixes of outputs, in the order in which a job lists those that are no files of a cell."""
SAMPLE_SIZE = 3
"""Number of jobs, or all that there are, of every stage and study."""


class CompletedJob(NamedTuple):
    """A job, the file that says what it was told, and its outputs."""

    path: Path
    job: Job
    outputs: list[Path]


def completed_jobs(results: Path) -> list[CompletedJob]:
    """List the jobs that have a file and outputs below a folder of results, by their metadata."""
    jobs: dict[str, CompletedJob] = {}
    for path in sorted((results / JOBS).glob("*.json")):
        job = Job.model_validate_json(path.read_bytes())
        # The file of a cell holds its whole job, and a product the identity.
        values = json.dumps(json.loads(job.to_json), sort_keys=True)
        jobs[values] = jobs[job.identity] = CompletedJob(path, job, [])
    for path in sorted(results.rglob("*")):
        hidden = any(name.startswith(".") for name in path.relative_to(results).parts)
        metadata = read_job_metadata(path) if path.suffix in ORDER and not hidden else None
        key = (metadata or {}).get("job") or json.dumps(metadata, sort_keys=True)
        if key in jobs:
            jobs[key].outputs.append(path)
    for completed in jobs.values():
        stage = find_stage(completed.job.stage)
        folders = [results / folder for folder in stage.folders] if stage else [results]
        completed.outputs.sort(
            key=lambda path: (
                [not path.is_relative_to(folder) for folder in folders],
                ORDER.index(path.suffix),
            )
        )
    return list({one.path: one for one in jobs.values() if one.outputs}.values())


def current_hash(name: str) -> str:
    """Hash the code of a stage; empty if there is no stage of this name any more."""
    try:
        return code_hash(name)
    except (LookupError, RarefeatError):
        return ""


def executed_code(job: Job) -> Iterator[str]:
    """List the code that a job runs, of all that it depends on."""
    schema = job.config.get("schema", {})
    schemas = [schema] if isinstance(schema, str) else schema.values()
    yield from {job.stage, job.runs, *schemas} & job.code.keys()
    entries = filter(is_registry_entry, job.code)
    is_known = current_hash(job.stage) != ""
    yield from entries if is_known and calls_registry_entries(job.stage) else ()


def changed_stages(jobs: list[CompletedJob]) -> dict[str, tuple[str, str]]:
    """Return the hash before and the hash now of all code that changed.

    It raises RarefeatError if outputs are of several versions of it, or no job that runs it is
    there.
    """
    before: dict[str, tuple[str, Path]] = {}
    for completed in jobs:
        for name, value in completed.job.code.items():
            if before.setdefault(name, (value, completed.outputs[0]))[0] != value:
                raise RarefeatError(
                    f"cannot accept: {completed.outputs[0]} and {before[name][1]} are of different"
                    f" code of {name};"
                    " run snakemake first, or delete one"
                )
    current = {name: current_hash(name) for name in before}
    changes = {
        name: (value, current[name])
        for name, (value, _) in before.items()
        if current[name] not in ("", value)
    }
    executed = {
        name
        for completed in jobs
        if current[completed.job.stage]
        for name in executed_code(completed.job)
    }
    for name in changes.keys() - executed:
        raise RarefeatError(
            f"cannot accept the change of {name}: no output of a job that runs it is there to"
            f" compare with"
            f" (needed for {before[name][1]}); run snakemake"
        )
    return changes


def choose_sample(jobs: list[CompletedJob], names: Collection[str]) -> list[CompletedJob]:
    """Choose the jobs to run again: for all changed code SAMPLE_SIZE of each stage and study."""
    sample: list[CompletedJob] = []
    counts: Counter[tuple] = Counter()
    for completed in sorted(jobs, key=lambda one: sum(path.stat().st_size for path in one.outputs)):
        job = completed.job
        keys = [(name, job.stage, job.study) for name in names if name in executed_code(job)]
        if keys and min(counts[key] for key in keys) < SAMPLE_SIZE:
            counts.update(keys)
            sample.append(completed)
    return sample


def first_difference(completed: CompletedJob) -> str:
    """Run a job again, elsewhere, and say which output differs; empty if none does."""
    with tempfile.TemporaryDirectory(prefix="rarefeat-") as folder:
        copies = [Path(folder, str(i), path.name) for i, path in enumerate(completed.outputs)]
        threads = str(completed.job.config.get("training", {}).get("threads", 1))
        variables = {
            key: value for key, value in os.environ.items() if not key.startswith("RAREFEAT_")
        }
        done = subprocess.run(
            [*EXECUTE, "--job", str(completed.path), "--output", *map(str, copies)],
            env=variables
            | {"OMP_NUM_THREADS": threads, "MKL_NUM_THREADS": threads, ACCEPTING: "1"},
            capture_output=True, encoding="utf-8", check=False,
        )  # fmt: skip
        if done.returncode:
            error = (done.stderr.strip() or "its job failed").splitlines()[-1]
            return f"{completed.outputs[0]}: {error}"
        pairs = zip(completed.outputs, copies, strict=True)
        return next(
            (
                f"{path}: the new bytes differ"
                for path, copy in pairs
                if path.read_bytes() != copy.read_bytes()
            ),
            "",
        )


def accept(results: Path, cores: int = 1) -> dict[str, tuple[str, str]]:
    """Record what changed code gives the same bytes, and return its hashes before and now.

    It raises RarefeatError if an output of the sample differs.
    """
    jobs = completed_jobs(results)
    if not jobs:
        raise RarefeatError(f"cannot accept: no job in {results / JOBS} has outputs; run snakemake")
    changes = changed_stages(jobs)
    sample = choose_sample(jobs, changes)
    with ThreadPoolExecutor(cores) as pool:
        for difference in progress(
            pool.map(first_difference, sample), len(sample), "jobs run again"
        ):
            if difference:
                pool.shutdown(cancel_futures=True)
                raise RarefeatError(f"cannot accept: {difference}")
    entries = read_accepted(results)
    for stage, (before, after) in changes.items():
        paths = sorted(
            str(path) for one in sample if stage in executed_code(one.job) for path in one.outputs
        )
        today = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        entries.append(
            {"stage": stage, "before": before, "now": after, "date": today, "sample": paths}
        )
    if changes:
        text = json.dumps({SEAL: BLANK, "accepted": entries}, indent=1)
        write_file(results / ACCEPTED, f"{text}\n", sealed=True)
    return changes
