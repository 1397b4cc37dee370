"""Measurements for the claims on coarse and fine labels."""

from collections.abc import Iterator, Mapping

import numpy as np
import pandas as pd
from scipy.stats import spearmanr

from rarefeat.claims.estimate import exponent
from rarefeat.claims.measurements import Measurement, measurement
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
from rarefeat.workflow.run.job import Job

DIRECT_CLAIMS = {
    "F1-noise": "on_noise",
    "F1-rest": "moved_outside",
    "F1-off-diagonal": "off_diagonal_growth",
}
"""Metric of the direct simulator, by claim."""


def measure(tables: Mapping[str, pd.DataFrame], job: Job) -> list[Measurement]:
    """Measure every claim in every regime of the tables.

    Inputs: the tables of `declaration.claim_inputs`. Config: `fine_labels`.
    """
    section = job.config_section("fine_labels", FineLabels)
    errors, heads = tables["fine_labels_errors"], tables["fine_labels_heads"]
    rows = [
        *measurements_per_k(errors, section),
        *measurements_across_k(errors, section),
        *label_measurements(heads, section),
        *noise_measurements(errors, heads),
        *simulator_measurements(tables["fine_labels_simulators"]),
    ]
    return rows + [
        row for name in section.sweeps for row in sweep_measurements(tables[f"{name}_errors"], name)
    ]


def select_metric(
    errors: pd.DataFrame, metric: str, labels: Labels, k: int | None = None
) -> pd.DataFrame:
    """Return the values of a metric by (k, s_dag), one column for each seed."""
    rows = errors[(errors["metric"] == metric) & (errors["labels"] == labels.label)]
    if k is not None:
        rows = rows[rows["k"] == k]
    return rows.pivot(index=["k", "s_dag"], columns="seed", values="value")


def measurements_per_k(errors: pd.DataFrame, section: FineLabels) -> Iterator[Measurement]:
    """Measure the claims at every k."""
    kappa_b, primary = section.learner.kappa_b, section.hierarchy.s_dag
    floor = theory.fine_floor(section.hierarchy.P, section.hierarchy.s_star)
    for k in section.k:

        def with_coarse(metric: str, k: int = k) -> pd.Series:
            return select_metric(errors, metric, COARSE, k).loc[k, primary]

        def with_fine(metric: str, k: int = k) -> pd.Series:
            return select_metric(errors, metric, fine(k), k).loc[k, primary]

        hard_error = with_coarse("hard_error")
        values_of = {
            "4-first-coarse": log(k * with_coarse("first_ratio")),
            "4-first-fine": log(with_fine("first_ratio") / theory.first_step_ratio(k, "fine")),
            "4-bound-coarse": log(k * with_coarse("largest_ratio")),
            "4-log-growth": log(with_coarse("late_over_early_growth")),
            "4-bias-coarse-common": log(kappa_b * with_coarse("bias_over_common")),
            "4-bias-coarse-subclass": log(kappa_b * with_coarse("bias_over_subclass")),
            "4-bias-fine-subclass": log(kappa_b * with_fine("bias_over_subclass")),
            "4-bias-fine-common": log(kappa_b * with_fine("bias_over_common")),
            "5-easy-coarse": with_coarse("easy_error"),
            "5-easy-fine": with_fine("easy_error"),
            "5-hard-coarse": hard_error,
            "5-hard-fine": with_fine("hard_error") - floor,
            "G3-easy-subclass": with_fine("easy_subclass_error"),
            "5-closed-form": hard_error - with_coarse("predicted_hard_error"),
            "G4-fine-tuning": with_fine("tuning_smallest_change"),
        }
        for claim, values in values_of.items():
            yield measurement(claim, SCALAR, {"k": k}, values)


def measurements_across_k(errors: pd.DataFrame, section: FineLabels) -> Iterator[Measurement]:
    """Measure the claims across k, or across k and s_dag."""
    floor = theory.fine_floor(section.hierarchy.P, section.hierarchy.s_star)
    k = np.array(sorted(section.k))
    if len(k) > 1:
        cells = [(value, section.hierarchy.s_dag) for value in k]
        ratios = select_metric(errors, "ratio", COARSE).loc[cells]
        regime = {"over_k": (k[0], k[-1])}
        yield measurement("4-order-coarse", SCALAR, regime, exponent(k, ratios.to_numpy()))
    hard, R = (select_metric(errors, metric, COARSE) for metric in ("hard_error", "R"))
    regime = {"over": "k x s_dag"}
    if len(hard) > 1:
        correlations = [spearmanr(R[seed], hard[seed]).statistic for seed in hard]
        yield measurement("5-R-coarse", SCALAR, regime, correlations)
    fine_errors = [select_metric(errors, "hard_error", fine(value), value) for value in section.k]
    yield measurement("5-R-fine", SCALAR, regime, (pd.concat(fine_errors) - floor).max())


def label_measurements(heads: pd.DataFrame, section: FineLabels) -> Iterator[Measurement]:
    """Measure linear heads on labels other than the true ones, at the primary k."""
    k = section.hierarchy.k
    rows = heads[
        (heads["k"] == k)
        & (heads["features"] == "detectors")
        & (heads["penalty"] == RIDGE)
        & (heads["hard_share"] == 0)
    ]
    errors = rows.pivot(index="labels", columns="seed", values="hard")
    for kind, ids in (("sample", 1), ("random", k), ("misaligned", k)):
        labels = Labels(kind=kind, ids=ids)
        if {labels.label, fine(k).label} <= set(errors.index):
            difference = errors.loc[labels.label] - errors.loc[fine(k).label]
            yield measurement(f"7-{kind}", SCALAR, {"k": k}, difference)


def noise_measurements(errors: pd.DataFrame, heads: pd.DataFrame) -> Iterator[Measurement]:
    """Measure the best linear model on summed patches against the network."""
    linear = heads[heads["features"] == "patch sums"].groupby("seed")["easy"].min()
    network = errors[errors["metric"] == "error_in_noise"].set_index("seed")["value"]
    if len(linear):
        yield measurement("B2-linear", SCALAR, {"over": "noise"}, linear - network)


def simulator_measurements(simulators: pd.DataFrame) -> Iterator[Measurement]:
    """Measure the claims on the direct simulator."""
    for claim, metric in DIRECT_CLAIMS.items():
        rows = simulators[simulators["metric"] == metric]
        for (k, labels), group in rows.groupby(["k", "labels"]):
            regime = {"k": k, "labels": "coarse" if labels == COARSE.label else "fine"}
            yield measurement(claim, DIRECT, regime, group["value"])


def sweep_measurements(errors: pd.DataFrame, study: str) -> Iterator[Measurement]:
    """Measure a granularity sweep on images, at every coarse task and kind of labels.

    Values are differences of errors over the mean error of the baseline.
    """
    tuned = errors[errors["readout"] == "finetuned"]
    last = tuned["epoch"].max()
    for task, rows in tuned.groupby("superclass"):
        final = rows[rows["epoch"] == last]
        error = final.pivot(index="labels", columns="seed", values="error")
        G = final.groupby("labels")["classes"].mean()
        scale = error.loc["coarse"].mean()

        def relative(values: pd.Series, baseline: pd.Series, scale: float = scale) -> pd.Series:
            return (values - baseline) / scale

        def of_kind(kind: str, G: pd.Series = G) -> pd.Series:
            return G[G.index.str.partition("-").get_level_values(0) == kind]

        for kind in ("manual", "sample", "random", "clusters"):
            for labels in of_kind(kind).index:
                values = relative(error.loc[labels], error.loc["coarse"])
                yield measurement(f"6-{kind}", study, {"task": task, "labels": labels}, values)
        for claim, kind in (("6-manual-clusters", "manual"), ("6-whole", "whole")):
            for labels, number in of_kind(kind).items():
                for clusters in of_kind("clusters").index[of_kind("clusters") == number]:
                    regime = {"task": task, "labels": labels, "beside": clusters}
                    values = relative(error.loc[labels], error.loc[clusters])
                    yield measurement(claim, study, regime, values)
        for labels, number in of_kind("rebalanced").items():
            if len(of_kind("clusters")):
                nearest = np.log(of_kind("clusters") / number).abs().idxmin()
                values = relative(error.loc[labels], error.loc[nearest])
                regime = {"task": task, "labels": labels}
                yield measurement("6-rebalanced", study, regime, values)
        for (labels, epoch), early in rows[rows["epoch"] < last].groupby(["labels", "epoch"]):
            if labels in of_kind("manual").index:
                values = relative(early.set_index("seed")["error"], error.loc[labels])
                regime = {"task": task, "labels": labels, "epoch": epoch}
                yield measurement("6-late", study, regime, values)


def log(values: pd.Series) -> pd.Series:
    """Return the logarithms; NaN for values that are not positive."""
    return np.log(values.where(values > 0))
