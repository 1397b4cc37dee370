"""The laboratory from Python: train one encoder or sweep over many, load, save and draw them, read tables and the config."""

from rarefeat.api.arguments import load_config
from rarefeat.api.critical_frequency import predict_critical_frequency
from rarefeat.api.deprecated import NAMES, warn
from rarefeat.api.encoder import Batch, Encoder, load, load_encoder, train
from rarefeat.api.sweeps import Sweep, sweep
from rarefeat.api.tables import read_table
from rarefeat.core.arms import PruningContext
from rarefeat.core.bias import BiasContext
from rarefeat.core.errors import RarefeatError

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


def __getattr__(name: str) -> object:
    """Return what a former name stands for now."""
    if name in NAMES:
        warn(name, NAMES[name])
        return globals()[NAMES[name]]
    raise AttributeError(f"module 'rarefeat.api' has no attribute {name!r}")
