"""What is measured for the claims on coarse and fine labels."""

from collections.abc import Iterator, Mapping

import numpy as np
import pandas as pd
from scipy.stats import spearmanr

from rarefeat.claims.estimate import exponent
from rarefeat.claims.measurements import Measurement, measurement
from rarefeat.run.job import Job
from rarefeat.studies.fine_labels import theory
from rarefeat.studies.fine_labels.config import (
    COARSE,
    DIRECT,
    RIDGE,
    SCALAR,
    FineLabels,
    Labels,
    fine,
)

NEVER = {
    "F1-noise": "on_noise",
    "F1-rest": "moved_outside",
    "F1-off-diagonal": "off_diagonal_growth",
}
"""What the direct simulator counts."""


def measure(tables: Mapping[str, pd.DataFrame], job: Job) -> list[Measurement]:
    """Every claim in every regime that the tables have."""
    section = job.config_section("fine_labels", FineLabels)
    rows = [
        *measurements_per_k(tables["fine_labels_errors"], section),
        *measurements_across_k(tables["fine_labels_errors"], section),
        *of_other_labels(tables["fine_labels_heads"], section),
        *of_noise(tables["fine_labels_errors"], tables["fine_labels_heads"]),
        *of_simulators(tables["fine_labels_simulators"]),
    ]
    return rows + [
        row for name in section.sweeps for row in of_sweep(tables[f"{name}_errors"], name)
    ]


def of_metric(
    errors: pd.DataFrame, metric: str, labels: Labels, k: int | None = None
) -> pd.DataFrame:
    """Values of a metric by (k, s_dag), a column per seed; at one k alone where given."""
    of_k = errors["k"] if k is None else k
    chosen = errors[
        (errors["metric"] == metric) & (errors["labels"] == labels.label) & (errors["k"] == of_k)
    ]
    return chosen.pivot(index=["k", "s_dag"], columns="seed", values="value")


def measurements_per_k(errors: pd.DataFrame, section: FineLabels) -> Iterator[Measurement]:
    """What is claimed at every k."""
    kappa_b, primary = section.learner.kappa_b, section.hierarchy.s_dag
    floor = theory.fine_floor(section.hierarchy.P, section.hierarchy.s_star)
    for k in section.k:

        def coarse(metric: str, k: int = k) -> pd.Series:
            return of_metric(errors, metric, COARSE, k).loc[k, primary]

        def with_fine(metric: str, k: int = k) -> pd.Series:
            return of_metric(errors, metric, fine(k), k).loc[k, primary]

        found = {
            "4-first-coarse": log(k * coarse("first_ratio")),
            "4-first-fine": log(with_fine("first_ratio") / theory.first_step_ratio(k, "fine")),
            "4-bound-coarse": log(k * coarse("largest_ratio")),
            "4-log-growth": log(coarse("late_over_early_growth")),
            "4-bias-coarse-common": log(kappa_b * coarse("bias_over_common")),
            "4-bias-coarse-subclass": log(kappa_b * coarse("bias_over_subclass")),
            "4-bias-fine-subclass": log(kappa_b * with_fine("bias_over_subclass")),
            "4-bias-fine-common": log(kappa_b * with_fine("bias_over_common")),
            "5-easy-coarse": coarse("easy_error"),
            "5-easy-fine": with_fine("easy_error"),
            "5-hard-coarse": coarse("hard_error"),
            "5-hard-fine": with_fine("hard_error") - floor,
            "G3-easy-subclass": with_fine("easy_subclass_error"),
            "5-closed-form": coarse("hard_error") - coarse("predicted_hard_error"),
            "G4-fine-tuning": with_fine("tuning_smallest_change"),
        }
        yield from (measurement(claim, SCALAR, {"k": k}, values) for claim, values in found.items())


def measurements_across_k(errors: pd.DataFrame, section: FineLabels) -> Iterator[Measurement]:
    """What is claimed across k, or across k and s_dag."""
    floor = theory.fine_floor(section.hierarchy.P, section.hierarchy.s_star)
    k = np.array(sorted(section.k))
    if len(k) > 1:
        ratios = of_metric(errors, "ratio", COARSE).loc[
            [(value, section.hierarchy.s_dag) for value in k]
        ]
        yield measurement(
            "4-order-coarse", SCALAR, {"over_k": (k[0], k[-1])}, exponent(k, ratios.to_numpy())
        )
    hard, R = (of_metric(errors, metric, COARSE) for metric in ("hard_error", "R"))
    if len(hard) > 1:
        yield measurement(
            "5-R-coarse",
            SCALAR,
            {"over": "k x s_dag"},
            [spearmanr(R[seed], hard[seed]).statistic for seed in hard],
        )
    every = pd.concat([of_metric(errors, "hard_error", fine(value), value) for value in section.k])
    yield measurement("5-R-fine", SCALAR, {"over": "k x s_dag"}, (every - floor).max())


def of_other_labels(heads: pd.DataFrame, section: FineLabels) -> Iterator[Measurement]:
    """Linear heads on other labels than the true ones, at the primary k."""
    k = section.hierarchy.k
    chosen = heads[
        (heads["k"] == k)
        & (heads["features"] == "detectors")
        & (heads["penalty"] == RIDGE)
        & (heads["hard_share"] == 0)
    ]
    found = chosen.pivot(index="labels", columns="seed", values="hard")
    for kind, ids in (("sample", 1), ("random", k), ("misaligned", k)):
        labels = Labels(kind=kind, ids=ids)
        if {labels.label, fine(k).label} <= set(found.index):
            yield measurement(
                f"7-{kind}", SCALAR, {"k": k}, found.loc[labels.label] - found.loc[fine(k).label]
            )


def of_noise(errors: pd.DataFrame, heads: pd.DataFrame) -> Iterator[Measurement]:
    """The linear model on summed patches."""
    linear = heads[heads["features"] == "patch sums"].groupby("seed")["easy"].min()
    network = errors[errors["metric"] == "error_in_noise"].set_index("seed")["value"]
    if len(linear):
        yield measurement("B2-linear", SCALAR, {"over": "noise"}, linear - network)


def of_simulators(simulators: pd.DataFrame) -> Iterator[Measurement]:
    """What the direct simulator shows."""
    for item, metric in NEVER.items():
        for (k, labels), part in simulators[simulators["metric"] == metric].groupby(
            ["k", "labels"]
        ):
            yield measurement(
                item,
                DIRECT,
                {"k": k, "labels": "coarse" if labels == COARSE.label else "fine"},
                part["value"],
            )


def of_sweep(errors: pd.DataFrame, study: str) -> Iterator[Measurement]:
    """A granularity sweep on images, every coarse task and kind of labels."""
    tuned = errors[errors["readout"] == "finetuned"]
    last = tuned["epoch"].max()
    for task, part in tuned.groupby("superclass"):
        final = part[part["epoch"] == last]
        found = final.pivot(index="labels", columns="seed", values="error")
        G = final.groupby("labels")["classes"].mean()
        scale = found.loc["coarse"].mean()

        def relative(one: pd.Series, other: pd.Series, scale: float = scale) -> pd.Series:
            return (one - other) / scale

        def of_kind(kind: str, G: pd.Series = G) -> pd.Series:
            return G[G.index.str.partition("-").get_level_values(0) == kind]

        for item, kind in (
            ("6-manual", "manual"),
            ("6-sample", "sample"),
            ("6-random", "random"),
            ("6-clusters", "clusters"),
        ):
            for labels in of_kind(kind).index:
                yield measurement(
                    item,
                    study,
                    {"task": task, "labels": labels},
                    relative(found.loc[labels], found.loc["coarse"]),
                )
        for item, kind in (("6-manual-clusters", "manual"), ("6-whole", "whole")):
            for labels, number in of_kind(kind).items():
                for clusters in of_kind("clusters").index[of_kind("clusters") == number]:
                    place = {"task": task, "labels": labels, "beside": clusters}
                    yield measurement(
                        item, study, place, relative(found.loc[labels], found.loc[clusters])
                    )
        for labels, number in of_kind("rebalanced").items():
            if len(of_kind("clusters")):
                nearest = np.log(of_kind("clusters") / number).abs().idxmin()
                place = {"task": task, "labels": labels}
                yield measurement(
                    "6-rebalanced", study, place, relative(found.loc[labels], found.loc[nearest])
                )
        for (labels, epoch), early in part[part["epoch"] < last].groupby(["labels", "epoch"]):
            if labels in of_kind("manual").index:
                values = relative(early.set_index("seed")["error"], found.loc[labels])
                yield measurement(
                    "6-late", study, {"task": task, "labels": labels, "epoch": epoch}, values
                )


def log(values: pd.Series) -> pd.Series:
    """Logarithms; NaN where there is none."""
    return np.log(values.where(values > 0))
