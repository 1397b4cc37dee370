"""The public interface: train encoders, load, save and draw them, read tables and the config.

`train` and `load_encoder` give one encoder, `sweep` the measurements of many; `train_learners` and
`sweep_learners` do so for learners of one's own. The stages that the
workflow runs are in `stages`, and the declarations of studies in `workflow/study_kind.py`.
"""

from rarefeat.api.arguments import load_config
from rarefeat.api.critical_frequency import critical_frequency, predict_critical_frequency
from rarefeat.api.encoder import Batch, Encoder, load_encoder, train
from rarefeat.api.learner_sweeps import sweep_learners
from rarefeat.api.learners import Learners, load, stream_pairs, train_learners
from rarefeat.api.presets import Preset, preset
from rarefeat.api.sweeps import Sweep, sweep
from rarefeat.api.tables import read_table
from rarefeat.errors import RarefeatError
from rarefeat.model.arms import PruningContext
from rarefeat.model.bias import BiasContext

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
