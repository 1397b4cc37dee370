"""The small theorems together: the job that measures a point, their table and their claims."""

from collections.abc import Iterator, Mapping

import pandas as pd

from rarefeat.claims.measurements import Measurement, measurement
from rarefeat.studies.experiment import column, meanings, text
from rarefeat.studies.theorems import (
    first_stages,
    gradient_features,
    input_structure,
    invariant_features,
    parity_in_context,
    problems,
)
from rarefeat.studies.theorems.results import Numbers, numbers_schema, plain_rows

PARTS = {
    "invariant_features": (invariant_features, problems.HiddenBits),
    "parity_in_context": (parity_in_context, problems.ParityInContext),
    "gradient_features": (gradient_features, problems.GradientFeatures),
    "input_structure": (input_structure, problems.InputStructure),
    "first_stages": (first_stages, problems.TrainedStages),
}
"""Module of each theorem and the type of its problem."""
SCHEMA = numbers_schema(
    "theorem_numbers",
    {
        "result": text("the theorems' module"),
        "point": text("norm B, features d, law of the data, eps_min or hidden units m"),
    },
    column("invariant bit; 0 where there is none", unit="of the quantity's axis"),
    "; ".join(f"**{result}**: {meanings(part.QUANTITIES)}" for result, (part, _) in PARTS.items()),
)


def measure(cell: dict, seeds: list[int], draws: str, problem: dict) -> list[dict]:
    """Measure a point of a theorem on a block of seeds."""
    result, point = cell["result"], cell["point"]
    part, kind = PARTS[result]
    rows = part.measure(point, seeds, f"{draws} {result}", kind.model_validate(problem))
    return plain_rows(rows, result=result, point=str(point))


def claims(tables: Mapping[str, pd.DataFrame]) -> Iterator[Measurement]:
    """Measure every claim at every point of the table."""
    (table,) = tables.values()
    for (result, point), rows in table.groupby(["result", "point"]):
        for claim, values in PARTS[result][0].claims(Numbers(rows)).items():
            # A claim on a law of the data speaks of no other one.
            if claim not in gradient_features.OTHER_LAW.get(point, ()):
                axes = {"result": result, "point": point}
                yield measurement(claim, "theorem_points", axes, values)
