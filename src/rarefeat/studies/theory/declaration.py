"""Outputs and inputs of the claims of the theory."""

from rarefeat.studies.theory.config import HISTORY, Theory
from rarefeat.workflow.config.study import SHARED_STUDY_KEYS
from rarefeat.workflow.study_kind import (
    PRETRAIN,
    ClaimInputs,
    Figure,
    Page,
    StudyKind,
    StudyOutputs,
    Table,
    table_from,
    trajectories_table,
)

SCHEMAS = "studies.theory.tables"
MAPS = {
    "claims_map_phase": (
        "phase",
        "trajectories",
        "Alignment with the rare feature over training, against its frequency, with and without a"
        " bias and at two decays: where it takes off, beside the step that theory predicts; below,"
        " the same at three frequencies with intervals.",
    ),
    "claims_map_overlap": (
        "overlap",
        "overlap",
        "How far the neurons of smallest norm, which magnitude pruning takes, are those of the rare"
        " feature, over training step at one pruning ratio: pruning harms where it is large.",
    ),
}


QUESTION = "Which statements of the theory hold, and where?"


def build_outputs(section: Theory) -> StudyOutputs:
    """Return the tables of every study, two maps, and the page on sensitivity.

    Tables are milestones of the studies with a history, one step of those of the stages,
    trajectories of the others, and what half and double of each hyper-parameter change.
    """
    tables = {}
    for name, study in section.studies_with_role(*HISTORY).items():
        tables[f"{name}_milestones"] = read_from_encoders(
            "MILESTONE_ROWS", "milestones", name, study
        )
    for name, study in section.studies_with_role("stages", "T1_d").items():
        tables[f"{name}_one_step"] = read_from_encoders("ONE_STEP_ROWS", "one_step", name, study)
    for name, study in section.studies_with_role("pruning", "phase").items():
        tables[f"{name}_trajectories"] = trajectories_table(name, study)
    mapped = {"phase": list(section.studies_with_role("phase")), "overlap": section.maps.overlap}
    for name in mapped["overlap"]:
        tables[f"{name}_overlap"] = read_from_encoders(
            "OVERLAP", "overlap", name, section.studies[name]
        )
    varied = [name for name in section.every_study() if name not in section.studies]
    tables["half_and_double"] = table_from(
        "studies.theory.half_and_double:half_and_double",
        {"theory": section},
        tables=tuple(f"{name}_milestones" for name in (section.sensitivity.study, *varied)),
    )
    figures = {
        figure: Figure(
            tuple(f"{name}_{table}" for name in mapped[role]), see, function=role,
            sections={"studies": {name: section.every_study()[name] for name in mapped[role]}},
        )
        for figure, (role, table, see) in MAPS.items()
    }  # fmt: skip
    figures["half_and_double"] = Figure(
        ("half_and_double",),
        "The share of replicas that learn the rare feature with one hyper-parameter at half or at"
        " double its value, at three frequencies; the band is that of the study as it is. See which"
        " choices decide it where the feature is learned in part of the seeds.",
    )
    shown = ("half_and_double", "sensitivity_imbalance_and_pruning")
    page = Page("The theory, measured", shown, tuple(figures), QUESTION)
    return StudyOutputs(tables, figures, {"theory": page})


def read_from_encoders(schema: str, stage: str, name: str, study) -> Table:
    """Return a table of one study that a stage of this kind reads from its encoders."""
    function, encoders = f"studies.theory.{stage}:read_{stage}", {"encoders": PRETRAIN}
    return Table(
        f"{SCHEMAS}:{schema}", function, {name: study.as_plain_study()}, encoders, study=name
    )


def claim_inputs(section: Theory) -> ClaimInputs:
    """Return the inputs of the claims: milestones, one step, and trajectories of every study."""
    of_figures = ("_overlap", "half_and_double")
    tables = tuple(name for name in build_outputs(section).tables if not name.endswith(of_figures))
    return ClaimInputs((*tables, "confirmation_grid", "scaling_exponents"), {"theory": section})


KIND = StudyKind(
    "theory",
    "The theory, measured",
    Theory,
    build_outputs,
    Theory.every_study,
    inherits=SHARED_STUDY_KEYS,
    claim_inputs=claim_inputs,
    by_default=False,
)
