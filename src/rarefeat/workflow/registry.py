"""The study kinds: every file and folder of `studies/` that declares `STUDY`, or `KIND`."""

import importlib
from functools import cache

from rarefeat.errors import RarefeatError
from rarefeat.workflow.run.code_hashes import find_file
from rarefeat.workflow.study_kind import SHARED_STAGES, STUDIES, Stage, StudyKind

FIRST = ("imbalance", "scaling", "augmentation", "long_tail", "theory", "selection", "fate")
"""Kinds that lists begin with; the others follow by name."""
NO_STUDY = ("experiment", "theorems")
"""What the folder holds beside kinds."""


@cache
def names() -> tuple[str, ...]:
    """Return the names of all kinds, in the order of lists."""
    files = {path.stem for path in STUDIES.glob("[a-z]*.py")}
    folders = {path.parent.name for path in STUDIES.glob("*/__init__.py")}
    found = sorted((files | folders) - {*NO_STUDY})
    return (*(name for name in FIRST if name in found), *(n for n in found if n not in FIRST))


@cache
def load_kind(name: str) -> StudyKind:
    """Return what a kind declares; RarefeatError that names its file, where it has a mistake."""
    try:
        imported = importlib.import_module(f"rarefeat.studies.{name}")
        return imported.KIND if hasattr(imported, "KIND") else imported.STUDY.kind
    except Exception as error:
        path = find_file(f"studies.{name}").relative_to(STUDIES.parents[1])
        what = f"{type(error).__name__}: {error}"
        raise RarefeatError(f"{path}: {' '.join(what.split())}") from error


@cache
def broken() -> dict[str, str]:
    """Return what is wrong with each kind that cannot be imported, by its name."""
    errors = {}
    for name in names():
        try:
            load_kind(name)
        except RarefeatError as error:
            errors[name] = str(error)
    return errors


def kinds() -> dict[str, StudyKind]:
    """Return every kind that can be imported, by its name."""
    return {name: load_kind(name) for name in names() if name not in broken()}


def find_stage(function: str) -> Stage | None:
    """Return the pipeline stage with a function; None for that of a table, a figure or a page."""
    package, *path = function.partition(":")[0].split(".")
    if package != "studies":
        stages = SHARED_STAGES
    elif path[0] in names():
        stages = load_kind(path[0]).stages
    else:  # a folder whose files several kinds share
        stages = tuple(stage for kind in kinds().values() for stage in kind.stages)
    return next((stage for stage in stages if stage.function == function), None)
