"""Tables of the study of fine labels: their columns, the means over seeds, and published tables.

The last are beside what the paper prints, Table 1.
"""

import math
from collections.abc import Mapping
from typing import Any

import pandas as pd
from pandera.pandas import DataFrameSchema

from rarefeat.statistics import UNBOUNDED
from rarefeat.studies.experiment import (
    SEED,
    SHARE,
    SIZE,
    Column,
    TableColumns,
    column,
    meanings,
    means_of,
    minus,
    text,
)
from rarefeat.studies.fine_labels.config import COARSE

PAPER = "hong_fine_grained_labels"
OFF_DIAGONAL = (
    "largest growth of a detector for a feature that its class has no samples of, in units of -b(0)"
)
METRICS = {
    "easy_error": "fraction of easy samples with Fhat_y <= Fhat_y', the maximum rule; ties are errors"
    " (eq. (4), (6))",
    "easy_subclass_error": "fraction of easy samples whose subclass has not the largest head (Theorem"
    " G.3)",
    "hard_error": "fraction of hard samples with Fhat_y <= Fhat_y' (eq. (5), (6))",
    "predicted_hard_error": "closed form of hard_error for the detectors of the replica",
    "R": "k s_dag (E alpha_dag - 1/kappa_b) / (s* (1 - 1/kappa_b))",
    "tuned_easy_error": "easy_error after fine-tuning on the superclasses",
    "tuned_hard_error": "hard_error after it",
    "tuning_smallest_change": "smallest change by fine-tuning of a detector of a feature that its"
    " class has samples of, over their mean displacement",
    "error_in_noise": "easy_error where the patches are many and loud (`noise` of the config)",
    "loss": "cross-entropy of the last batch",
    "first_ratio": "mean displacement of subclass over common detectors, after the first step",
    "ratio": "that ratio at the end",
    "largest_ratio": "largest such ratio over training",
    "late_over_early_growth": "A(T) - A(T/4) over A(T/4) - A(T/16) of common detectors",
    "bias_over_common": "bias decrement over displacement of common detectors (Lemma E.7)",
    "bias_over_subclass": "bias decrement over displacement of subclass detectors",
    "smallest_detectors": "smallest |S(v)| of a class and a feature that it has samples of",
    "off_diagonal_growth": OFF_DIAGONAL,
}
COMPARED = {
    "on_noise": "activations on noise patches, in a whole training",
    "moved_outside": "neurons outside every S(v) whose weights changed",
    "off_diagonal_growth": OFF_DIAGONAL,
    "easy_error": "error of the direct simulator on easy samples",
    "hard_error": "error of the direct simulator on hard samples",
    "easy_error_difference": "error on easy samples, direct minus scalar, as all that follow",
    "hard_error_difference": "difference of the error on hard samples",
    "loss_difference": "difference of the logarithm of the loss",
    "common_displacement_difference": "difference of logarithms of means",
    "subclass_displacement_difference": "difference of logarithms of means",
    "common_decrement_difference": "difference of logarithms of means",
    "subclass_decrement_difference": "difference of logarithms of means",
}
ENCODED = {
    "pure_common": "fraction of neurons with |cos| above 0.9 to a common feature",
    "pure_subclass": "fraction of neurons with |cos| above 0.9 to a subclass feature",
    "common_strength": "norm of the weights of all neurons along a common feature, mean over the two",
    "subclass_strength": "norm along a subclass feature, mean over the 2k",
    "strength_ratio": "subclass_strength over common_strength",
    "contrastive_loss": "InfoNCE of the last batch, without a mask",
    "pruned": "fraction of neurons that the mask of the last step prunes",
    "within_subclass": "mean cosine of centred embeddings of easy samples, within a subclass",
    "within_superclass": "mean cosine across the subclasses of a superclass",
    "across": "mean cosine across superclasses",
}
READOUTS = {
    "finetuned": "all weights trained on the superclasses",
    "probe": "a linear probe of frozen features",
    "once": "labels `coarse` alone, before fine-tuning, by which the superclasses are trained twice",
}


METRIC = {"unit": "of the metric", "missing": True}
COLUMNS = {
    "k": column("subclasses of a superclass", {"ge": 1}, "subclasses", f"{PAPER}, 4.1", kind=int),
    "labels": text("kind of labels, and their number or level; subclass-1 coarse, -k fine"),
    "s_dag": column(
        "expected distracting patches of a hard sample", SIZE, "patches", f"{PAPER}, 4.2"
    ),
    "seed": SEED,
    "pair": text("kind of positive pair: views, subclass or superclass"),
    "arm": text("mask of the logits, its pruning ratio, and the bias if there is one"),
    "value": column("value of the metric", **METRIC),
    "features": text("inputs of the head: detectors, or patch sums of samples of `noise` (B.2)"),
    "penalty": column("penalty of |head|^2, over the summed variance of the features", SIZE),
    "hard_share": column("fraction of hard samples that it is fitted on", SHARE),
    "easy": column("error on easy samples", SHARE),
    "hard": column("error on hard samples; null for patch sums", SHARE, missing=True),
    "superclass": text("level of the hierarchy that is the coarse task"),
    "epoch": column("epochs of pretraining", {"ge": 1}, "epochs", f"{PAPER}, Table 2", kind=int),
    "readout": text(meanings(READOUTS)),
    "classes": column("number G of classes in pretraining, or its mean", {"ge": 2}, "classes"),
    "error": column(
        "share of validation images with a wrong superclass", SHARE, "1", f"{PAPER}, Table 1"
    ),
    "mean": column("mean over seeds", **METRIC),
    "sd": column("standard deviation over seeds", **METRIC),
    "ci_low": column("lower end of the 95 % interval of the mean (Student)", **METRIC),
    "ci_high": column("upper end", **METRIC),
    "n": column("seeds with a value", SIZE, "replicas", kind=int),
    "paired_difference": column("mean over seeds of the error minus that of `coarse`"),
    "paired_ci_low": column("lower end of its 95 % interval (Student)", missing=True),
    "paired_ci_high": column("upper end", missing=True),
}
"""Columns of the tables, where these do not say otherwise."""
NETWORK, ENCODER, TASK = "k labels", "k pair arm", "superclass labels epoch readout"
MEANS, PAIRED = "mean sd ci_low ci_high n", "paired_difference paired_ci_low paired_ci_high"


def table(name: str, keys: str, columns: str, about: str, **own: Column) -> DataFrameSchema:
    """Return the schema of a table, with the names of its keys and of its other columns."""
    chosen = {key: (COLUMNS | own)[key] for key in f"{keys} {columns}".split()}
    rows = f"a row per ({', '.join(keys.split())}): {about}"
    return TableColumns(name, rows, chosen, keys.split()).schema


ERRORS = table(
    "fine_labels_errors",
    f"{NETWORK} s_dag seed metric",
    "value",
    "metrics at the end of training; s_dag is the primary one for metrics that do not depend on it",
    metric=text(meanings(METRICS)),
)
SUMMARY = table(
    "fine_labels_summary",
    f"{NETWORK} s_dag metric",
    MEANS,
    "means of fine_labels_errors",
    metric=text("metric of fine_labels_errors"),
)
HEADS = table(
    "fine_labels_heads",
    f"{NETWORK} features seed penalty hard_share",
    "easy hard",
    "linear heads for the superclass",
)
SIMULATORS = table(
    "fine_labels_simulators",
    f"{NETWORK} seed metric",
    "value",
    "the direct simulator in comparison with the scalar one",
    metric=text(meanings(COMPARED)),
)
CROSSING = table(
    "fine_labels_crossing",
    f"{ENCODER} seed metric",
    "value",
    "contrastive encoders on the same data",
    metric=text(meanings(ENCODED)),
)
CROSSING_HEADS = table(
    "fine_labels_crossing_heads",
    f"{ENCODER} seed penalty hard_share",
    "easy hard",
    "linear heads for the superclass on the embeddings",
)
SWEEP = table(
    "{study}_errors",
    f"{TASK} seed",
    "classes error",
    "validation errors of a granularity sweep",
    classes=COLUMNS["classes"]._replace(kind=int),
)
SWEEP_SUMMARY = table(
    "{study}_summary", TASK, f"classes {MEANS} {PAIRED}", "means over seeds of a granularity sweep"
)
RANGES = {
    **dict.fromkeys((name for name in METRICS if "error" in name), (0, 1)),
    **dict.fromkeys(("easy", "hard", "pruned", "pure_common", "pure_subclass"), (0, 1)),
    **dict.fromkeys(("within_subclass", "within_superclass", "across"), (-1, 1)),
}
"""Range of each quantity that has one, to which intervals are clipped."""
BASELINE = "coarse"


def mean_by(rows: pd.DataFrame, keys: list[str]) -> pd.DataFrame:
    """Return the means of a quantity, which the last key names, within its range."""
    return means_of(rows, keys, inside=lambda name: RANGES.get(name, UNBOUNDED))


def summary(tables: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Return the means of the errors of all networks over seeds."""
    (errors,) = tables.values()
    return mean_by(errors, ["k", "labels", "s_dag", "metric"])


def sweep_summary(tables: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Return means over seeds of the errors of a sweep, and of differences to the baseline."""
    (errors,), keys = tables.values(), TASK.split()
    baseline, same = errors[errors["labels"] == BASELINE], ["superclass", "epoch", "readout"]
    errors = errors.assign(difference=minus(errors, baseline, [*same, "seed"], "error"))
    found = means_of(errors, keys, "error", lambda _: (0, 1))
    paired = means_of(errors, keys, "difference", lambda _: (-1, 1))
    found[PAIRED.split()] = paired[["mean", "ci_low", "ci_high"]]
    return found.assign(classes=errors.groupby(keys)["classes"].mean().to_numpy())


KINDS = {
    "manual": "labels by hand",
    "clusters": "clusters a superclass",
    "rebalanced": "rebalanced clusters",
    "whole": "clusters of all images",
    "random": "random classes a superclass",
    "sample": "one class for each image",
}
"""Kinds of labels in pretraining, in the order of tables and figures."""
PRINTED_BASELINE = (11, 5.25, 0.051)
"""Of iNaturalist 2021 with a ResNet-34 that is fine-tuned on 11 superclasses: classes G,
validation error (%) and its printed standard deviation; as in the rows of Table 1."""
TABLE_1 = {
    "manual": [
        (13, 5.40, 0.075), (51, 5.10, 0.038), (273, 4.83, 0.041), (1103, 4.79, 0.045),
        (4884, 4.82, 0.056), (6485, 4.84, 0.033),
    ],
    "random": [
        (22, 6.61, 0.215), (88, 6.30, 0.070),
        (352, 6.12, 0.77),  # as printed; its neighbours suggest 0.077
        (1408, 6.10, 0.053), (5632, 6.12, 0.042), (11264, 6.10, 0.057),
    ],
    "sample": [(500000, 6.54, 0.758)],  # printed as random class IDs
    "clusters": [
        (22, 5.14, 0.049), (88, 5.16, 0.033), (352, 5.17, 0.027), (1408, 5.24, 0.029),
        (2816, 5.30, 0.029), (5632, 5.31, 0.077), (22528, 5.37, 0.032),
    ],
    "rebalanced": [
        (88, 5.18, 0.054), (218, 5.17, 0.038), (320, 5.23, 0.052), (608, 5.28, 0.045),
        (1040, 5.26, 0.035), (1984, 5.21, 0.040),
    ],
    "whole": [
        (22, 5.52, 0.015), (44, 5.42, 0.047), (88, 5.45, 0.049), (352, 5.46, 0.019),
        (1408, 5.60, 0.029), (2816, 5.50, 0.029), (5632, 5.47, 0.029),
    ],
}  # fmt: skip


def published_errors(table: pd.DataFrame) -> pd.DataFrame:
    """Return errors with coarse and with fine labels, by subclasses and distracting patches."""
    names = coarse_or_fine(table)
    rows = table.assign(labels=names)[
        names.notna() & table["metric"].isin(["easy_error", "hard_error"])
    ]
    return rows.drop(columns="sd").reset_index(drop=True)


def coarse_or_fine(table: pd.DataFrame) -> pd.Series:
    """Return "coarse" or "fine" for the labels of each row; missing for other labels."""
    is_coarse = table["labels"] == COARSE.label
    is_fine = table["labels"] == "subclass-" + table["k"].astype(str)
    names = pd.Series(None, table.index, dtype=object)
    return names.mask(is_fine, "fine").mask(is_coarse, "coarse")


def published_sweep(summary: pd.DataFrame) -> pd.DataFrame:
    """Return the end of a sweep, all of manual labels, and the nearest rows of Table 1."""
    kind = summary["labels"].str.partition("-")[0]
    rows = summary[
        (summary["epoch"] == summary["epoch"].max())
        | ((kind == "manual") & (summary["readout"] == "finetuned"))
    ]
    coarse = rows[rows["labels"] == BASELINE].groupby("superclass")["classes"].first()
    nearest = [
        nearest_paper_row(name, G / coarse[task])
        for name, G, task in zip(kind[rows.index], rows["classes"], rows["superclass"], strict=True)
    ]
    rows = rows.assign(
        printed_classes=[G for G, _, _ in nearest],
        printed=[error - PRINTED_BASELINE[1] for _, error, _ in nearest],
        printed_sd=[math.hypot(sd, PRINTED_BASELINE[2]) for _, _, sd in nearest],
        place=kind.map({name: place for place, name in enumerate(KINDS)}).fillna(-1),
    )
    rows["direction"] = [direction(row) for row in rows.itertuples()]
    keys = ["superclass", "place", "classes", "labels", "epoch", "readout"]
    return rows.sort_values(keys).drop(columns=["place", "printed_sd"]).reset_index(drop=True)


def nearest_paper_row(kind: str, granularity: float) -> tuple[int, float, float]:
    """Return the printed row of nearest granularity, classes over those of the coarse task."""
    return min(
        TABLE_1.get(kind, [PRINTED_BASELINE]),
        key=lambda row: abs(math.log(row[0] / PRINTED_BASELINE[0] / granularity)),
    )


def direction(row: Any) -> str:
    """Return, in words, whether a difference has the sign of a printed one beyond its spread."""
    if abs(row.printed) <= row.printed_sd:
        return "not compared"
    if row.paired_ci_low <= 0 <= row.paired_ci_high:
        return "not shown"
    return "as printed" if row.paired_difference * row.printed > 0 else "opposite"
