"""Data, training and noise of a cell of a sweep, also where its regime is drawn."""

import math
from collections.abc import Mapping

import torch

from rarefeat.model.randomness import generator
from rarefeat.stages.critical_frequency import TrainingPoint
from rarefeat.studies.selection.config import LatinHypercube
from rarefeat.workflow.config.cells import Cell
from rarefeat.workflow.config.model import Data, Training
from rarefeat.workflow.config.ranges import Range

INTEGERS = ("L", "d", "d1", "m")
"""Parameters that are rounded to integers."""


def hypercube(
    draws: str, seed: int, regimes: int, ranges: Mapping[str, Range]
) -> dict[str, list[float]]:
    """Draw a Latin hypercube: the values of `workflow.config.ranges.latin_hypercube`, by torch."""
    columns = {}
    for name, interval in ranges.items():
        random = generator(draws, seed, name)
        strata = torch.randperm(regimes, generator=random)
        shares = (strata + torch.rand(regimes, generator=random, dtype=torch.float64)) / regimes
        columns[name] = [interval.point(float(share)) for share in shares]
    return columns


def drawn_regimes(parameters: LatinHypercube) -> list[dict[str, float]]:
    """Draw the values of every regime of a Latin hypercube."""
    columns = hypercube(
        "selection/hypercube", parameters.seed, parameters.regimes, parameters.ranges
    )
    return [
        {
            name: round(values[i]) if name in INTEGERS else values[i]
            for name, values in columns.items()
        }
        for i in range(parameters.regimes)
    ]


def point(
    data: Data,
    training: Training,
    sigma: float,
    parameters: LatinHypercube | None,
    cell: Cell,
) -> TrainingPoint:
    """Return the training point of a cell of a sweep.

    In a drawn regime, sigma_0 and sigma are scaled by d1^(-1/2), lambda is drawn in units of the
    growth rate of a frequent feature, and eta is such that a frequent feature grows by
    `parameters.growth` per step.
    """
    values = {axis: value for axis, value in cell.axes if axis not in ("eps_min", "regime")}
    if parameters:
        values = drawn_regimes(parameters)[int(cell["regime"])]
    d1 = data.d1
    data = data.model_copy(
        update={name: values[name] for name in ("C", "L", "d", "d1") if name in values}
    )
    scale = math.sqrt(d1 / data.d1)
    update = {name: values[name] for name in ("tau", "m") if name in values}
    update["sigma_0"] = scale * values.get("sigma_0", training.sigma_0)
    if "share" in values:
        update["bias"] = training.bias.model_copy(update={"share": values["share"]})
    if "lambda" in values:
        update["lambda_"] = values["lambda"]
    result = TrainingPoint(data, training.model_copy(update=update), scale * sigma, cell["eps_min"])
    if not parameters:
        return result
    rate, decay = result.growth_rate, values.get("lambda", training.lambda_ / result.growth_rate)
    rates = {"lambda_": decay * rate, "eta": parameters.growth / (rate * (1 - decay))}
    return result._replace(training=result.training.model_copy(update=rates))
