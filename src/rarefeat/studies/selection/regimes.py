"""Data, training and noise at a cell of a sweep, also where its regime is drawn."""

import math
from collections.abc import Mapping

from rarefeat.stages.critical_frequency import TrainingPoint
from rarefeat.studies.selection.config import LatinHypercube
from rarefeat.workflow.config.model import Data, Training


def point_of(cell: Mapping[str, float]) -> str:
    """Return the point of a cell, without eps_min, as in tables: `share=0.2, lambda=0.05`."""
    return ", ".join(f"{axis}={value:g}" for axis, value in cell.items() if axis != "eps_min")


def training_point(
    data: Data,
    training: Training,
    sigma: float,
    hypercube: LatinHypercube | None,
    cell: Mapping[str, float],
) -> TrainingPoint:
    """Return the training point of a cell of a sweep.

    In a drawn regime, sigma_0 and sigma are scaled by d1^(-1/2), lambda is drawn in units of the
    growth rate of a frequent feature, and eta is such that a frequent feature grows by
    `hypercube.growth` per step.
    """
    values = hypercube.values()[int(cell["regime"])] if hypercube else cell
    sizes = {name: values[name] for name in ("C", "L", "d", "d1") if name in values}
    scale = math.sqrt(data.d1 / sizes.get("d1", data.d1))
    update = {name: values[name] for name in ("tau", "m") if name in values}
    update["sigma_0"] = scale * values.get("sigma_0", training.sigma_0)
    if "share" in values:
        update["bias"] = training.bias.model_copy(update={"share": values["share"]})
    if "lambda" in values:
        update["lambda_"] = values["lambda"]
    data, training = data.model_copy(update=sizes), training.model_copy(update=update)
    result = TrainingPoint(data, training, scale * sigma, cell["eps_min"])
    if not hypercube:
        return result
    rate = result.growth_rate
    decay = values.get("lambda", training.lambda_ / rate)
    rates = {"lambda_": decay * rate, "eta": hypercube.growth / (rate * (1 - decay))}
    return result._replace(training=training.model_copy(update=rates))
