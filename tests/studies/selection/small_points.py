"""Small training points and trainings for the tests of this study."""

from conftest import tiny_data, tiny_training

from rarefeat.stages.critical_frequency import TrainingPoint
from rarefeat.studies.selection.config import Intervention
from rarefeat.studies.selection.training import ArmReplicas, train, training_point

DATA = {"d": 6, "d1": 80, "L": 2, "C": 1.0, "N": 256, "probe_pairs": 60, "test_pairs": 80}
TRAINING = {"m": 12, "K": 32, "tau": 1.0, "eta": 0.1, "sigma_0": 0.01, "T": 40}


def a_point(eps_min: float = 0.7, sigma: float = 0.1, **training) -> TrainingPoint:
    """Return a training point that is small enough for seconds."""
    bias = {"share": 0.4, "T1": "eq34"} | training.pop("bias", {})
    values = tiny_training(**(TRAINING | training), bias=bias)
    return training_point(tiny_data(**DATA), values, sigma, None, {"eps_min": eps_min})


def train_arms(
    point: TrainingPoint, *arms: Intervention, seeds=(0, 1), scored=()
) -> dict[str, ArmReplicas]:
    """Return the trained replicas of some arms."""
    return train("selection tests", point, list(arms), list(scored), 10, 3, list(seeds))[0]
