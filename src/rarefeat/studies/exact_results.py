"""Which statements of Shi's dissertation hold exactly? (chapters 2 and 4 to 8)

Each result is a study of its own and a file of `theorems/`, which computes it without its closed
form and beside it; keys of the config are in `theorems/problems.py`.
"""

import csv
from pathlib import Path

from pydantic import Field

from rarefeat.studies.theorems import problems
from rarefeat.workflow.config.section import Section
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

THEOREMS, EXACT = "studies.theorems", "studies.theorems.exact"
QUESTION = "Which statements of Shi's dissertation hold exactly?"
CAPTIONS = {
    "looped_transformer": "Normalised squared error over loops, with the fewest and the most"
    " examples: lines without rounding, marks the transformer's own output in double precision,"
    " dashed the bound exp(-t / kappa). Mean of the logarithm over experiments with 95 % intervals."
    " See where the marks stop falling, and how far each line is from its bound.",
    "low_rank_attention": "Mean squared error of linear attention by its rank, simulated, marks,"
    " and in closed form, lines, for tasks in the leading directions alone and in all of them. See"
    " at which rank more directions begin to harm.",
    "spurious_features": "Each seed's instance: accuracy out of domain of the ridge's minimum over"
    " the number of invariant features, below the exp(-r / 10) that is stated. See how far below.",
    "task_mixture": "Weight of a rare task's own features, and of a frequent one's, over how"
    " often the rare task comes: minimisers of sampled losses, marks, and Lemma F.3, lines. See"
    " from which frequency on the rare task is encoded at all.",
    "digit_neurons": "Silhouette of the best clustering of the neurons' directions at the end of"
    " training, by the size of the initial weights. See for which of them clusters form.",
    "nuclear_norm": "Accuracy out of domain by the penalty on the nuclear norm, if the two hidden"
    " values are the logits; dashed are the printed 0.76 without and 0.94 with the penalty. See"
    " which way the penalty moves it.",
}


class ExactResults(Section):
    """Every exact result, and what is out of reach."""

    looped_transformer: problems.LoopedTransformer
    low_rank_attention: problems.LowRankAttention
    spurious_features: problems.SpuriousFeatures
    task_mixture: problems.TaskMixture
    modular_addition: problems.ModularAddition
    digit_neurons: problems.DigitNeurons
    nuclear_norm: problems.NuclearNorm
    machine: problems.MachineSpeed = Field(
        description="what the cost of the experiments that are out of reach is counted on"
    )


STAGES = {
    name: Stage(f"{THEOREMS}.{name}:measure", field.annotation, ("probes.parquet",))
    for name, field in ExactResults.model_fields.items()
    if name != "machine"
}


def studies(section: ExactResults) -> dict[str, problems.Result]:
    """Return the study of each result."""
    return {name: getattr(section, name) for name in STAGES}


def experiments() -> list[dict[str, str]]:
    """Read the experiments that are out of reach."""
    path = Path(__file__).with_name("theorems") / "out_of_reach.csv"
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def build_outputs(section: ExactResults) -> StudyOutputs:
    """Declare a table and a figure of each result, a table of all, and one of the costs."""
    tables = {
        name: collected_table(f"{THEOREMS}.{name}:SCHEMA", STAGES[name], "probes", name, study)
        for name, study in studies(section).items()
    }
    tables["exact_results"] = Table(f"{EXACT}:SCHEMA", f"{EXACT}:summarise", tables=tuple(STAGES))
    costs = {"machine": section.machine, "experiments": experiments()}
    tables["out_of_reach"] = Table(f"{EXACT}:OUT_OF_REACH", f"{EXACT}:costs", costs)
    settings = {"task_mixture": {"mixtures": section.task_mixture.mixtures}}
    figures = {
        name: Figure((name,), text, f"{THEOREMS}.{name}", "plot", settings.get(name, {}))
        for name, text in CAPTIONS.items()
    }
    page = Page("Exact results", ("exact_results", "out_of_reach"), tuple(figures), QUESTION)
    return StudyOutputs(tables, figures, {"exact_results": page})


# By default once its full run has been made.
KIND = StudyKind(
    "exact_results",
    "Exact results",
    ExactResults,
    build_outputs,
    studies,
    tuple(STAGES.values()),
    claim_inputs=lambda section: ClaimInputs(tuple(STAGES), function=f"{EXACT}:claims"),
    by_default=False,
    schemas=(
        *(f"{THEOREMS}.{name}:SCHEMA" for name in STAGES),
        *(f"{EXACT}:{name}" for name in ("SCHEMA", "OUT_OF_REACH")),
    ),
)
