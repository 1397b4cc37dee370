"""Do the theorems hold whose measurement takes a minute? (Shi, chapters 3, 5, 7; Liao et al.)

Each theorem is a file of `theorems/`; keys of the config are in `theorems/problems.py`. One study
has a cell for each point of each theorem.
"""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from rarefeat.studies.theorems.problems import SmallTheorems
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

if TYPE_CHECKING:
    import pandas as pd

    from rarefeat.claims.measurements import Measurement

THEOREMS, STUDY, TABLE = "studies.theorems", "theorem_points", "theorem_numbers"
QUESTION = "Do the theorems hold whose measurement takes a minute?"
MEASURE = Stage(f"{THEOREMS}.small:measure", SmallTheorems, ("probes.parquet",))
SCHEMA = f"{THEOREMS}.small:SCHEMA"
CAPTION = (
    "(a) Sampled contrastive loss with l(t) = -t over minus the variance of the smoothed"
    " representation, where spurious bits are independent and where one is tied to an invariant"
    " bit. (b) How far the optimum of the logistic loss moves with each bit, over the norm of"
    " the representation; spurious bits with and without a transformation. See that (a) is 1"
    " only where they are independent, and whether rarer bits come later in (b)."
)


def build_outputs(section: SmallTheorems) -> StudyOutputs:
    """Return the table, the figure of Theorems 7.1 and 7.2, and the page."""
    name = "invariant_features"
    table = collected_table(SCHEMA, MEASURE, "probes", STUDY, section)
    figures = {name: Figure((TABLE,), CAPTION, f"{THEOREMS}.{name}", "plot")}
    page = Page("Small theorems", (TABLE,), tuple(figures), QUESTION)
    return StudyOutputs({TABLE: table}, figures, {"small_theorems": page})


def measure(tables: Mapping[str, "pd.DataFrame"]) -> Iterator["Measurement"]:
    """Measure every claim at every point."""
    from rarefeat.studies.theorems import small

    return small.claims(tables[TABLE])


def summarise(table: "pd.DataFrame") -> "pd.DataFrame":
    """Return mean, interval and stated value of each quantity at every point."""
    from rarefeat.studies.theorems.tables import means

    return means(table, ["result", "point", "at", "quantity"])


TABLES = {"theorem_means": ((TABLE,), summarise)}
KIND = StudyKind(
    "small_theorems",
    "Small theorems",
    SmallTheorems,
    build_outputs,
    studies=lambda section: {STUDY: section},
    stages=(MEASURE,),
    inherits=SHARED_TRAINING_KEYS,
    claim_inputs=lambda section: ClaimInputs((TABLE,)),
    by_default=False,
    question=QUESTION,
    schemas=(SCHEMA,),
)
