"""Registry of the study kinds. A new one is a file or a folder in `studies/`, and its name here."""

import importlib
import importlib.util
from functools import cache

from rarefeat.errors import RarefeatError
from rarefeat.workflow.study_kind import SHARED_STAGES, Stage, StudyKind

NAMES = (
    "imbalance",
    "scaling",
    "augmentation",
    "long_tail",
    "theory",
    "selection",
    "fate",
    "fine_labels",
    "two_layer",
    "exact_results",
    "pruning_premise",
    "small_theorems",
    "learners",
)


@cache
def load_kind(name: str) -> StudyKind:
    """Return KIND of the file of a kind, or of the module `declaration` of its folder."""
    if importlib.util.find_spec(f"rarefeat.studies.{name}") is None:
        raise RarefeatError(f"registry: studies/{name}: not found, as file or folder; check NAMES")
    module = importlib.import_module(f"rarefeat.studies.{name}")
    return (
        module
        if hasattr(module, "KIND")
        else importlib.import_module(f"{module.__name__}.declaration")
    ).KIND


def kinds() -> dict[str, StudyKind]:
    """Return every kind by its name."""
    return {name: load_kind(name) for name in NAMES}


def find_stage(function: str) -> Stage | None:
    """Return the pipeline stage with a function; None for that of a table, a figure or a page."""
    package, *names = function.partition(":")[0].split(".")
    stages = (
        load_kind(names[0]).stages
        if package == "studies" and names[:1] and names[0] in NAMES
        else SHARED_STAGES
    )
    return next((stage for stage in stages if stage.function == function), None)
