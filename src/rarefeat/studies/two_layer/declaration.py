"""Declaration of the study of two-layer networks: stages, tables, figures and pages."""

from rarefeat.studies.two_layer.config import Emergence, Search, Setting, TwoLayer, inherit
from rarefeat.workflow.config.names import merge_unique
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

PACKAGE = "studies.two_layer"
MEASURE = Stage(
    f"{PACKAGE}.measure:measure_two_layer",
    Emergence,
    ("probes.parquet", "pictures.parquet"),
    job_config=Emergence.measurement_config,
)
SEARCH = Stage(
    f"{PACKAGE}.search:search_rates", Search, ("probes.parquet",), job_config=Search.searched
)
SEARCHED = ("two_layer_search", "two_layer_rates")
OVER_STEPS = {
    "labels": ("parity", "interval"),
    "dimension": ("dimension_100", "dimension_2000"),
    "class_ratio": ("class_ratio_0.8", "class_ratio_0.9"),
    "samples": ("samples_25000", "samples_10000"),
}
"""Settings that a figure shows beside each other, as the dissertation's do; any other has one of
its own."""
STAIRS = ("parity", "class_ratio_0.9", "samples_10000")
SEE_OVER_STEPS = (
    "Test accuracy over training steps with structured patterns, above, and with uniform ones,"
    " below; mean over"
    " seeds with its 95 % interval, and for parities the best that a score with 1 and 3 sign"
    " changes reaches as"
    " grey lines. See which methods leave the first of these lines, and whether any rises without"
    " structure."
)
SEE = {
    "two_layer_staircase": (
        "Test accuracy of every seed over steps, on a logarithmic axis. The grey lines are the"
        " best accuracies of scores that"
        " change sign once or three times over the number of relevant patterns. See where runs"
        " pause."
    ),
    "two_layer_printed": (
        "Tables A.1 to A.5: each number as printed, an open diamond, and as measured, a dot with"
        " its 95 %"
        " interval over seeds. See which diamonds lie outside."
    ),
    "two_layer_tickets": (
        "Test accuracy of small parts of the network after step 2, trained alone, over the number"
        " of neurons"
        " kept, by the score that chose them; 95 % intervals over seeds. See whether the norm, by"
        " which"
        " magnitude pruning chooses, is a good score."
    ),
    "two_layer_rare_patterns": (
        "One relevant pattern is rarer than the others: accuracy on the samples that it decides,"
        " on all samples, and its weight"
        " in the network, over its frequency. See at which frequency it is no longer learned, and"
        " whether class weights help."
    ),
}
SEE_BOUNDS = (
    "Left: hinge loss of heads on random features, a point for each seed, over what Theorem 2.2"
    " bounds it by. Right: Corollary"
    " 2.3 over the value of its unnamed polynomial, beside the linearised network, whose kernel is"
    " not shift-invariant: the"
    " corollary does not speak of it. See that no point on the left lies below the line of the"
    " mean."
)
SEE_NEURONS = (
    "The neurons of one seed, {setting}, before training and after the steps above the panels: a"
    " plane picture"
    " of their cosines, with the direction of the labels as a star. See whether neurons gather at"
    " the star."
)


QUESTION = "When do supervised networks find the patterns that decide?"


def build_outputs(section: TwoLayer) -> StudyOutputs:
    """Declare the tables of all settings and of the search, the figures and the page.

    Figures are by part of the appendix, with a picture of each setting's neurons.
    """
    study = section.emergence
    search = section.rate_search
    rates = {name: section.settings[name].rates for name in search.settings}
    tables = {
        "two_layer": collected_table(schema("two_layer"), MEASURE, "probes", "emergence", study),
        "two_layer_pictures": collected_table(
            schema("two_layer_pictures"), MEASURE, "pictures", "emergence", study
        ),
        "two_layer_search": collected_table(
            schema("two_layer_search"), SEARCH, "probes", "rate_search", section.search
        ),
        "two_layer_summary": table_from(
            f"{PACKAGE}.compare:two_layer_summary", tables=("two_layer",), study="emergence"
        ),
        "two_layer_closed_forms": table_from(
            f"{PACKAGE}.compare:two_layer_closed_forms", {"emergence": study}, study="emergence"
        ),
        "two_layer_rates": table_from(
            f"{PACKAGE}.learning_rates:two_layer_rates",
            {"rates": rates},
            tables=("two_layer_search",),
            study="rate_search",
        ),
    }
    figures = figures_of(study)
    page = Page("Two-layer networks", ("two_layer_summary", *SEARCHED), tuple(figures), QUESTION)
    return StudyOutputs(tables, figures, {"two_layer": page})


def schema(table: str) -> str:
    """Return MODULE:NAME of the schema of a table."""
    return f"{PACKAGE}.tables:{table.upper()}"


def figures_of(study: Emergence) -> dict[str, Figure]:
    """Declare the figures of the settings of the config."""
    figures = {}

    def add(
        name: str, function: str, see: str, settings: dict[str, Setting], table: str = "two_layer"
    ) -> None:
        if settings:
            figures[name] = Figure(
                (table,), see, function=function, sections={"settings": settings}
            )

    for name, settings in over_steps(study).items():
        add(f"two_layer_accuracy_{name}", "accuracy_over_steps", SEE_OVER_STEPS, settings)
    add("two_layer_staircase", "staircase", SEE["two_layer_staircase"], some(study, STAIRS))
    figures["two_layer_printed"] = Figure(
        ("two_layer_summary",), SEE["two_layer_printed"], function="printed_beside_measured"
    )
    add(
        "two_layer_tickets",
        "tickets",
        SEE["two_layer_tickets"],
        study.having("tickets", frequency=[]),
    )
    rare = {name: setting for name, setting in study.settings.items() if setting.problem.frequency}
    add("two_layer_rare_patterns", "rare_patterns", SEE["two_layer_rare_patterns"], rare)
    for name, setting in study.having("fixed_features").items():
        add(f"two_layer_lower_bounds_{name}", "lower_bounds", SEE_BOUNDS, {name: setting})
    for name, setting in study.having("neurons").items():
        see = SEE_NEURONS.format(setting=name.replace("_", " "))
        add(f"two_layer_neurons_{name}", "neurons", see, {name: setting}, "two_layer_pictures")
    return figures


def some(study: Emergence, names: tuple[str, ...]) -> dict[str, Setting]:
    """Return those of the named settings that the config has."""
    return {name: study.settings[name] for name in names if name in study.settings}


def over_steps(study: Emergence) -> dict[str, dict[str, Setting]]:
    """Return the settings whose accuracy over steps is shown, figure by figure: all but rare
    patterns and pictures.
    """
    grouped = {name for names in OVER_STEPS.values() for name in names}
    shown = {
        name: setting
        for name, setting in study.settings.items()
        if not setting.problem.frequency and setting.problem.labels not in ("codes", "hypercube")
    }
    groups = {
        group: {name: shown[name] for name in names if name in shown}
        for group, names in OVER_STEPS.items()
    }
    return merge_unique(
        "figures",
        groups,
        {name: {name: setting} for name, setting in shown.items() if name not in grouped},
    )


def claim_inputs(section: TwoLayer) -> ClaimInputs:
    """Return the tables of the claims of chapters 2 and 3."""
    return ClaimInputs(("two_layer",), {"emergence": section.emergence})


# By default once its full run has been made.
KIND = StudyKind(
    "two_layer",
    "Two-layer networks",
    TwoLayer,
    build_outputs,
    TwoLayer.studies,
    (MEASURE, SEARCH),
    inherit=inherit,
    claim_inputs=claim_inputs,
    by_default=False,
)
