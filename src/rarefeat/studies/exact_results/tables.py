"""Tables of the exact results: numbers beside what is stated of them."""

import pandera.pandas as pa

from rarefeat.workflow.files.schema import (
    at_least,
    column,
    format_descriptions,
    metric_descriptions,
    schema,
)

SHI = "shi_feature_learning"
QUANTITIES = {
    "looped_transformer": metric_descriptions(
        kappa="mean condition number of X^T X over an experiment's problems",
        disagreement="largest distance of the transformer's output over alpha to gradient descent,"
                     " in units of 2^-52",
        error_excess="largest log |theta^(t) - theta*|^2 / |theta^(0) - theta*|^2 + t / kappa over"
                     " problems and loops t >= 1, without rounding",
        prediction_excess="largest log |<out, theta*> - alpha| / |alpha| + t / (2 kappa), likewise",
        rounded_excess="error_excess of the transformer's own output in double precision",
        log_error="mean log |theta^(t) - theta*|^2 / |theta^(0) - theta*|^2 after `at` loops,"
                  " without rounding; stated: - t / kappa",
        log_error_rounded="the same of the transformer's own output, at least -80",
        gap="stated less measured log_error after `at` loops",
    ),
    "low_rank_attention": metric_descriptions(
        loss="mean squared error over drawn prompts of the attention of rank `at`; stated: Theorem"
             " 5.4.2",
        increment="loss of rank `at` + 1 less that of rank `at`, for tasks in the first `at`"
                  " directions; stated: Theorem 5.4.3",
        pretraining_loss="least pretraining loss that a search finds at rank `at`; stated: that of"
                         " Theorem 5.4.1",
    ),
    "spurious_features": metric_descriptions(
        alpha="weight of an invariant feature at the ridge's minimum, `at` = r of them; stated:"
              " its bound 1 / sqrt(r), Lemma 6.1",
        beta="weight of a spurious feature; stated: its bound alpha",
        alpha_over_beta="alpha / beta; stated: its bound 3 / (4 gamma)",
        id_accuracy="accuracy of the ridge in domain, exactly",
        ood_accuracy="accuracy of the ridge out of domain, exactly; stated: its bound exp(-r /"
                     " 10), Proposition 6.3",
        cost_of_spurious="least loss of weights of norm 1 on `at` features with spurious ones"
                         " among them, less that without; stated: above 0",
        rank_ood_accuracy="accuracy out of domain of weights on `at` invariant features alone;"
                          " stated: 1",
    ),
    "task_mixture": metric_descriptions(
        shared_weight="mean over shared features of the diagonal of M^T W^T W M; stated: alpha of"
                      " Lemma F.3",
        private_weight="the same over the private features of task `at`; stated: alpha_t",
        spurious_weight="the same over spurious features; stated: 0",
        even_weight="private_weight, mean over the tasks of an even mixture; stated: beta of"
                    " Proposition 7.3 at alpha = 1",
        tuned_root_weight="mean norm of the columns of W M of the target's private features after"
                          " fine-tuning within `at`; stated: sqrt(beta) of Proposition F.9",
        risk_first="mean absolute error of a probe of the first task with `at` labels, over that"
                   " of answering 0",
        risk_last="the same of the last task, the rare one where there is one",
        complexity="Rademacher complexity (F.75) of probes of the first task with `at` labels and"
                   " |u*| = 1; stated: leading term of (F.91)",
        complexity_gap="distance of the complexity from that leading term; stated: the lemma's"
                       " bound of it (F.93), its constant read as 1",
    ),
    "modular_addition": metric_descriptions(
        margin_ratio="normalised margin over the whole table, over gamma* of Theorem 4.9, after"
                     " `at` steps; stated: 1",
        accuracy="share of the table that is right",
        one_frequency="share of neurons with more than 0.9 of the power of all their weights at"
                      " one frequency; stated: 1",
        one_frequency_weight="their share of the sum of the neurons' norms to the power of k + 1;"
                             " stated: 1",
        power="mean over neurons of the largest share of power at one frequency; stated: 1",
        frequencies="frequencies that a neuron with one frequency has; stated: (p - 1) / 2",
        phase="mean cosine of the phase of w less the phases of u_1, ..., u_k, of neurons with one"
              " frequency; stated: 1",
    ),
    "digit_neurons": metric_descriptions(
        accuracy="training accuracy after `at` steps",
        clusters="number of k-means clusters of the neurons' directions with the largest mean"
                 " silhouette, of 2 to 8; stated: 2",
        silhouette="that silhouette",
        aligned="share of neurons with an absolute cosine above 0.9 to the difference of the class"
                " means",
        median_cosine="median of that absolute cosine",
    ),
    "nuclear_norm": metric_descriptions(
        slope="t = w_2 / w_1 of the rule that is learned with the penalty `at`",
        id_accuracy="accuracy in domain, on test samples; stated: 1 - 0.15 t for t in [0, 1]",
        ood_accuracy="accuracy out of domain, on test samples; stated: 1 - 0.35 t for t in [0, 1]",
    ),
}  # fmt: skip
"""Quantities of each result."""

KEYS = {
    "setting": column(str, None, unit="", description="cell of the result: its axis and value"),
    "at": column(
        float,
        None,
        unit="of the quantity's axis",
        description="loop, rank, step, radius, label or penalty; 0 where there is none",
    ),
}
STATED = column(
    float,
    None,
    unit="of the quantity",
    description="what the text has of it: a closed form, or a bound",
    source=SHI,
    nullable=True,
)


def result_schema(result: str) -> pa.DataFrameSchema:
    """Return the schema of the table of a result."""
    quantities = QUANTITIES[result]
    columns = {
        "setting": KEYS["setting"],
        "seed": column("int64", at_least(0), unit="", description="seed of the replica"),
        "at": KEYS["at"],
        "quantity": column(
            str,
            pa.Check.isin(list(quantities)),
            unit="",
            description=format_descriptions(quantities),
        ),
        "value": column(
            float, None, unit="of the quantity", description="the number", nullable=True
        ),
        "stated": STATED,
    }
    rows = "a row per (setting, seed, at, quantity)"
    return schema(result, rows, columns, unique=["setting", "seed", "at", "quantity"])


SCHEMAS = {name: result_schema(name) for name in QUANTITIES}
LOOPED_TRANSFORMER = SCHEMAS["looped_transformer"]
LOW_RANK_ATTENTION = SCHEMAS["low_rank_attention"]
SPURIOUS_FEATURES = SCHEMAS["spurious_features"]
TASK_MIXTURE = SCHEMAS["task_mixture"]
MODULAR_ADDITION = SCHEMAS["modular_addition"]
DIGIT_NEURONS = SCHEMAS["digit_neurons"]
NUCLEAR_NORM = SCHEMAS["nuclear_norm"]

EXACT_RESULTS = schema(
    "exact_results",
    "a row per (result, setting, at, quantity)",
    {
        "result": column(
            str, pa.Check.isin(list(QUANTITIES)), unit="", description="the result's table"
        ),
        **KEYS,
        "quantity": column(str, None, unit="", description="as in the result's table"),
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
        "stated": column(
            float,
            None,
            unit="of the quantity",
            description="what the text has of it, mean over seeds",
            source=SHI,
            nullable=True,
        ),
        "printed": column(
            float,
            None,
            unit="of the quantity",
            description="as printed; null where nothing is",
            source=SHI,
            nullable=True,
        ),
    },
    unique=["result", "setting", "at", "quantity"],
)

OUT_OF_REACH = schema(
    "out_of_reach",
    "a row per experiment of the dissertation that is not run here",
    {
        "experiment": column(
            str, None, unit="", description="number of the experiment: chapter and place in it"
        ),
        "what": column(str, None, unit="", description="what it is", source=SHI),
        "source": column(str, None, unit="", description="where it stands", source=SHI),
        "needs": column(str, None, unit="", description="what it needs that is not here"),
        "assumed": column(
            str, None, unit="", description="what of its size is not printed, and what was taken"
        ),
        "operations": column(
            float,
            at_least(0),
            unit="floating-point operations",
            description="of all its runs together",
        ),
        "hours_cores": column(
            float,
            at_least(0),
            unit="hours",
            description="on two cores, at `machine.cores` of the config",
        ),
        "hours_gpu": column(
            float, at_least(0), unit="hours", description="on one GPU, at `machine.gpu`"
        ),
    },
    unique=["experiment"],
)
