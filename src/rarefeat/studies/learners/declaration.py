"""Declaration of the study of learners: stages, tables, figures, page and claims."""

from rarefeat.studies.learners.config import LearnerStudies, LearnerStudy
from rarefeat.workflow.config.study import SHARED_TRAINING_KEYS
from rarefeat.workflow.study_kind import (
    ClaimInputs,
    Figure,
    Page,
    Stage,
    StudyKind,
    StudyOutputs,
    Table,
    collected_table,
)

PACKAGE = "studies.learners"
CHOOSE_RATE = Stage(
    f"{PACKAGE}.measure:choose_rate",
    LearnerStudy,
    ("rates.parquet",),
    axes=("learner",),
    job_config=LearnerStudy.rate_config,
)
LEARN = Stage(
    f"{PACKAGE}.measure:learn",
    LearnerStudy,
    ("readouts.parquet",),
    (CHOOSE_RATE,),
    job_config=LearnerStudy.training_config,
)
CLAIM_STUDY = "which_learners"
"""The study that the claims are about."""
CAPTION = (
    "Frequency from which half of the replicas pass, by learner, with 95 % bootstrap intervals over"
    " seeds: by a linear readout of the embeddings (filled), which an untrained encoder passes, too,"
    " and by the best neuron's cosine (open); an arrow stands for the end of the grid. `infonce` is"
    " the paper's learner, and each other row differs from it in the one thing that it is named"
    " after. (b) R^2 of the readout of the frequent features, the same for all if learning is"
    " matched; grey: all features before training. Compare where a learner stands with the first"
    " row, and whether both measures agree."
)


QUESTION = "Do other losses, encoders and optimisers learn the rare feature that InfoNCE misses?"


def build_outputs(section: LearnerStudies) -> StudyOutputs:
    """Return four tables, a figure and a page of tables for each study."""
    tables, figures, pages = {}, {}, {}
    for name, study in section.studies.items():
        for folder, stage in (("rates", CHOOSE_RATE), ("readouts", LEARN)):
            schema = f"{PACKAGE}.tables:{folder.upper()}"
            tables[f"{name}_{folder}"] = collected_table(schema, stage, folder, name, study)
        for table in ("learners", "frequencies"):
            tables[f"{name}_{table}"] = Table(
                f"{PACKAGE}.tables:{table.upper()}",
                f"{PACKAGE}.lockout:{table}",
                {"data": study.data},
                tables=(f"{name}_readouts",),
                study=name,
            )
        shown = tuple(f"{name}_{table}" for table in ("frequencies", "learners", "rates"))
        sections = {"order": list(study.learners)}
        figures[f"{name}_lockout"] = Figure(shown, CAPTION, function="lockout", sections=sections)
        page = Page(f"Learners of {name}", shown, (f"{name}_lockout",), QUESTION)
        pages[f"{name}_lockout"] = page
    return StudyOutputs(tables, figures, pages)


def claim_inputs(section: LearnerStudies) -> ClaimInputs | None:
    """Return the tables that the claims on learners are measured on; None without their study."""
    if CLAIM_STUDY not in section.studies:
        return None
    return ClaimInputs((f"{CLAIM_STUDY}_readouts",), {"learners": section})


# A plain `snakemake` makes it once its full run has been made.
KIND = StudyKind(
    "learners",
    "Which learners miss a rare feature?",
    LearnerStudies,
    build_outputs,
    stages=(CHOOSE_RATE, LEARN),
    inherits=SHARED_TRAINING_KEYS,
    claim_inputs=claim_inputs,
    by_default=False,
    question=QUESTION,
)
