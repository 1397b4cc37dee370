"""Schemas of the tables of the study of fine labels."""

import pandera.pandas as pa

from rarefeat.stages.tables import SEED
from rarefeat.workflow.files.schema import (
    at_least,
    column,
    format_descriptions,
    metric_descriptions,
    schema,
)

PAPER = "hong_fine_grained_labels"
OFF_DIAGONAL = (
    "largest growth of a detector for a feature that its class has no samples of, in units of -b(0)"
)
METRICS = metric_descriptions(
    easy_error="fraction of easy samples with Fhat_y <= Fhat_y', the maximum rule; ties are errors"
    " (eq. (4), (6))",
    easy_subclass_error="fraction of easy samples whose subclass has not the largest head (Theorem"
    " G.3)",
    hard_error="fraction of hard samples with Fhat_y <= Fhat_y' (eq. (5), (6))",
    predicted_hard_error="closed form of hard_error for the detectors of the replica",
    R="k s_dag (E alpha_dag - 1/kappa_b) / (s* (1 - 1/kappa_b))",
    tuned_easy_error="easy_error after fine-tuning on the superclasses",
    tuned_hard_error="hard_error after it",
    tuning_smallest_change="smallest change by fine-tuning of a detector of a feature that its"
    " class has samples of, over their mean displacement",
    error_in_noise="easy_error where the patches are many and loud (`noise` of the config)",
    loss="cross-entropy of the last batch",
    first_ratio="mean displacement of subclass over common detectors, after the first step",
    ratio="that ratio at the end",
    largest_ratio="largest such ratio over training",
    late_over_early_growth="A(T) - A(T/4) over A(T/4) - A(T/16) of common detectors",
    bias_over_common="bias decrement over displacement of common detectors (Lemma E.7)",
    bias_over_subclass="bias decrement over displacement of subclass detectors",
    smallest_detectors="smallest |S(v)| of a class and a feature that it has samples of",
    off_diagonal_growth=OFF_DIAGONAL,
)
COMPARED = metric_descriptions(
    on_noise="activations on noise patches, in a whole training",
    moved_outside="neurons outside every S(v) whose weights changed",
    off_diagonal_growth=OFF_DIAGONAL,
    easy_error="error of the direct simulator on easy samples",
    hard_error="error of the direct simulator on hard samples",
    easy_error_difference="error on easy samples, direct minus scalar, as all that follow",
    hard_error_difference="difference of the error on hard samples",
    loss_difference="difference of the logarithm of the loss",
    common_displacement_difference="difference of logarithms of means",
    subclass_displacement_difference="difference of logarithms of means",
    common_decrement_difference="difference of logarithms of means",
    subclass_decrement_difference="difference of logarithms of means",
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
        description="kind and number of the classes of a superclass; subclass-1 coarse, subclass-k"
        " fine",
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
    "a row per (k, labels, s_dag, seed, metric): metrics at the end of training; s_dag is the"
    " primary one for metrics that do not depend on it",
    KEYS
    | {"s_dag": S_DAG}
    | SEED
    | {
        "metric": column(
            str, pa.Check.isin(METRICS), unit="", description=format_descriptions(METRICS)
        ),
        "value": column(
            float, None, unit="of the metric", description="value of the metric", nullable=True
        ),
    },
    unique=["k", "labels", "s_dag", "seed", "metric"],
)
SUMMARY = schema(
    "fine_labels_summary",
    "means of fine_labels_errors, a row per (k, labels, s_dag, metric)",
    KEYS
    | {
        "s_dag": S_DAG,
        "metric": column(
            str, pa.Check.isin(METRICS), unit="", description="metric of fine_labels_errors"
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
        "subclass_displacement": column(
            float, None, unit="1", description="mean of subclass detectors"
        ),
        "common_decrement": column(
            float,
            None,
            unit="1",
            description="mean bias decrement B of common detectors",
            source=f"{PAPER}, eq. (18)",
        ),
        "subclass_decrement": column(
            float, None, unit="1", description="mean of subclass detectors"
        ),
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
            description="inputs of the head: all neurons; or the sum of the patches, on samples of"
            " `noise`",
            source=f"{PAPER}, B.2",
        )
    }
    | SEED
    | {
        "penalty": column(
            float,
            at_least(0),
            unit="1",
            description="penalty of |head|^2, over the summed variance of the features",
        ),
        "hard_share": column(
            float, SHARE, unit="1", description="fraction of hard samples that it is fitted on"
        ),
        "easy": column(float, SHARE, unit="1", description="error on easy samples"),
        "hard": column(
            float,
            SHARE,
            unit="1",
            description="error on hard samples; null for patch sums",
            nullable=True,
        ),
    },
    unique=["k", "labels", "features", "seed", "penalty", "hard_share"],
)
SIMULATORS = schema(
    "fine_labels_simulators",
    "a row per (k, labels, seed, metric): the direct simulator in comparison with the scalar one",
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
    pure_common="fraction of neurons with |cos| above 0.9 to a common feature",
    pure_subclass="fraction of neurons with |cos| above 0.9 to a subclass feature",
    common_strength="norm of the weights of all neurons along a common feature, mean over the two",
    subclass_strength="norm along a subclass feature, mean over the 2k",
    strength_ratio="subclass_strength over common_strength",
    contrastive_loss="InfoNCE of the last batch, without a mask",
    pruned="fraction of neurons that the mask of the last step prunes",
    within_subclass="mean cosine of centred embeddings of easy samples, within a subclass",
    within_superclass="mean cosine across the subclasses of a superclass",
    across="mean cosine across superclasses",
)
PAIRED = {
    "k": KEYS["k"],
    "pair": column(
        str,
        pa.Check.isin(["views", "subclass", "superclass"]),
        unit="",
        description="kind of positive pair",
    ),
    "arm": column(
        str,
        None,
        unit="",
        description="mask of the logits, its pruning ratio, and the bias if there is one",
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
    "a row per (k, pair, arm, seed, penalty, hard_share): linear heads for the superclass on the"
    " embeddings",
    PAIRED
    | SEED
    | {
        "penalty": HEADS.columns["penalty"],
        "hard_share": HEADS.columns["hard_share"],
        "easy": HEADS.columns["easy"],
        "hard": column(float, SHARE, unit="1", description="error on hard samples"),
    },
    unique=["k", "pair", "arm", "seed", "penalty", "hard_share"],
)
READOUTS = metric_descriptions(
    finetuned="all weights trained on the superclasses",
    probe="a linear probe of frozen features",
    once="labels `coarse` alone, before fine-tuning, by which the superclasses are trained twice",
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
        description="epochs of pretraining",
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
            "int64", at_least(2), unit="classes", description="number G of classes in pretraining"
        ),
        "error": column(
            float,
            SHARE,
            description="fraction of validation images with a wrong superclass",
            **ERROR,
        ),
    },
    unique=["superclass", "labels", "epoch", "readout", "seed"],
)
SWEEP_SUMMARY = schema(
    "{study}_summary",
    "means over seeds, a row per (superclass, labels, epoch, readout)",
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
            float, None, unit="1", description="mean over seeds of the error minus that of `coarse`"
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
