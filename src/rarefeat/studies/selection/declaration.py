"""Declaration of the study of selection: its stages, tables, figures, page and claims."""

from rarefeat.studies.selection.config import DIGITS, Digits, InterventionSweep, Selection, inherit
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

PACKAGE = "studies.selection"
MEASURE = Stage(
    f"{PACKAGE}.measure:measure_selection",
    InterventionSweep,
    ("probes.parquet", "scores.parquet"),
    job_config=lambda sweep, cell: sweep.training_config(),
)
MEASURE_DIGITS = Stage(
    f"{PACKAGE}.digits:digits_of_selection",
    Digits,
    ("probes.parquet",),
    job_config=lambda digits, cell: digits.training_config(),
)
SCHEMAS = f"{PACKAGE}.tables"
LAW = ("law_fit", "law_test")
"""Roles of the sweeps of the critical-frequency model."""
CAPTIONS = {
    "selection_interventions": (
        "Every mask that begins at T3, with and without a stop and with masked keys, beside the"
        " dense training at the same seed: minority gain minus majority gain, means with 95 %"
        " intervals, and the share of trainings that diverge. Look for intervals above zero beside"
        " which nothing diverges."
    ),
    "selection_steps": (
        "Critical frequency, the eps_min at which half of the replicas have a neuron with a cosine"
        " of at least 0.5 to the rare feature, by intervention and bias scale, with 95 % intervals;"
        " arrows where it lies beyond all eps_min. Interventions to the left of dense lower it."
    ),
    "selection_law": (
        "Predictions of the critical-frequency model: predicted against measured critical frequency"
        " in drawn regimes, and the fraction of replicas that learned against the predicted"
        " probability. Look for points that leave the diagonal."
    ),
    "selection_digits": (
        "Long-tailed digits: change of the accuracy on rare and on frequent digits by a mask of"
        " each rule, minus dense at the same seed, with 95 % intervals; as a number where a rule"
        " ruins the training. Compare each rule with the random mask."
    ),
}


QUESTION = (
    "Which rule identifies the rare feature's neurons, what does pruning them do, and from which"
    " relative frequency on is the feature learned?"
)


def build_outputs(section: Selection) -> StudyOutputs:
    """Return the tables of the sweeps, the model and the digits, their figures, and a page."""
    tables = {}
    for name, sweep in section.sweeps.items():
        tables[f"{name}_selection"] = collected_table(
            f"{SCHEMAS}:SELECTION", MEASURE, "probes", name, sweep
        )
        tables[f"{name}_selection_scores"] = collected_table(
            f"{SCHEMAS}:SELECTION_SCORES", MEASURE, "scores", name, sweep
        )
    if sources := tables_with_role(section, "help", *LAW):
        tables["selection_steps"] = table_from(
            f"{PACKAGE}.critical_frequency:selection_steps", tables=sources
        )
    if sources := tables_with_role(section, *LAW):
        sections = {"sweeps": section.studies_with_role(*LAW)}
        tables |= {
            name: table_from(f"{PACKAGE}.model_validation:{name}", sections, tables=sources)
            for name in ("selection_fate", "selection_law")
        }
    tables[DIGITS] = collected_table(
        f"{SCHEMAS}:SELECTION_DIGITS", MEASURE_DIGITS, "probes", DIGITS, section.digits
    )
    shown = tuple(name for name in ("selection_steps", "selection_law", DIGITS) if name in tables)
    drawn = figures(section)
    page = Page("Which neurons to prune", shown, tuple(drawn), QUESTION)
    return StudyOutputs(tables, drawn, {"selection": page})


def tables_with_role(section: Selection, *roles: str) -> tuple[str, ...]:
    """Return the names of the tables `STUDY_selection` of the sweeps that have some roles."""
    return tuple(f"{name}_selection" for name in section.studies_with_role(*roles))


def figures(section: Selection) -> dict[str, Figure]:
    """Return the figures whose sweeps exist."""
    masks = tables_with_role(section, "interventions")
    helped = tables_with_role(section, "help")
    law = ("selection_fate", "selection_law") if section.studies_with_role(*LAW) else ()
    tables_of = {
        "selection_interventions": masks,
        "selection_steps": ("selection_steps",) if helped else (),
        "selection_law": law,
        "selection_digits": (DIGITS,),
    }
    sections = {"selection": section}
    return {
        name: Figure(tables, CAPTIONS[name], sections=sections)
        for name, tables in tables_of.items()
        if tables
    }


def claim_inputs(section: Selection) -> ClaimInputs:
    """Return the tables that the claims are measured on."""
    tables = [
        *tables_with_role(section, "interventions", "help"),
        *(f"{name}_selection_scores" for name in section.studies_with_role("scores")),
        *(("selection_fate", "selection_law") if section.studies_with_role(*LAW) else ()),
        DIGITS,
    ]
    return ClaimInputs(tuple(tables), {"selection": section})


# A plain `snakemake` makes it once its full run has been made.
KIND = StudyKind(
    "selection",
    "Which neurons to prune",
    Selection,
    build_outputs,
    Selection.studies,
    (MEASURE, MEASURE_DIGITS),
    inherit=inherit,
    claim_inputs=claim_inputs,
    by_default=False,
)
