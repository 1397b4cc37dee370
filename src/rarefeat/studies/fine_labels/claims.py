"""Measurements for the claims on coarse and fine labels."""

from collections.abc import Iterator, Mapping

import numpy as np
import pandas as pd
from scipy.stats import spearmanr

from rarefeat.claims.estimate import exponent
from rarefeat.claims.measurements import Measurement, measurement
from rarefeat.studies.fine_labels import DIRECT, RIDGE, SCALAR, FineLabels, theory
from rarefeat.studies.fine_labels.config import COARSE, Labels, fine
from rarefeat.studies.fine_labels.tables import KINDS

DIRECT_CLAIMS = {
    "F1-noise": "on_noise",
    "F1-rest": "moved_outside",
    "F1-off-diagonal": "off_diagonal_growth",
}
"""Metric of the direct simulator, by claim."""


def measure(tables: Mapping[str, pd.DataFrame], fine_labels: FineLabels) -> Iterator[Measurement]:
    """Measure every claim in every regime of the tables."""
    errors, heads = tables["fine_labels_errors"], tables["fine_labels_heads"]
    yield from measurements_per_k(errors, fine_labels)
    yield from measurements_across_k(errors, fine_labels)
    yield from label_measurements(heads, fine_labels.hierarchy.k)
    yield from noise_measurements(errors, heads)
    yield from simulator_measurements(tables["fine_labels_simulators"])
    for name in fine_labels.sweeps:
        yield from sweep_measurements(tables[f"{name}_errors"], name)


def select_metric(errors: pd.DataFrame, metric: str, labels: Labels) -> pd.DataFrame:
    """Return the values of a metric by (k, s_dag), one column for each seed."""
    rows = errors[(errors["metric"] == metric) & (errors["labels"] == labels.label)]
    return rows.pivot(index=["k", "s_dag"], columns="seed", values="value")


def measurements_per_k(errors: pd.DataFrame, section: FineLabels) -> Iterator[Measurement]:
    """Measure the claims at every k."""
    kappa_b, data = section.learner.kappa_b, section.hierarchy
    floor = theory.fine_floor(data.P, data.s_star)
    for k in section.k:
        rows = errors[(errors["k"] == k) & (errors["s_dag"] == data.s_dag)]
        coarse, finest = (
            rows[rows["labels"] == labels.label].pivot(
                index="seed", columns="metric", values="value"
            )
            for labels in (COARSE, fine(k))
        )
        values_of = {
            "4-first-coarse": log(k * coarse["first_ratio"]),
            "4-first-fine": log(finest["first_ratio"] / theory.first_step_ratio(k, "fine")),
            "4-bound-coarse": log(k * coarse["largest_ratio"]),
            "4-log-growth": log(coarse["late_over_early_growth"]),
            "4-bias-coarse-common": log(kappa_b * coarse["bias_over_common"]),
            "4-bias-coarse-subclass": log(kappa_b * coarse["bias_over_subclass"]),
            "4-bias-fine-subclass": log(kappa_b * finest["bias_over_subclass"]),
            "4-bias-fine-common": log(kappa_b * finest["bias_over_common"]),
            "5-easy-coarse": coarse["easy_error"],
            "5-easy-fine": finest["easy_error"],
            "5-hard-coarse": coarse["hard_error"],
            "5-hard-fine": finest["hard_error"] - floor,
            "G3-easy-subclass": finest["easy_subclass_error"],
            "5-closed-form": coarse["hard_error"] - coarse["predicted_hard_error"],
            "G4-fine-tuning": finest["tuning_smallest_change"],
        }
        for claim, values in values_of.items():
            yield measurement(claim, SCALAR, {"k": k}, values)


def measurements_across_k(errors: pd.DataFrame, section: FineLabels) -> Iterator[Measurement]:
    """Measure the claims across k, or across k and s_dag."""
    data, k = section.hierarchy, sorted(section.k)
    if len(k) > 1:
        ratios = select_metric(errors, "ratio", COARSE).loc[[(one, data.s_dag) for one in k]]
        slopes = exponent(np.array(k), ratios.to_numpy())
        yield measurement("4-order-coarse", SCALAR, {"over_k": (k[0], k[-1])}, slopes)
    hard, R = (select_metric(errors, metric, COARSE) for metric in ("hard_error", "R"))
    regime = {"over": "k x s_dag"}
    if len(hard) > 1:
        correlations = [spearmanr(R[seed], hard[seed]).statistic for seed in hard]
        yield measurement("5-R-coarse", SCALAR, regime, correlations)
    fine_errors = [select_metric(errors, "hard_error", fine(one)).loc[[one]] for one in section.k]
    largest = (pd.concat(fine_errors) - theory.fine_floor(data.P, data.s_star)).max()
    yield measurement("5-R-fine", SCALAR, regime, largest)


def label_measurements(heads: pd.DataFrame, k: int) -> Iterator[Measurement]:
    """Measure linear heads on labels other than the true ones, at the primary k."""
    chosen = (heads["k"] == k) & (heads["features"] == "detectors")
    rows = heads[chosen & (heads["penalty"] == RIDGE) & (heads["hard_share"] == 0)]
    errors = rows.pivot(index="labels", columns="seed", values="hard")
    for kind, ids in (("sample", 1), ("random", k), ("misaligned", k)):
        names = Labels(kind=kind, ids=ids).label, fine(k).label
        if set(names) <= set(errors.index):
            difference = errors.loc[names[0]] - errors.loc[names[1]]
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
    """Measure a sweep by task and labels, in units of the mean error of the baseline."""
    tuned = errors[errors["readout"] == "finetuned"]
    last = tuned["epoch"].max()
    for task, rows in tuned.groupby("superclass"):
        final = rows[rows["epoch"] == last]
        error = final.pivot(index="labels", columns="seed", values="error")
        G = final.groupby("labels")["classes"].mean()
        kinds = G.index.str.partition("-").get_level_values(0)
        of_kind = {kind: G[kinds == kind] for kind in KINDS}
        clusters, scale = of_kind["clusters"], error.loc["coarse"].mean()
        # Claim, labels, those that they are held against, and what else is in the regime.
        pairs = [
            (f"6-{kind}", labels, "coarse", {})
            for kind in ("manual", "sample", "random", "clusters")
            for labels in of_kind[kind].index
        ]
        pairs += [
            (claim, labels, other, {"beside": other})
            for claim, kind in (("6-manual-clusters", "manual"), ("6-whole", "whole"))
            for labels, number in of_kind[kind].items()
            for other in clusters.index[clusters == number]
        ]
        pairs += [
            ("6-rebalanced", labels, np.log(clusters / number).abs().idxmin(), {})
            for labels, number in of_kind["rebalanced"].items()
            if len(clusters)
        ]
        for claim, labels, other, regime in pairs:
            values = (error.loc[labels] - error.loc[other]) / scale
            yield measurement(claim, study, {"task": task, "labels": labels} | regime, values)
        manual = rows[(rows["epoch"] < last) & rows["labels"].isin(of_kind["manual"].index)]
        for (labels, epoch), early in manual.groupby(["labels", "epoch"]):
            values = (early.set_index("seed")["error"] - error.loc[labels]) / scale
            regime = {"task": task, "labels": labels, "epoch": epoch}
            yield measurement("6-late", study, regime, values)


def log(values: pd.Series) -> pd.Series:
    """Return the logarithms; NaN for values that are not positive."""
    return np.log(values.where(values > 0))
