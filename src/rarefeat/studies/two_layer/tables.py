"""Tables of the two-layer study."""

import pandera.pandas as pa

from rarefeat.workflow.files.schema import (
    at_least,
    column,
    format_descriptions,
    metric_descriptions,
    schema,
)

SHI = "shi_feature_learning"

QUANTITIES = metric_descriptions(
    curve="test accuracy at a step",
    train_accuracy="share of the training samples with the right sign",
    test_accuracy="the same of test samples",
    balanced_accuracy="test accuracy, mean over both classes",
    decisive_accuracy="accuracy on the test samples whose class the rarest relevant pattern"
    " decides",
    hinge_loss="mean of max(1 - y g(x), 0) over test samples",
    head_norm="norm of the head on frozen features",
    train_accuracy_least_squares="train_accuracy of the head of least squared error",
    test_accuracy_least_squares="its test_accuracy",
    cosine="largest cos(w_i, sum of M_j over A); null where every w_i is 0",
    median_cosine="median of its absolute values",
    median_norm="median of ||w_i||",
    zero_share="share of neurons with w_i = 0",
    live_share="share of neurons whose output is not the same for all samples",
    rare_ratio="weight of the rarest relevant pattern over that of the most frequent ones, a slope"
    " over neurons",
    least_coverage="smallest over the corners of the hypercube of the largest cosine of a neuron",
    head_kernel_I="I-th largest eigenvalue of the head's kernel on the counts of relevant"
    " patterns, over their sum",
    gamma="of (A1), in the training sample",
    sigma="root of the total variance of phi~ in the training sample",
    majority_accuracy="test accuracy of the better constant",
)
FORMS = metric_descriptions(
    closed_form="expected largest cosine at initialisation, at the row's d and m",
    closed_form_at_100="the same at d = 100",
    residue="what is left of the initial weight, in deviations of the signal, if it explains the"
    " printed One Step cosine",
    residue_at_100="the same if the row had d = 100",
    with_residue_of_parity="One Step cosine with the residue of Table A.1",
    erased="One Step cosine of weights that step 1 erases, as Theorem A.20 has it; null for"
    " unbalanced classes",
)

SETTING = {"setting": column(str, None, unit="", description="entry of two_layer.settings")}
KEYS = {
    **SETTING,
    "arm": column(
        str, None, unit="", description="method with its schedule, structure and class weights;"
                                        " data; ticket-SCORE-SIZE",
        source=f"{SHI}, A.7.1",
    ),
    "step": column("int64", at_least(0), unit="steps", description="training step; T for what is"
                                                                   " measured at the end"),
    "quantity": column(str, None, unit="", description=format_descriptions(QUANTITIES)),
}  # fmt: skip
SEED = {"seed": column("int64", at_least(0), unit="", description="seed of the replica")}
VALUE = column(float, None, unit="of the quantity", description="the number", nullable=True)
PRINTED = column(
    float, None, unit="of the quantity", description="as printed, accuracies as shares; null where"
                                                     " nothing is",
    source=f"{SHI}, Tables A.1-A.5",
    nullable=True,
)  # fmt: skip

TWO_LAYER = schema(
    "two_layer",
    "a row per (setting, seed, arm, step, quantity) of the two-layer study",
    {
        "setting": KEYS["setting"],
        **SEED,
        "arm": KEYS["arm"],
        "step": KEYS["step"],
        "quantity": KEYS["quantity"],
        "value": VALUE,
    },
    unique=["setting", "seed", "arm", "step", "quantity"],
)

TWO_LAYER_PICTURES = schema(
    "two_layer_pictures",
    "a row per (setting, arm, step, point): the plane picture of the cosines of one seed's neurons",
    {
        **SETTING,
        "arm": KEYS["arm"],
        "step": KEYS["step"],
        "point": column(
            "int64", at_least(0), unit="", description="number of the point in its picture"
        ),
        "kind": column(
            str,
            pa.Check.isin(["neuron", "target", "opposite", "positive", "negative"]),
            unit="",
            description="neuron; direction of the labels, or its opposite; centre of a class",
            source=f"{SHI}, Figures 2.2, A.2-A.12",
        ),
        "near": column(
            "int64",
            pa.Check.isin([0, 1]),
            unit="",
            description="1 for a neuron of cosine > 0.95 to a target at the last step",
        ),
        "x": column(
            float,
            None,
            unit="1",
            description="first coordinate of the classical scaling of 2 - 2 cos",
        ),
        "y": column(float, None, unit="1", description="second coordinate"),
    },
    unique=["setting", "arm", "step", "point"],
)

TWO_LAYER_SUMMARY = schema(
    "two_layer_summary",
    "a row per (setting, arm, step, quantity), without the curves",
    KEYS
    | {
        "mean": column(
            float, None, unit="of the quantity", description="mean over seeds", nullable=True
        ),
        "ci_low": column(
            float,
            None,
            unit="of the quantity",
            description="lower end of its 95 % interval (Student)",
            nullable=True,
        ),
        "ci_high": column(
            float, None, unit="of the quantity", description="upper end", nullable=True
        ),
        "n": column("int64", at_least(0), unit="replicas", description="seeds with a value"),
        "printed": PRINTED,
    },
    unique=["setting", "arm", "step", "quantity"],
)

TWO_LAYER_CLOSED_FORMS = schema(
    "two_layer_closed_forms",
    "a row per (table, row, column, quantity): printed cosines beside what closed forms give",
    {
        "table": column(
            str, None, unit="", description="table of the dissertation", source=f"{SHI}, A.7"
        ),
        "row": column(str, None, unit="", description="row of the table, empty where it has one"),
        "column": column(
            str, pa.Check.isin(["RF", "One Step"]), unit="", description="column of the table"
        ),
        "printed": column(float, None, unit="1", description="cosine as printed"),
        "quantity": column(
            str, pa.Check.isin(list(FORMS)), unit="", description=format_descriptions(FORMS)
        ),
        "value": VALUE,
    },
    unique=["table", "row", "column", "quantity"],
)

RATE = {
    name: column(
        float,
        pa.Check.gt(0),
        unit="1",
        description=f"candidate for rates.{name}; null for who has none",
        nullable=True,
    )
    for name in ("network_head", "network_first", "head", "ntk")
}
ACCURACY = pa.Check.in_range(0, 1)
TWO_LAYER_SEARCH = schema(
    "two_layer_search",
    "a row per (setting, learner, candidate, seed) of the search for the rates, on draws of its"
    " own",
    {
        **SETTING,
        "learner": column(
            str,
            pa.Check.isin(["network", "ntk", "heads"]),
            unit="",
            description="who has these rates",
        ),
        **SEED,
        **RATE,
        "train_accuracy": column(
            float, ACCURACY, unit="1", description="on the training sample, at the end"
        ),
        "held_out_accuracy": column(
            float, ACCURACY, unit="1", description="on a held-out one of the same draws"
        ),
        "held_out_over_steps": column(
            float, ACCURACY, unit="1", description="the same, mean over the recorded steps"
        ),
    },
    unique=["setting", "learner", *RATE, "seed"],
)

TWO_LAYER_RATES = schema(
    "two_layer_rates",
    "a row per (setting, rate) that was searched",
    {
        **SETTING,
        "rate": column(
            str,
            pa.Check.isin(list(RATE)),
            unit="",
            description="key of two_layer.settings.SETTING.rates",
        ),
        "configured": column(float, pa.Check.gt(0), unit="1", description="what the config has"),
        "chosen": column(
            float,
            pa.Check.gt(0),
            unit="1",
            description="what the search chooses: the smallest near the best",
        ),
    },
    unique=["setting", "rate"],
)
