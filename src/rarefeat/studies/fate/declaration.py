"""Declaration of the study of late learning: its stage, tables, figure, page and claims."""

from collections.abc import Iterable

from rarefeat.studies.fate.config import LateLearning, LearningStudy
from rarefeat.workflow.config.study import SHARED_TRAINING_KEYS
from rarefeat.workflow.study_kind import (
    ClaimInputs,
    Figure,
    Page,
    Stage,
    StudyKind,
    StudyOutputs,
    collected_table,
    table_from,
)

PACKAGE = "studies.fate"
MEASURE = Stage(
    f"{PACKAGE}.measure:measure_fate",
    LearningStudy,
    ("probes.parquet",),
    job_config=LearningStudy.training_config,
)
LEARNED = (
    "Fraction of replicas that have learned the rare feature (a cosine of at least 0.5) against"
    " training"
    " step, with exact 95 % intervals"
)
CAPTION = (
    f"{LEARNED}. By the number of training pairs that come back, at 0.2 times the frequency of the"
    " other features and a weight decay of 0.02. Compare how many replicas learn late."
)
CONDITIONS = (
    "Fraction of replicas that have learned the rare feature by the last step (a cosine of at"
    " least 0.5),"
    " with exact 95 % intervals, against its frequency: fresh pairs at every step, and pairs that"
    " come back, a line for each weight decay. Right, controls: each pair also with the sign of the"
    " rare feature flipped, the rare feature alone in its samples, and no noise."
)


QUESTION = (
    "Is a rare feature that is not learned at once learned later, and on what does that depend?"
)


def build_outputs(section: LateLearning) -> StudyOutputs:
    """Return the tables of the studies, of learning outcomes and of the models; one figure."""
    tables = {
        f"{name}_fate": collected_table(f"{PACKAGE}.tables:FATE", MEASURE, "probes", name, study)
        for name, study in section.studies.items()
    }
    points = section.studies_with_role("point")
    modelled = section.studies_with_role("fit", "test")
    tables["fate_shares"] = table_from(
        f"{PACKAGE}.learning_times:fate_shares", tables=tables_of(points)
    )
    sources = {"fate_points": points}
    if modelled:
        sources["fate_times"] = modelled
    for name, studies in sources.items():
        tables[name] = table_from(
            f"{PACKAGE}.learning_times:{name}", {"courses": studies}, tables=tables_of(studies)
        )
    figures = {
        "fate_over_time": Figure(("fate_shares",), CAPTION),
        "fate_conditions": Figure(("fate_points",), CONDITIONS),
    }
    page = Page("Late learning", ("fate_shares", "fate_points"), tuple(figures), QUESTION)
    return StudyOutputs(tables, figures, {"fate": page})


def tables_of(names: Iterable[str]) -> tuple[str, ...]:
    """Return the names of the tables of some studies."""
    return tuple(f"{name}_fate" for name in names)


def claim_inputs(section: LateLearning) -> ClaimInputs:
    """Return the tables that the claims on late learning are measured on."""
    tables = tables_of(section.studies_with_role("point"))
    tables += ("fate_times",) if section.studies_with_role("fit", "test") else ()
    return ClaimInputs(tables, {"fate": section})


# A plain `snakemake` makes it once its full run has been made.
KIND = StudyKind(
    "fate",
    "Late learning",
    LateLearning,
    build_outputs,
    stages=(MEASURE,),
    inherits=SHARED_TRAINING_KEYS,
    claim_inputs=claim_inputs,
    by_default=False,
)
