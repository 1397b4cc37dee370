"""rarefeat: what contrastive learning and pruning do to rare features, neuron by neuron."""

import importlib

__all__ = [
    "Batch",
    "BiasContext",
    "Encoder",
    "PruningContext",
    "RarefeatError",
    "Sweep",
    "load",
    "load_config",
    "load_encoder",
    "predict_critical_frequency",
    "read_table",
    "sweep",
    "train",
]  # fmt: skip
FORMER_NAMES = ("Moved", "Seen", "predict_step")
"""Former public names; `rarefeat.api` warns of them."""
SNAKEFILE = f"{__path__[0]}/shipped/workflow/Snakefile"
"""The workflow, for `include` in a Snakefile."""


def __getattr__(name: str) -> object:
    """What `rarefeat.api` has, once it is asked for: `import rarefeat` alone stays fast, which every job begins with."""
    if name in (*__all__, *FORMER_NAMES):
        return getattr(importlib.import_module("rarefeat.api"), name)
    raise AttributeError(f"module 'rarefeat' has no attribute {name!r}")


def __dir__() -> list[str]:
    """The public names, for completion."""
    return sorted([*globals(), *__all__])
