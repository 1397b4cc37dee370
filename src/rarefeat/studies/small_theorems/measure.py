"""The stage of the small theorems: one function for each, by name."""

from rarefeat.studies.small_theorems import (
    first_stages,
    gradient_features,
    input_structure,
    invariant_features,
    parity_in_context,
)
from rarefeat.studies.small_theorems.config import (
    GradientFeatures,
    HiddenBits,
    InputStructure,
    ParityInContext,
    TrainedStages,
)
from rarefeat.workflow.run.job import Job
from rarefeat.workflow.run.job_inputs import JobInputs

MEASURES = {
    "invariant_features": (HiddenBits, invariant_features.measure),
    "parity_in_context": (ParityInContext, parity_in_context.measure),
    "gradient_features": (GradientFeatures, gradient_features.measure),
    "input_structure": (InputStructure, input_structure.measure),
    "first_stages": (TrainedStages, first_stages.measure),
}
"""Section of the config and function of each theorem."""


def measure_theorem(inputs: JobInputs, job: Job) -> list[dict]:
    """Measure a point of a theorem on a block of seeds.

    Config: `draws`, `problem`. Output: rows of `tables.THEOREM_NUMBERS`.
    """
    result, point = job.cell["result"], job.cell["point"]
    section, measure = MEASURES[result]
    problem, draws = job.config_section("problem", section), job.config_section("draws", str)
    return [
        {
            "result": result,
            "point": str(point),
            "seed": row.seed,
            "at": float(row.place),
            "quantity": row.quantity,
            "value": float(row.value),
            "stated": float(row.stated),
        }
        for row in measure(problem, point, f"{draws} {result}", job.seed_list)
    ]
