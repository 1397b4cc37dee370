"""What the study of selection makes."""

from rarefeat.studies.selection.config import DIGITS, Digits, InterventionSweep, Selection, inherit
from rarefeat.study_kind import (
    ClaimInputs,
    Figure,
    Page,
    Stage,
    StudyKind,
    StudyOutputs,
    collected_table,
    table_from,
    values_on_axes,
)

PACKAGE = "studies.selection"
MEASURE = Stage(
    f"{PACKAGE}.measure:measure_selection",
    InterventionSweep,
    lambda sweep, cell: sweep.training_config(),
    ("probes.parquet", "scores.parquet"),
)
MEASURE_DIGITS = Stage(
    f"{PACKAGE}.digits:digits_of_selection",
    Digits,
    lambda digits, cell: digits.training_config(),
    ("probes.parquet",),
)
SCHEMAS = f"{PACKAGE}.tables"
LAW = ("law_fit", "law_test")
SEE = {
    "selection": (
        "What finds the neurons of a rare feature, and what moves its step. (a) AUC of each rule for the neurons pure in it, by the"
        " share of the bias. (b) What masks by these rules change, minority gain less majority gain. (c) Share of replicas that learn"
        " the feature, over its frequency, as trained and with help before the gate closes; learned is here a cosine of at least 0.5. (d) The law's step against the measured"
        " one in regimes that it was not fitted on. See which rule leaves the line of chance, and what"
        " moves the curve."
    ),
    "selection_scores": (
        "AUC of every rule over training step, by the share of the bias; means over seeds with 95 % intervals. A half is chance."
        " Points at which fewer than five replicas have such a neuron are left out, here and in (a) of the figure of the whole study. See"
        " that a rate tells the neurons only once they are pure, and only where a bias has made them so."
    ),
    "selection_interventions": (
        "Every mask that begins at T3, with and without a stop and with masked keys, against the dense training at the same"
        " seed: minority gain less majority gain, error of a linear head on balanced data, neurons pure in the rare feature,"
        " and the largest norm; means with 95 % intervals. See which intervals leave zero, and beside which the norm runs away."
    ),
    "selection_steps": (
        "The eps_min at which half of the replicas have a neuron with a cosine of at least 0.5 to the rare feature, by intervention and"
        " share of the bias, with 95 % intervals; arrows where it lies beyond all eps_min. See what lies to the left of dense."
    ),
    "selection_law": (
        "The law for the step. (a) Predicted against measured in drawn regimes; (b) the error over the share of the bias;"
        " (c) share of replicas that learned by the probability that the law gives them; (d) AUC of the law's"
        " margin and of the ratio at T1. See where points leave the diagonal."
    ),
    "selection_digits": (
        "Long-tailed digits: what a mask by each rule changes of the accuracy on rare and on frequent digits, minus dense at the same"
        " seed, with 95 % intervals, and in words where a rule ruins the training. See whether any other rule differs from random."
    ),
}  # fmt: skip

FOUND = (
    "scores_new_selection_scores",
    "interventions_selection",
    "selection_steps",
    "selection_law",
)
"""Tables that what was found is read from."""


def build_outputs(section: Selection) -> StudyOutputs:
    """The tables of each sweep; steps, the law and the digits; and their figures."""
    tables = {}
    for name, sweep in section.sweeps.items():
        tables[f"{name}_selection"] = collected_table(
            f"{SCHEMAS}:SELECTION", MEASURE, "probes", name, sweep
        )
        tables[f"{name}_selection_scores"] = collected_table(
            f"{SCHEMAS}:SELECTION_SCORES", MEASURE, "scores", name, sweep
        )
    if of_steps := numbers_of(section, "help", *LAW):
        tables["selection_steps"] = table_from(
            f"{PACKAGE}.critical_frequency:selection_steps", tables=of_steps
        )
    if of_law := numbers_of(section, *LAW):
        law = {"sweeps": section.studies_with_role(*LAW)}
        tables |= {
            name: table_from(f"{PACKAGE}.model_validation:{name}", law, tables=of_law)
            for name in ("selection_fate", "selection_law")
        }
    tables[DIGITS] = collected_table(
        f"{SCHEMAS}:SELECTION_DIGITS", MEASURE_DIGITS, "probes", DIGITS, section.digits
    )
    small = tuple(name for name in ("selection_steps", "selection_law", DIGITS) if name in tables)
    page = Page(
        "which neurons to prune", f"{PACKAGE}.findings:answer", FOUND, {"selection": section}, small
    )
    return StudyOutputs(
        tables, figures(section), {"selection": page} if set(FOUND) <= set(tables) else {}
    )


def numbers_of(section: Selection, *roles: str) -> tuple[str, ...]:
    """Tables of numbers of the sweeps with a role."""
    return tuple(f"{name}_selection" for name in section.studies_with_role(*roles))


def figures(section: Selection) -> dict[str, Figure]:
    """The figures of the sweeps that there are."""
    scores = tuple(f"{name}_selection_scores" for name in section.studies_with_role("scores"))
    masks, helped = numbers_of(section, "interventions"), numbers_of(section, "help")
    law = ("selection_fate", "selection_law") if section.studies_with_role(*LAW) else ()
    found = {
        "selection_scores": scores, "selection_interventions": masks, "selection_steps": ("selection_steps",) if helped else (),
        "selection_law": law, "selection_digits": (DIGITS,),
    }  # fmt: skip
    if scores and masks and helped and law:
        found["selection"] = (*scores, *masks, *helped, *law)
    parts = {"selection": section}
    return {
        name: Figure(tables, SEE[name], sections=parts) for name, tables in found.items() if tables
    }


def claim_inputs(section: Selection) -> ClaimInputs:
    """What is stated beyond the papers."""
    kept = {
        **section.studies_with_role("scores", "interventions", "help"),
        **section.studies_with_role(*LAW),
    }
    tables = [
        f"{name}_selection"
        for name, sweep in kept.items()
        if sweep.role in ("interventions", "help")
    ]
    tables += [f"{name}_selection_scores" for name in section.studies_with_role("scores")]
    tables += ["selection_fate", "selection_law"] if section.studies_with_role(*LAW) else []
    regimes = {
        name: {
            **values_on_axes(sweep),
            "arm": {arm.label for arm in sweep.arms},
            "step": set(sweep.scored),
            "source": {"running", "batch"},
        }
        for name, sweep in section.sweeps.items()
    }
    regimes[DIGITS] = {"rho": set(section.digits.rho), "rule": set(section.digits.training.rules)}
    return ClaimInputs((*tables, DIGITS), {"selection": section}, regimes)


# By default once its full run has been made.
KIND = StudyKind(
    "selection", "Which neurons to prune", Selection, build_outputs, Selection.studies, (MEASURE, MEASURE_DIGITS), inherit=inherit, claim_inputs=claim_inputs,
    by_default=False,
)  # fmt: skip
