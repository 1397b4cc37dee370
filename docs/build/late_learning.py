"""What the theorem on late learning says at published points (docs/method/fate.md)."""

import math
from collections.abc import Mapping

import numpy as np
import pandas as pd

from rarefeat.model.theory import activation_probability
from rarefeat.studies.fate.learning_times import largest_normal, share_learned
from rarefeat.workflow.config.model import Data


def dose(point: Mapping) -> float:
    """Return the push at a point of `fate_points`, its own or an added one, over the threshold."""
    return (point["push_size"] or point["kick_size"]) / point["threshold"]


def large_pushes(points: pd.DataFrame) -> pd.DataFrame:
    """Return the points with reused pairs or a push whose push is above twice the threshold."""
    own = points["study"].isin(["reused", "reuse", "rarest"]) & points["push"].isna()
    points = points[(own | points["push"].isin(["neuron", "feature"])) & (points["threshold"] > 0)]
    learned = (points["at_once"] + points["late"]) / points["n"]
    points = points.assign(dose=points.apply(dose, axis=1), learned_share=learned)
    return points[points["dose"] > 2]


def count_right(points: pd.DataFrame) -> dict[str, int]:
    """Return at how many points each rule says whether most runs learn the feature late.

    "best" is the best answer for each decay and frequency, which knows the outcomes.
    """
    points = points[points["n"] > points["at_once"]]
    most = points["late"] > (points["n"] - points["at_once"]) / 2
    rules = {
        "push": points["kick_size"] >= points["threshold"],
        "leak": points["largest_leak"] > points["lambda"],
        "best": most.groupby([points["lambda"], points["eps_min"]]).transform("mean") >= 0.5,
        "never": False,
    }
    counts = {name: int((most == said).sum()) for name, said in rules.items()}
    return {"points": len(points)} | counts


def theorem_share(point: Mapping, pushes: str) -> float:
    """Return the percentage of runs that (b) lets learn, with as many pushes as a column says."""
    limit = largest_normal(point["neurons"])
    return 100 * float(share_learned(dose(point), limit, point[pushes]))


def critical_pairs(point: Mapping, pushes: str) -> float:
    """Return the number of pairs with which (b) lets half of the runs learn, with such pushes."""
    neurons, independent = (largest_normal(point[name]) for name in ("neurons", pushes))
    return point["critical_N"] * (independent / neurons) ** 2


def silent_pairs(fresh: Mapping, data: Data) -> float:
    """Return the number of pairs below which (c) says nothing, with the leak of fresh pairs."""
    q = fresh["eps_min"] * activation_probability(np.ones(data.d), data.C)[0] ** 2
    largest = 2 * data.L**2
    u = (fresh["lambda"] - fresh["leak"]) / (q * largest)
    return math.log(fresh["neurons"]) / (q * ((1 + u) * math.log1p(u) - u))
