"""The kinds of study. A new one is a folder in `studies/` and its name here."""

import importlib
from functools import cache

from rarefeat.kind import Kind

NAMES = (
    "imbalance",
    "scaling",
    "augmentation",
    "long_tail",
    "theory",
    "selection",
    "fine_labels",
    "two_layer",
    "exact_results",
)


@cache
def kinds() -> dict[str, Kind]:
    """Every kind by its name: KIND of the module `kind` of its folder."""
    return {name: importlib.import_module(f"rarefeat.studies.{name}.kind").KIND for name in NAMES}
