"""Do the theorems hold whose measurement takes a minute? (Shi, chapters 3, 5, 7; Liao et al.)

Each theorem is a file of `theorems/`; keys of the config are in `theorems/problems.py`. One study
has a cell for each point of each theorem.
"""

from pydantic import Field

from rarefeat.studies.theorems import problems
from rarefeat.workflow.config.cells import Cell, cell
from rarefeat.workflow.config.model import Data, Training
from rarefeat.workflow.config.section import Section
from rarefeat.workflow.config.seeds import SeedSettings
from rarefeat.workflow.config.study import SHARED_TRAINING_KEYS
from rarefeat.workflow.study_kind import (
    ClaimInputs,
    Figure,
    Page,
    Stage,
    StudyKind,
    StudyOutputs,
    collected_table,
)

THEOREMS, POINTS, TABLE = "studies.theorems", "theorem_points", "theorem_numbers"
QUESTION = "Do the theorems hold whose measurement takes a minute?"


class SmallTheorems(SeedSettings):
    """Small theorems, each a problem; the section is its only study."""

    invariant_features: problems.HiddenBits
    parity_in_context: problems.ParityInContext
    gradient_features: problems.GradientFeatures
    input_structure: problems.InputStructure
    first_stages: problems.FirstStages
    data: Data = Field(description="the data model of the first stages")
    training: Training = Field(
        description="their encoder; the bias begins where (41) holds, T bounds the search for T2"
    )

    def cells(self) -> list[Cell]:
        """Return a cell for each point of each theorem."""
        points = {
            "invariant_features": self.invariant_features.norm,
            "parity_in_context": self.parity_in_context.d,
            "gradient_features": self.gradient_features.laws(),
            "first_stages": self.first_stages.eps_min,
            "input_structure": self.input_structure.m,
        }
        return [
            cell(result=result, point=point)
            for result, values in points.items()
            for point in values
        ]

    def settings(self, cell: Cell) -> dict[str, Section]:
        """Return the problem of the theorem of a cell."""
        problem = getattr(self, cell["result"])
        if isinstance(problem, problems.FirstStages):
            problem = problems.TrainedStages(
                **problem.model_dump(), data=self.data, training=self.training
            )
        return {"problem": problem}


MEASURE = Stage(f"{THEOREMS}.small:measure", SmallTheorems, ("probes.parquet",))
SCHEMA = f"{THEOREMS}.small:SCHEMA"
CAPTION = (
    "How far the optimum of the logistic loss moves with each bit, over the norm of the"
    " representation, at the largest norm: invariant bits from the most frequent to the rarest, and"
    " spurious ones that a positive pair redraws or shares. See which it ignores."
)


def build_outputs(section: SmallTheorems) -> StudyOutputs:
    """Return the table, the figure of Theorems 7.1 and 7.2, and the page."""
    table = collected_table(SCHEMA, MEASURE, "probes", POINTS, section)
    figures = {"invariant_features": Figure((TABLE,), CAPTION, f"{THEOREMS}.plots")}
    page = Page("Small theorems", (TABLE,), tuple(figures), QUESTION)
    return StudyOutputs({TABLE: table}, figures, {"small_theorems": page})


KIND = StudyKind(
    "small_theorems",
    "Small theorems",
    SmallTheorems,
    build_outputs,
    studies=lambda section: {POINTS: section},
    stages=(MEASURE,),
    inherits=SHARED_TRAINING_KEYS,
    claim_inputs=lambda section: ClaimInputs((TABLE,), function=f"{THEOREMS}.small:claims"),
    by_default=False,
    question=QUESTION,
    schemas=(SCHEMA,),
)
