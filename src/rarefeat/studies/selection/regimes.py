"""What a cell of a sweep is: its data, training and noise, also where the regime is one of a Latin hypercube."""

import math
from collections.abc import Mapping

import torch

from rarefeat.chain.critical_frequency import TrainingPoint
from rarefeat.config.cells import Cell
from rarefeat.config.model import Data, Training
from rarefeat.config.ranges import Range
from rarefeat.core.randomness import generator
from rarefeat.studies.selection.config import LatinHypercube

WHOLE = ("L", "d", "d1", "m")


def hypercube(
    draws: str, seed: int, regimes: int, ranges: Mapping[str, Range]
) -> dict[str, list[float]]:
    """What config/latin_hypercube.py draws without torch: the jobs of sweeps have come through this one, and would all run anew."""
    columns = {}
    for name, found in ranges.items():
        random = generator(draws, seed, name)
        strata = torch.randperm(regimes, generator=random)
        shares = (strata + torch.rand(regimes, generator=random, dtype=torch.float64)) / regimes
        columns[name] = [found.point(float(share)) for share in shares]
    return columns


def drawn_regimes(drawn: LatinHypercube) -> list[dict[str, float]]:
    """The values of every regime of a Latin hypercube."""
    columns = hypercube("selection/hypercube", drawn.seed, drawn.regimes, drawn.ranges)
    return [
        {name: round(values[i]) if name in WHOLE else values[i] for name, values in columns.items()}
        for i in range(drawn.regimes)
    ]


def point(
    data: Data, training: Training, sigma: float, drawn: LatinHypercube | None, cell: Cell
) -> TrainingPoint:
    """The point of a cell of a sweep with these values.

    Of a drawn regime sigma_0 and sigma are scaled by d1^(-1/2), lambda is drawn in units of the pull, and eta is such that a
    frequent feature grows by `growth` a step.
    """
    values = {axis: value for axis, value in cell.axes if axis not in ("eps_min", "regime")}
    if drawn:
        values = drawn_regimes(drawn)[int(cell["regime"])]
    d1, data = (
        data.d1,
        data.model_copy(
            update={name: values[name] for name in ("C", "L", "d", "d1") if name in values}
        ),
    )
    scale = math.sqrt(d1 / data.d1)
    changed = {name: values[name] for name in ("tau", "m") if name in values}
    changed["sigma_0"] = scale * values.get("sigma_0", training.sigma_0)
    if "share" in values:
        changed["bias"] = training.bias.model_copy(update={"share": values["share"]})
    if "lambda" in values:
        changed["lambda_"] = values["lambda"]
    found = TrainingPoint(data, training.model_copy(update=changed), scale * sigma, cell["eps_min"])
    if not drawn:
        return found
    pull, decay = found.growth_rate, values.get("lambda", training.lambda_ / found.growth_rate)
    rates = {"lambda_": decay * pull, "eta": drawn.growth / (pull * (1 - decay))}
    return found._replace(training=found.training.model_copy(update=rates))
