"""Declaration of the small theorems: one table of all their numbers, a figure, a page."""

from rarefeat.studies.small_theorems.config import SmallTheorems
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

NAME, STUDY, TABLE = "small_theorems", "theorem_points", "theorem_numbers"
MEASURE = Stage(
    f"studies.{NAME}.measure:measure_theorem",
    SmallTheorems,
    ("probes.parquet",),
    job_config=SmallTheorems.job_config,
)
CAPTION = (
    "(a) Sampled contrastive loss with l(t) = -t over minus the variance of the smoothed"
    " representation, where spurious bits are independent and where one is tied to an invariant"
    " bit. (b) How far the optimum of the logistic loss moves with each bit, over the norm of"
    " the representation; spurious bits with and without a transformation. See that (a) is 1"
    " only where they are independent, and whether rarer bits come later in (b)."
)


QUESTION = "Do the theorems hold whose measurement takes a minute?"


def build_outputs(section: SmallTheorems) -> StudyOutputs:
    """Return the table, the figure of Theorems 7.1 and 7.2, and the page."""
    table = collected_table(
        f"studies.{NAME}.tables:THEOREM_NUMBERS", MEASURE, "probes", STUDY, section
    )
    figures = {"invariant_features": Figure((TABLE,), CAPTION)}
    page = Page("Small theorems", (TABLE,), tuple(figures), QUESTION)
    return StudyOutputs({TABLE: table}, figures, {NAME: page})


KIND = StudyKind(
    NAME,
    "Small theorems",
    SmallTheorems,
    build_outputs,
    studies=lambda section: {STUDY: section},
    stages=(MEASURE,),
    inherits=SHARED_TRAINING_KEYS,
    claim_inputs=lambda section: ClaimInputs((TABLE,)),
    by_default=False,
    question=QUESTION,
)
