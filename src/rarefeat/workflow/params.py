"""Params of rules: the settings that a function reads, and the hashes of its code, as texts.

Snakemake keeps and compares params. A job has two at most, as each that is a function costs a
large plan a second; the texts within them stand apart by SEPARATOR, so that the logger can tell
which has changed: `before: 'training.eta=0.1' now: 'training.eta=0.2'`.
"""

import functools
import inspect
from collections.abc import Callable
from typing import Any

from snakemake.exceptions import WorkflowError

from rarefeat.errors import RarefeatError
from rarefeat.workflow.project import Project
from rarefeat.workflow.registry import find_stage
from rarefeat.workflow.run.code_hashes import module_hashes, settings_read
from rarefeat.workflow.run.job import Job, flat
from snakemake_logger_plugin_rarefeat import SEPARATOR


def as_workflow_error(function: Callable, *arguments: Any, **options: Any) -> Any:
    """Return what a function returns; an error of a user's becomes one line of Snakemake's."""
    try:
        return function(*arguments, **options)
    except RarefeatError as error:
        raise WorkflowError(str(error)) from None


def signed(function: Callable) -> Callable:
    """Return a function with its signature, which Snakemake else finds out anew for each job."""
    function.__signature__ = inspect.signature(function)  # type: ignore[attr-defined]
    return function


def cell_of(wildcards: Any) -> str:
    """Return the path of the cell of a job; empty where a study has one."""
    axes = {name: value for name, value in wildcards.items() if name not in ("study", "seeds")}
    return axes.get("cell") or "/".join(map("=".join, axes.items()))


def stage_params(project: Project, function: str, *names: str) -> list[Any]:
    """Return the params of a stage that reads the settings with some names: its code, and settings.

    They are of the job's own study alone: a study that is added or changed moves no other's.
    """
    stage = find_stage(function)
    if set(names) != set(read := settings_read(function)):
        told = ", ".join(names)
        raise WorkflowError(f"{function} reads {', '.join(read)}, and its params say {told}")
    texts = as_workflow_error(project.setting_texts, stage)
    check = functools.cache(functools.partial(as_workflow_error, project.check_inputs))

    @signed
    def settings(wildcards: Any) -> str:
        cell, seeds = cell_of(wildcards), wildcards.get("seeds", "")
        if (wildcards.study, cell) not in texts:
            raise WorkflowError(f"{wildcards.study} has no cell {cell}; see its grid in the config")
        check(wildcards.study)
        files = as_workflow_error(project.user_files, wildcards.study, seeds)
        return SEPARATOR.join(texts[wildcards.study, cell] + flat(files))

    hashes = as_workflow_error(module_hashes, *stage.lineage)
    return [SEPARATOR.join(map(" ".join, hashes.items())), settings]


def told(job: Callable[[Any], Job]) -> list[Callable]:
    """Return the params of a job whose function depends on its wildcards: all that it is told."""

    def texts(wildcards: Any) -> str:
        found = as_workflow_error(job, wildcards)
        return SEPARATOR.join([*flat(found.config), *map(" ".join, found.code.items())])

    return [texts]
