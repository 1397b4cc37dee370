"""The kinds of study. A new one is a file or a folder in `studies/`, and its name here."""

import importlib
from functools import cache

from rarefeat.kind import SHARED_STAGES, Kind, Stage

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
)


@cache
def kind(name: str) -> Kind:
    """A kind: KIND of its file, or of the module `kind` of its folder."""
    found = importlib.import_module(f"rarefeat.studies.{name}")
    return (found if hasattr(found, "KIND") else importlib.import_module(f"{found.__name__}.kind")).KIND


def kinds() -> dict[str, Kind]:
    """Every kind by its name."""
    return {name: kind(name) for name in NAMES}


def stage_of(function: str) -> Stage | None:
    """The stage of cells with a function, of its kind or of several; None where the function is of no such stage."""
    package, *names = function.partition(":")[0].split(".")
    stages = kind(names[0]).stages if package == "studies" and names[:1] and names[0] in NAMES else SHARED_STAGES
    return next((stage for stage in stages if stage.function == function), None)
