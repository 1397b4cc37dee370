"""Measurements for the claims on Theorem 3.2 where its premise holds."""

from collections.abc import Iterator, Mapping

import pandas as pd

from rarefeat.claims.measurements import Measurement, measurement
from rarefeat.run.job import Job
from rarefeat.studies.pruning_premise.changes import changes_from_dense, iter_points, select_arm
from rarefeat.studies.pruning_premise.config import PruningPremise

STUDY = "premise_by_hand"
OF_MAGNITUDE = {
    "P-15": "growth",
    "P-16": "spill",
    "P-18": "lead",
    "P-18-order": "level",
    "P-probe": "r2",
}
"""Column of each claim about magnitude pruning by eq. (5)."""
OVER_RANDOM = {"P-15-control": "growth", "P-18-control": "lead"}
"""Column of each claim about it minus the random mask."""


def measure(tables: Mapping[str, pd.DataFrame], job: Job) -> list[Measurement]:
    """Measure every claim at every point.

    Inputs: `premise_replicas`. Config: `pruning_premise`.
    """
    tau = job.config_section("pruning_premise", PruningPremise).training.tau
    table = tables["premise_replicas"]
    rows = [
        measurement("P-premise", STUDY, point, select_arm(group, "dense")["premise"])
        for point, group in iter_points(table)
    ]
    for point, group in iter_points(changes_from_dense(table)):
        rows += point_measurements(point, group, tau)
    return rows


def point_measurements(
    point: dict[str, float], rows: pd.DataFrame, tau: float
) -> Iterator[Measurement]:
    """Measure the claims about masks at one point.

    Parameters
    ----------
    point : dict
        Values on the axes.
    rows : DataFrame
        Result of `changes_from_dense` at the point.
    tau : float
        Temperature, the bound of eq. (18).
    """
    pruned, random, oracle = (
        select_arm(rows, arm) for arm in ("pruned_neuron", "random_neuron", "oracle_all")
    )
    straight = select_arm(rows, "pruned_neuron", "straight_through")
    for claim, column in OF_MAGNITUDE.items():
        lost = int(pruned["diverged"].sum())
        yield measurement(claim, STUDY, point, pruned[column], diverged=lost)
    for claim, column in OVER_RANDOM.items():
        lost = int(pruned["diverged"].sum() + random["diverged"].sum())
        yield measurement(claim, STUDY, point, pruned[column] - random[column], diverged=lost)
    lost = int(straight["diverged"].sum())
    yield measurement("P-straight", STUDY, point, straight["lead"], diverged=lost)
    # A runaway breaks the bound, so a diverged replica has a value here.
    yield measurement("P-18-bounded", STUDY, point, (oracle["projection"] <= tau).astype(float))
