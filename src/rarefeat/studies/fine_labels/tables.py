"""Tables of the study of fine labels."""

import pandera.pandas as pa

from rarefeat.chain.tables import SEED
from rarefeat.storage.schema import (
    at_least,
    column,
    format_descriptions,
    metric_descriptions,
    schema,
)

PAPER = "hong_fine_grained_labels"
MEASURED = metric_descriptions(
    easy_error="share of easy samples with Fhat_y <= Fhat_y', the maximum rule; ties are errors (eq. (4), (6))",
    easy_subclass_error="share of them whose subclass has not the largest head (Theorem G.3)",
    hard_error="share of hard samples with Fhat_y <= Fhat_y' (eq. (5), (6))",
    predicted_hard_error="its closed form on the replica's own detectors",
    R="k s_dag (E alpha_dag - 1/kappa_b) / (s* (1 - 1/kappa_b))",
    tuned_easy_error="easy_error after fine-tuning on the superclasses",
    tuned_hard_error="hard_error after it",
    tuning_smallest_change="smallest change of a detector of a class' own features by it, over their mean displacement",
    error_in_noise="easy_error where the patches are many and loud (`noise` of the config)",
    loss="cross-entropy of the last batch",
    first_ratio="mean displacement of subclass over common detectors, after the first step",
    ratio="at the end",
    largest_ratio="the largest over training",
    late_over_early_growth="A(T) - A(T/4) over A(T/4) - A(T/16) of common detectors",
    bias_over_common="bias decrement over displacement of common detectors (Lemma E.7)",
    bias_over_subclass="of subclass detectors",
    smallest_detectors="smallest |S(v)| of a class and one of its own features",
    off_diagonal_growth="how far a detector outgrew its start for a feature that is not its class' own, in units of -b(0)",
)
COMPARED = metric_descriptions(
    on_noise="activations on noise patches, in a whole training",
    moved_outside="neurons outside every S(v) that moved",
    off_diagonal_growth="how far a detector outgrew its start for a feature that is not its class' own, in units of -b(0)",
    easy_error="of the direct simulator",
    hard_error="of the direct simulator",
    easy_error_difference="to the scalar one, as all that follow",
    hard_error_difference="on hard samples",
    loss_difference="of logarithms",
    common_displacement_difference="of logarithms of means",
    subclass_displacement_difference="of logarithms of means",
    common_decrement_difference="of logarithms of means",
    subclass_decrement_difference="of logarithms of means",
)
KEYS = {
    "k": column(
        "int64",
        at_least(1),
        unit="subclasses",
        description="subclasses of a superclass",
        source=f"{PAPER}, 4.1",
    ),
    "labels": column(
        str,
        None,
        unit="",
        description="kind and number of the classes of a superclass; subclass-1 coarse, subclass-k fine",
    ),
}
S_DAG = column(
    float,
    at_least(0),
    unit="patches",
    description="expected distracting patches of a hard sample",
    source=f"{PAPER}, 4.2",
)
SHARE = pa.Check.in_range(0, 1)
ERRORS = schema(
    "fine_labels_errors",
    "a row per (k, labels, s_dag, seed, metric): the ends of trainings; s_dag is the primary one where a metric knows none",
    KEYS
    | {"s_dag": S_DAG}
    | SEED
    | {
        "metric": column(
            str, pa.Check.isin(MEASURED), unit="", description=format_descriptions(MEASURED)
        ),
        "value": column(
            float, None, unit="of the metric", description="value of the metric", nullable=True
        ),
    },
    unique=["k", "labels", "s_dag", "seed", "metric"],
)
SUMMARY = schema(
    "fine_labels_summary",
    "its means, a row per (k, labels, s_dag, metric)",
    KEYS
    | {
        "s_dag": S_DAG,
        "metric": column(
            str, pa.Check.isin(MEASURED), unit="", description="of fine_labels_errors"
        ),
        "mean": column(
            float, None, unit="of the metric", description="mean over seeds", nullable=True
        ),
        "sd": column(
            float,
            None,
            unit="of the metric",
            description="standard deviation over seeds",
            nullable=True,
        ),
        "ci_low": column(
            float,
            None,
            unit="of the metric",
            description="lower end of the 95 % interval of the mean (Student)",
            nullable=True,
        ),
        "ci_high": column(
            float, None, unit="of the metric", description="upper end", nullable=True
        ),
        "n": column("int64", at_least(0), unit="replicas", description="seeds with a value"),
    },
    unique=["k", "labels", "s_dag", "metric"],
)
TRAJECTORIES = schema(
    "fine_labels_trajectories",
    "a row per (k, labels, seed, step)",
    KEYS
    | SEED
    | {
        "step": column(
            "int64",
            at_least(0),
            unit="steps",
            description="training step t; values are of the state before it",
        ),
        "common_displacement": column(
            float,
            None,
            unit="1",
            description="mean displacement A of common detectors",
            source=f"{PAPER}, Lemma E.2",
        ),
        "subclass_displacement": column(float, None, unit="1", description="of subclass detectors"),
        "common_decrement": column(
            float,
            None,
            unit="1",
            description="mean bias decrement B of common detectors",
            source=f"{PAPER}, eq. (18)",
        ),
        "subclass_decrement": column(float, None, unit="1", description="of subclass detectors"),
        "loss": column(float, at_least(0), unit="nat", description="cross-entropy of the batch"),
        "response": column(float, at_least(0), unit="1", description="largest head on the batch"),
    },
    unique=["k", "labels", "seed", "step"],
)
HEADS = schema(
    "fine_labels_heads",
    "a row per (k, labels, features, seed, penalty, hard_share): linear heads for the superclass",
    KEYS
    | {
        "features": column(
            str,
            pa.Check.isin(["detectors", "patch sums"]),
            unit="",
            description="what the head sees: every neuron; or the sum of the patches, on samples of `noise`",
            source=f"{PAPER}, B.2",
        )
    }
    | SEED
    | {
        "penalty": column(
            float,
            at_least(0),
            unit="1",
            description="of |head|^2, over the summed variance of the features",
        ),
        "hard_share": column(
            float, SHARE, unit="1", description="share of hard samples among those it is fitted on"
        ),
        "easy": column(float, SHARE, unit="1", description="its error on easy samples"),
        "hard": column(
            float,
            SHARE,
            unit="1",
            description="on hard samples; null for patch sums",
            nullable=True,
        ),
    },
    unique=["k", "labels", "features", "seed", "penalty", "hard_share"],
)
SIMULATORS = schema(
    "fine_labels_simulators",
    "a row per (k, labels, seed, metric): the direct simulator beside the scalar one on the same draws",
    KEYS
    | SEED
    | {
        "metric": column(
            str, pa.Check.isin(COMPARED), unit="", description=format_descriptions(COMPARED)
        ),
        "value": column(
            float, None, unit="of the metric", description="value of the metric", nullable=True
        ),
    },
    unique=["k", "labels", "seed", "metric"],
)
ENCODED = metric_descriptions(
    pure_common="share of neurons with |cos| above the purity of core/thresholds.py to a common feature",
    pure_subclass="to a subclass feature",
    common_strength="norm of all neurons' weights along a common feature, mean over the two",
    subclass_strength="along a subclass feature, mean over the 2k",
    strength_ratio="subclass_strength over common_strength",
    contrastive_loss="InfoNCE of the last batch, without a mask",
    pruned="share of neurons that the mask of the last step leaves out",
    within_subclass="mean cosine of centred embeddings of easy samples, within a subclass",
    within_superclass="across the subclasses of a superclass",
    across="across superclasses",
)
PAIRED = {
    "k": KEYS["k"],
    "pair": column(
        str,
        pa.Check.isin(["views", "subclass", "superclass"]),
        unit="",
        description="what the two of a positive pair share",
    ),
    "arm": column(
        str,
        None,
        unit="",
        description="mask of the logits, its ratio, and the bias where there is one",
    ),
}
CROSSING = schema(
    "fine_labels_crossing",
    "a row per (k, pair, arm, seed, metric): contrastive encoders on the same data",
    PAIRED
    | SEED
    | {
        "metric": column(
            str, pa.Check.isin(ENCODED), unit="", description=format_descriptions(ENCODED)
        ),
        "value": column(
            float, None, unit="of the metric", description="value of the metric", nullable=True
        ),
    },
    unique=["k", "pair", "arm", "seed", "metric"],
)
CROSSING_HEADS = schema(
    "fine_labels_crossing_heads",
    "a row per (k, pair, arm, seed, penalty, hard_share): linear heads for the superclass on the embeddings",
    PAIRED
    | SEED
    | {
        "penalty": HEADS.columns["penalty"],
        "hard_share": HEADS.columns["hard_share"],
        "easy": HEADS.columns["easy"],
        "hard": column(float, SHARE, unit="1", description="on hard samples"),
    },
    unique=["k", "pair", "arm", "seed", "penalty", "hard_share"],
)
READOUTS = metric_descriptions(
    finetuned="all weights trained on the superclasses",
    probe="a linear probe of frozen features",
    once="with the labels `coarse`, which are then trained on twice: before they are",
)
ERROR = {"unit": "1", "source": f"{PAPER}, Table 1"}
POINT = {
    "superclass": column(
        str, None, unit="", description="level of the hierarchy that is the coarse task"
    ),
    "labels": column(
        str, None, unit="", description="kind of labels in pretraining, and their number or level"
    ),
}
READ = {
    "epoch": column(
        "int64",
        at_least(1),
        unit="epochs",
        description="of pretraining",
        source=f"{PAPER}, Table 2",
    ),
    "readout": column(
        str, pa.Check.isin(READOUTS), unit="", description=format_descriptions(READOUTS)
    ),
}
SWEEP = schema(
    "{study}_errors",
    "a row per (superclass, labels, epoch, readout, seed) of a granularity sweep",
    POINT
    | READ
    | SEED
    | {
        "classes": column(
            "int64", at_least(2), unit="classes", description="G, of the labels in pretraining"
        ),
        "error": column(
            float,
            SHARE,
            description="share of validation images whose superclass is missed",
            **ERROR,
        ),
    },
    unique=["superclass", "labels", "epoch", "readout", "seed"],
)
SWEEP_SUMMARY = schema(
    "{study}_summary",
    "its means, a row per (superclass, labels, epoch, readout)",
    POINT
    | READ
    | {
        "classes": column(float, at_least(2), unit="classes", description="mean of G"),
        "mean": column(float, SHARE, description="mean error over seeds", **ERROR),
        "sd": column(
            float, at_least(0), unit="1", description="standard deviation over seeds", nullable=True
        ),
        "ci_low": column(
            float,
            None,
            unit="1",
            description="lower end of the 95 % interval of the mean (Student)",
            nullable=True,
        ),
        "ci_high": column(float, None, unit="1", description="upper end", nullable=True),
        "n": column("int64", at_least(1), unit="replicas", description="seeds"),
        "paired_difference": column(
            float, None, unit="1", description="mean over seeds of the error less that of `coarse`"
        ),
        "paired_ci_low": column(
            float,
            None,
            unit="1",
            description="lower end of its 95 % interval (Student)",
            nullable=True,
        ),
        "paired_ci_high": column(float, None, unit="1", description="upper end", nullable=True),
    },
    unique=["superclass", "labels", "epoch", "readout"],
)
