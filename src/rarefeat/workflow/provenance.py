"""Verify results.

What should be there is what the config of the last run plans: files are looked for by its names, so
that one that was cut, emptied or renamed is found, too.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from rarefeat.errors import RarefeatError
from rarefeat.workflow.files import sealed_files
from rarefeat.workflow.files.origin import KEY
from rarefeat.workflow.files.sealed_files import SEAL
from rarefeat.workflow.project import MERGED, Project, load_merged, paths
from rarefeat.workflow.run.code_hashes import read_start
from rarefeat.workflow.run.job import Job
from rarefeat.workflow.run.metadata import read_origin, stale


class Planned(NamedTuple):
    """One job of a config: its outputs, itself, and the files that it reads."""

    paths: list[Path]
    job: Callable[[], Job]
    read: list[Path]


def planned(project: Project) -> Iterator[Planned]:
    """Yield the jobs of a config, but for those that a checkpoint decides."""
    results = Path(project.results)
    for stage in project.stages:
        for name in project.studies_of(stage):
            study = project.studies[name]
            for cell, block, _ in stage.files_of(name, study, next(iter(stage.folders), "")):
                where = stage.shared_cell(cell).path, block
                read = [
                    results / upstream.path(folder, name, cell, block)
                    for upstream in stage.upstream
                    for folder in upstream.folders
                    if upstream.config_of(study, cell) is not None
                ]
                made = [results / stage.path(folder, name, cell, block) for folder in stage.folders]
                yield Planned(made, partial(project.stage_job, stage, name, *where), read)
    for name, job_of, made, tables in project.products:
        table = project.tables[name] if job_of == project.table_job else None
        of_cells = table and table.files and hasattr(table.cells_of, "cells")
        files = project.files_of(name) if of_cells else []
        read = [results / path for path in (*files, *paths(tables))]
        yield Planned([results / path for path in made], partial(job_of, name), read)


def verify(results: str | Path) -> tuple[list[str], list[Path]]:
    """List what is wrong with files of a folder of results, and what `snakemake` would still make.

    Wrong is a file that is damaged, is not what its name says, or is of another config or code, and
    one that is missing beside others of its job.
    """
    results = Path(results)
    if not results.is_dir():
        raise RarefeatError(f"{results} is not a folder")
    lines, unmade, known = [], [], set()
    if (results / MERGED).is_file():
        read_start(results)
        # The folder may have been moved.
        project = replace(load_merged(str(results)), results=str(results))
        for job in planned(project):
            known.update(job.paths)
            there = [path for path in job.paths if path.is_file()]
            missing = [path for path in job.paths if path not in there]
            lines += [line for path in there if (line := wrong_with(path, job.job))]
            lines += [f"{path} is missing beside {there[0]}" for path in missing if there]
        unmade = [path for name in project.default if not (path := results / name).is_file()]
    return lines + [
        line for path in iter_files(results) if path not in known if (line := wrong_with(path))
    ], unmade


def wrong_with(path: Path, job: Callable[[], Job] | None = None) -> str:
    """Return what is wrong with a file of a job, or of an unknown one; empty if nothing is."""
    try:
        if job:
            sealed_files.verify(path)
        origin = read_origin(path)
        if name := other_name(path, origin):
            told = f"{path} is not the file that its name says: it is {name}"
            return f"{told}; delete it and run snakemake again"
        made_by = origin["job"] if "job" in origin else Job.model_validate(origin).identity
        if job and made_by != job().identity:
            raise stale(path)
    except RarefeatError as error:
        return str(error)
    return ""


def iter_files(results: Path) -> Iterator[Path]:
    """Yield the files of the workflow, without checkpoints, hidden files and a user's own."""
    for path in sorted(results.rglob("*")):
        names = path.relative_to(results).parts
        if "checkpoints" in names or any(name.startswith(".") for name in names):
            continue
        match path.suffix:
            case ".parquet" | ".safetensors":
                yield path
            case ".png" | ".pdf" if path.parent.name == "figures":
                yield path
            case ".md" | ".html" if re.search(f"{SEAL}|<!-- {KEY} ".encode(), path.read_bytes()):
                yield path


def other_name(path: Path, origin: dict[str, Any]) -> str:
    """Return what a file is if its path says something else; empty if it does not."""
    if "name" in origin:
        return "" if origin["name"] == path.stem else origin["name"]
    cell = [f"{axis}={value}" for axis, value in origin.get("cell", {}).items()]
    seeds = [f"seeds={origin['seeds']}"] if "seeds" in origin else []
    names = [*filter(None, [origin.get("study")]), *cell, *seeds]
    # Axes may stand in any order.
    told = path.with_suffix("").parts[-len(names) :]
    return "" if not names or sorted(told) == sorted(names) else "/".join(names)
