"""Declaration of the study of the premise of Theorem 3.2."""

from rarefeat.config.study import SHARED_TRAINING_KEYS
from rarefeat.studies.pruning_premise.config import PruningPremise
from rarefeat.study_kind import (
    ClaimInputs,
    Figure,
    Page,
    Stage,
    StudyKind,
    StudyOutputs,
    collected_table,
)

NAME, STUDY, TABLE = "pruning_premise", "premise_by_hand", "premise_replicas"
MEASURE = Stage(
    f"studies.{NAME}.measure:measure_premise",
    PruningPremise,
    PruningPremise.job_config,
    ("probes.parquet",),
)
CAPTION = (
    "What each mask changes of the rare feature, minus dense at the same seed, with 95 % intervals."
    " (a) Its strength against that of the other features, over the share of the smallest neurons"
    " that are its own when pruning begins; a mark for each decay, frequency and bias, all from"
    " pure neurons of one size. (b) The same, over initial weights from drawn (0) to pure (1), at"
    " the point with the strongest effect in (a). (c) What a linear probe reads of it there. See"
    " where eq. (5) parts from the random mask, how far from the right of (b) it still does, and"
    " that the straight-through gradient does the opposite."
)


def build_outputs(section: PruningPremise) -> StudyOutputs:
    """Return the table of all replicas, the figure and the page."""
    table = collected_table(f"studies.{NAME}.tables:PREMISE", MEASURE, "probes", STUDY, section)
    page = Page(
        "pruning where its premise holds",
        f"studies.{NAME}.findings:answer",
        (TABLE,),
        {NAME: section},
        shown=(TABLE,),
    )
    return StudyOutputs({TABLE: table}, {"premise": Figure((TABLE,), CAPTION)}, {NAME: page})


def claim_inputs(section: PruningPremise) -> ClaimInputs:
    """Return the table that the claims are measured on."""
    return ClaimInputs((TABLE,), {NAME: section})


KIND = StudyKind(
    NAME,
    "Pruning where its premise holds",
    PruningPremise,
    build_outputs,
    studies=lambda section: {STUDY: section},
    stages=(MEASURE,),
    inherits=SHARED_TRAINING_KEYS,
    claim_inputs=claim_inputs,
    by_default=False,
    question="Does pruning act as Theorem 3.2 says where the rare feature's neurons are the"
    " smallest?",
)
