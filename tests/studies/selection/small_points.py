"""Small training points and trainings for the tests of this study."""

from conftest import tiny_data, tiny_training

from rarefeat.stages.critical_frequency import TrainingPoint
from rarefeat.studies.selection.config import Intervention
from rarefeat.studies.selection.regimes import point
from rarefeat.studies.selection.training import ArmReplicas, train
from rarefeat.workflow.config.cells import Cell


def a_point(
    eps_min: float = 0.7, data: dict | None = None, sigma: float = 0.1, **training
) -> TrainingPoint:
    """Return a training point that is small enough for seconds."""
    sizes = {"d": 6, "d1": 80, "L": 2, "C": 1.0, "N": 256, "probe_pairs": 60, "test_pairs": 80} | (
        data or {}
    )
    bias = {"share": 0.4, "T1": "eq34"} | training.pop("bias", {})
    values = {
        "m": 12,
        "K": 32,
        "tau": 1.0,
        "eta": 0.1,
        "sigma_0": 0.01,
        "T": 40,
        "bias": bias,
    } | training
    return point(
        tiny_data(**sizes), tiny_training(**values), sigma, None, Cell((("eps_min", eps_min),))
    )


def train_arms(
    training_point: TrainingPoint,
    *arms: Intervention,
    seeds=(0, 1),
    scored=(),
    memory=10,
    patience=3,
) -> dict[str, ArmReplicas]:
    """Return the trained replicas of some arms."""
    lists = list(arms), list(scored)
    return train("selection tests", training_point, *lists, memory, patience, list(seeds))[0]
