"""When do supervised networks find the patterns that decide? (shi_feature_learning, chapters 2, 3.)

Each setting of the config (config.py) is a row of Tables A.1 to A.6, or one that we add: measure.py
trains its arms on the same draws. printed.py holds them against the dissertation, and chooses step
sizes that it does not print.
"""

import itertools
from functools import partial
from typing import Any

from rarefeat.studies.experiment import SEED, SHARE, SIZE, TableColumns, column, meanings, text
from rarefeat.studies.two_layer.config import Search, Setting, TwoLayer
from rarefeat.workflow.config.names import merge_unique
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

QUESTION = "When do supervised networks find the patterns that decide?"
PACKAGE, SHI = "studies.two_layer", "shi_feature_learning"
MEASURE = Stage(
    f"{PACKAGE}.measure:measure_two_layer", TwoLayer, ("probes.parquet", "pictures.parquet")
)
SEARCH = Stage(f"{PACKAGE}.printed:search_rates", Search, ("probes.parquet",))

QUANTITIES = {
    "curve": "test accuracy at a step",
    "train_accuracy": "share of the training samples with the right sign",
    "test_accuracy": "the same of test samples",
    "balanced_accuracy": "test accuracy, mean over both classes",
    "decisive_accuracy": "accuracy on the test samples whose class the rarest relevant pattern"
    " decides",
    "hinge_loss": "mean of max(1 - y g(x), 0) over test samples",
    "head_norm": "norm of the head on frozen features",
    "train_accuracy_least_squares": "train_accuracy of the head of least squared error",
    "test_accuracy_least_squares": "its test_accuracy",
    "cosine": "largest cos(w_i, sum of M_j over A); null where every w_i is 0",
    "median_cosine": "median of its absolute values",
    "median_norm": "median of ||w_i||",
    "zero_share": "share of neurons with w_i = 0",
    "live_share": "share of neurons whose output is not the same for all samples",
    "rare_ratio": "weight of the rarest relevant pattern over that of the most frequent ones, a"
    " slope over neurons",
    "least_coverage": "smallest over the corners of the hypercube of the largest cosine of a"
    " neuron",
    "head_kernel_I": "I-th largest eigenvalue of the head's kernel on the counts of relevant"
    " patterns, over their sum",
    "gamma": "of (A1), in the training sample",
    "sigma": "root of the total variance of phi~ in the training sample",
    "majority_accuracy": "test accuracy of the better constant",
}
number = partial(column, unit="of the quantity", missing=True)
SETTING, VALUE = text("entry of two_layer.settings"), number("the number")
ARM = text(
    "method with its schedule, structure and class weights; data; ticket-SCORE-SIZE",
    source=f"{SHI}, A.7.1",
)
STEP = column("training step; T for what is measured at the end", SIZE, "steps", kind=int)
QUANTITY = text(meanings(QUANTITIES))
KEYS = {"setting": SETTING, "arm": ARM, "step": STEP, "quantity": QUANTITY}
NUMBERS = TableColumns(
    "two_layer",
    "a row per (setting, seed, arm, step, quantity) of the two-layer study",
    {"setting": SETTING, "seed": SEED, **KEYS, "value": VALUE},
    ["setting", "seed", "arm", "step", "quantity"],
)
PICTURES = TableColumns(
    "two_layer_pictures",
    "a row per (setting, arm, step, point): the plane picture of the cosines of one seed's neurons",
    {
        "setting": SETTING,
        "arm": ARM,
        "step": STEP,
        "point": column("number of the point in its picture", SIZE, "", kind=int),
        "kind": text(
            "neuron; direction of the labels (target), or its opposite; centre of a class",
            source=f"{SHI}, Figures 2.2, A.2-A.12",
        ),
        "near": column(
            "1 for a neuron of cosine > 0.95 to a target at the last step", SHARE, "", kind=int
        ),
        "x": column("first coordinate of the classical scaling of 2 - 2 cos"),
        "y": column("second coordinate"),
    },
    ["setting", "arm", "step", "point"],
)
SUMMARY = TableColumns(
    "two_layer_summary",
    "a row per (setting, arm, step, quantity), without the curves",
    {
        **KEYS,
        "mean": number("mean over seeds"),
        "ci_low": number("lower end of its 95 % interval (Student)"),
        "ci_high": number("upper end"),
        "n": column("seeds with a value", SIZE, "replicas", kind=int),
        "printed": number(
            "as printed, accuracies as shares; null where nothing is",
            source=f"{SHI}, Tables A.1-A.5",
        ),
    },
    list(KEYS),
)
RATES = {
    name: column(f"candidate for rates.{name}; null for who has none", {"gt": 0}, missing=True)
    for name in ("network_head", "network_first", "head", "ntk")
}
SEARCHED = TableColumns(
    "two_layer_search",
    "a row per (setting, learner, candidate, seed) of the search for the rates, on draws of its"
    " own",
    {
        "setting": SETTING,
        "learner": text("who has these rates: network, ntk or heads"),
        "seed": SEED,
        **RATES,
        "train_accuracy": column("on the training sample, at the end", SHARE),
        "held_out_accuracy": column("on a held-out one of the same draws", SHARE),
        "held_out_over_steps": column("the same, mean over the recorded steps", SHARE),
    },
    ["setting", "learner", *RATES, "seed"],
)
CHOSEN = TableColumns(
    "two_layer_rates",
    "a row per (setting, rate) that was searched",
    {
        "setting": SETTING,
        "rate": text("key of two_layer.settings.SETTING.rates"),
        "configured": column("what the config has"),
        "chosen": column("what the search chooses: the smallest near the best"),
    },
    ["setting", "rate"],
)
OVER_STEPS = {
    "labels": ("parity", "interval"),
    "dimension": ("dimension_100", "dimension_2000"),
    "class_ratio": ("class_ratio_0.8", "class_ratio_0.9"),
    "samples": ("samples_25000", "samples_10000"),
}
"""Settings that a figure shows beside each other, as the dissertation's do; any other without a
rare pattern has one of its own."""
SEE = {
    "accuracy_over_steps": "Test accuracy over training steps with structured patterns, above, and"
    " with uniform ones, below; mean over seeds with its 95 % interval, and for parities the best"
    " that a score with 1 and 3 sign changes reaches as grey lines. See which methods leave the"
    " first of these lines, and whether any rises without structure.",
    "printed_beside_measured": "The test accuracies that are farthest from Tables A.1 to A.5, with"
    " their 95 % intervals over seeds, and as printed. See which methods and settings they are of.",
    "tickets": "Test accuracy of small parts of the network after step 2, trained alone, over the"
    " number of neurons kept, by the score that chose them; 95 % intervals over seeds. See whether"
    " the norm, by which magnitude pruning chooses, is a good score.",
    "lower_bounds": "Hinge loss of heads on random features, a point for each seed, over what"
    " Theorem 2.2 bounds it by. See that no point lies below the line of the mean.",
    "neurons": "The neurons of one seed before training and after the steps above the panels: a"
    " plane picture of their cosines, with the direction of the labels as a star. See whether"
    " neurons gather at the star.",
}
"""Caption of each figure by its function."""


def figures_of(settings: dict[str, Setting]) -> dict[str, Figure]:
    """Return the figures of the settings that the config has."""
    rare = [name for name, item in settings.items() if item.problem.frequency]
    pictures = [n for n, item in settings.items() if item.problem.labels in ("codes", "hypercube")]
    beside = {*rare, *pictures, *itertools.chain(*OVER_STEPS.values())}
    alone = {name: (name,) for name in settings if name not in beside}
    groups = merge_unique("figures", OVER_STEPS, alone)
    tickets = [name for name, item in settings.items() if item.tickets and name not in rare][:1]
    drawn = [
        *((f"accuracy_{name}", "accuracy_over_steps", names) for name, names in groups.items()),
        ("tickets", "tickets", tickets),
        *(
            (f"lower_bounds_{n}", "lower_bounds", (n,))
            for n in settings
            if settings[n].fixed_features
        ),
        *((f"neurons_{n}", "neurons", (n,)) for n in settings if settings[n].neurons),
    ]
    figures = {"two_layer_printed": figure("printed_beside_measured", "two_layer_summary")}
    for name, function, names in drawn:
        if shown := {key: settings[key] for key in names if key in settings}:
            table = "two_layer_pictures" if function == "neurons" else "two_layer"
            figures[f"two_layer_{name}"] = figure(function, table, settings=shown)
    return figures


def figure(function: str, table: str, **sections: dict[str, Setting]) -> Figure:
    """Return the figure that a function draws from a table."""
    return Figure((table,), SEE[function], function=function, sections=sections)


def build_outputs(section: TwoLayer) -> StudyOutputs:
    """Return the tables of all settings and of the search, the figures and the page."""
    rates = {name: section.by_name[name].rates for name in section.rate_search.settings}
    study, search = ("emergence", section), ("rate_search", section.search)

    def made(columns: str, function: str, of: str, *tables: str, **sections: Any) -> Table:
        function = f"{PACKAGE}.{function}"
        return Table(schema(columns), function, sections, tables=tables, study=of)

    tables = {
        "two_layer": collected_table(schema("NUMBERS"), MEASURE, "probes", *study),
        "two_layer_pictures": collected_table(schema("PICTURES"), MEASURE, "pictures", *study),
        "two_layer_search": collected_table(schema("SEARCHED"), SEARCH, "probes", *search),
        "two_layer_summary": made("SUMMARY", "printed:two_layer_summary", "emergence", "two_layer"),
        "two_layer_rates": made(
            "CHOSEN", "printed:two_layer_rates", "rate_search", "two_layer_search", rates=rates
        ),
    }
    figures = figures_of(section.by_name)
    shown = ("two_layer_summary", "two_layer_search", "two_layer_rates")
    page = Page("Two-layer networks", shown, tuple(figures), QUESTION)
    return StudyOutputs(tables, figures, {"two_layer": page})


def schema(columns: str) -> str:
    """Return where the schema of a table is."""
    return f"{PACKAGE}:{columns}.schema"


# By default once its full run has been made.
KIND = StudyKind(
    "two_layer",
    "Two-layer networks",
    TwoLayer,
    build_outputs,
    TwoLayer.studies,
    (MEASURE, SEARCH),
    claim_inputs=lambda section: ClaimInputs(("two_layer",), {"emergence": section}),
    by_default=False,
)
