"""rarefeat: what contrastive learning and pruning do to rare features, neuron by neuron."""

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rarefeat.api import *

__all__ = [
    "Batch",
    "BiasContext",
    "Encoder",
    "Learners",
    "Preset",
    "PruningContext",
    "RarefeatError",
    "Sweep",
    "critical_frequency",
    "load",
    "load_config",
    "load_encoder",
    "predict_critical_frequency",
    "preset",
    "read_table",
    "stream_pairs",
    "sweep",
    "sweep_learners",
    "train",
    "train_learners",
]
SNAKEFILE = f"{__path__[0]}/shipped/workflow/Snakefile"
"""The workflow, for `include` in a Snakefile."""


def __getattr__(name: str) -> object:
    """Return a member of `rarefeat.api`, which is slow to import, and which no job needs."""
    if name in __all__:
        return getattr(importlib.import_module("rarefeat.api"), name)
    raise AttributeError(f"module 'rarefeat' has no attribute {name!r}")


def __dir__() -> list[str]:
    """Return the public names, for completion."""
    return sorted([*globals(), *__all__])
