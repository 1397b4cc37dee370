"""The laboratory from Python: train one encoder or sweep over many, load, save and draw them, read tables and the config."""

from rarefeat.api.arguments import load_config
from rarefeat.api.encoder import Batch, Encoder, load, load_encoder, train
from rarefeat.api.step import predict_step
from rarefeat.api.sweeps import Sweep, sweep
from rarefeat.api.tables import read_table
from rarefeat.core.arms import Seen
from rarefeat.core.bias import Moved
from rarefeat.core.errors import RarefeatError

__all__ = [
    "Batch", "Encoder", "Moved", "RarefeatError", "Seen", "Sweep", "load", "load_config", "load_encoder", "predict_step",
    "read_table", "sweep", "train",
]  # fmt: skip
