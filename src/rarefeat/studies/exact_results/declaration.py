"""Declaration of the exact results: a table and a figure for each, and the costs.

The costs are of what is out of reach.
"""

import csv
from pathlib import Path

from rarefeat.studies.exact_results.config import RESULTS, ExactResults, inherit
from rarefeat.workflow.study_kind import (
    ClaimInputs,
    Figure,
    Page,
    Stage,
    StudyKind,
    StudyOutputs,
    Table,
    collected_table,
    table_from,
)

PACKAGE = "studies.exact_results"
STAGES = {
    name: Stage(
        f"{PACKAGE}.{name}:run_stage",
        result,
        ("probes.parquet",),
        job_config=lambda study, cell: {"parameters": study.parameters(cell)},
    )
    for name, result in RESULTS.items()
}
SEE = {
    "looped_transformer": (
        "Logarithm of the normalised squared error over loops, by the number of examples n: lines"
        " without rounding, marks the"
        " transformer's own output in double precision, dashed the bound -t / kappa. Mean over"
        " experiments with 95 % intervals. See"
        " where the marks stop falling and cross their bound, and whether the gap narrows with n"
        " as the text says."
    ),
    "low_rank_attention": (
        "Mean squared error of linear attention by its rank, simulated, marks, and in closed form,"
        " lines, for tasks in the leading"
        " directions alone and in all of them. See at which rank more directions begin to harm."
    ),
    "spurious_features": (
        "Each seed's instance: accuracy out of domain of the ridge's minimum over the number of"
        " invariant features, below the exp(-r / 10) that is stated. See how far below."
    ),
    "task_mixture": (
        "Weight of a rare task's private features, and of a frequent one's, over how often the rare"
        " task comes: minimisers of sampled losses, marks, and Lemma F.3, lines. See from which"
        " frequency on the rare task is encoded at all."
    ),
    "modular_addition": (
        "Normalised margin over gamma*, and the share of neurons with one frequency, over training"
        " steps; mean over seeds with its"
        " 95 % interval. See whether both reach 1."
    ),
    "digit_neurons": (
        "Silhouette of the best clustering of the neurons' directions, and median cosine to the"
        " difference of the class means, at the end of training, by the size of the initial"
        " weights. See for which of them two clusters form."
    ),
    "nuclear_norm": (
        "Accuracy out of domain over the penalty on the nuclear norm, by the reading of the text;"
        " dashed are the printed 0.76 without and 0.94 with the penalty. See which way the penalty"
        " moves."
    ),
}


def experiments() -> list[dict[str, str]]:
    """Read the experiments that are out of reach: a row of `out_of_reach.csv` for each."""
    with Path(__file__).with_name("out_of_reach.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


QUESTION = "Which statements of Shi's dissertation hold exactly?"


def build_outputs(section: ExactResults) -> StudyOutputs:
    """Declare tables of the results, of all of them together and of the costs, a figure for each,
    and a page.
    """
    studies = section.studies()
    tables = {
        name: collected_table(
            f"{PACKAGE}.tables:{name.upper()}", STAGES[name], "probes", name, study
        )
        for name, study in studies.items()
    }
    tables["exact_results"] = Table(
        f"{PACKAGE}.tables:EXACT_RESULTS",
        f"{PACKAGE}.summary:exact_results_summary",
        tables=tuple(studies),
    )
    costs = {"machine": section.machine, "experiments": experiments()}
    tables["out_of_reach"] = table_from(f"{PACKAGE}.out_of_reach:out_of_reach", costs)
    together = ("exact_results", "out_of_reach")
    figures = {
        name: Figure((name,), see, sections={name: studies[name]}) for name, see in SEE.items()
    }
    page = Page("Exact results", together, tuple(figures), QUESTION)
    return StudyOutputs(tables, figures, {"exact_results": page})


def claim_inputs(section: ExactResults) -> ClaimInputs:
    """Return the tables of the claims of chapters 2 and 4 to 8."""
    studies = section.studies()
    return ClaimInputs(tuple(studies), studies)


# By default once its full run has been made.
KIND = StudyKind(
    "exact_results",
    "Exact results",
    ExactResults,
    build_outputs,
    ExactResults.studies,
    tuple(STAGES.values()),
    inherit=inherit,
    claim_inputs=claim_inputs,
    by_default=False,
)
