"""What each claim about feature decoupling (Wen & Li 2021) looks at, and its crossing with
imbalance and pruning.
"""

from collections.abc import Mapping

import numpy as np
import pandas as pd

from rarefeat.claims.measurements import Measurement, measurement
from rarefeat.model.theory import activation_probability
from rarefeat.studies.augmentation.config import Augmentation
from rarefeat.workflow.config.study import Study

# Studies share W(0), which is measured once.
FIRST = ("independent_noise",)
MASKED = ("random_mask", "mask=0.25", "mask=0.1")
WITH = (*MASKED, "independent_noise")
WITHOUT = ("identical", "identical_without_bias")
LEARNED = ("random_mask_learned_bias", "independent_noise_learned_bias")
BY_STUDY = (
    ("WL-P1-lucky", "lucky_neurons", FIRST),
    ("WL-P1-ordinary", "ordinary_features", FIRST),
    ("WL-P1-shared", "shared_ordinary", FIRST),
    ("WL-P2", "cross_talk", ("random_mask",)),
    ("WL-P3-features", "pull_features", WITH),
    ("WL-P3-rest", "pull_rest", WITH),
    ("WL-P3-without", "pull_signal_and_noise", ("identical",)),
    ("WL-P3-noise", "pull_rest", ("identical",)),
    ("WL-P5-lucky", "lucky_above_threshold_at_T1", WITH),
    ("WL-P5-others", "others_below_threshold_at_T1", WITH),
    ("WL-P5-few", "few_strong_features_at_T1", WITH),
    ("WL-P5-outside", "outside_largest_at_T1", WITH),
    ("WL-P6-focus", "lucky_focus_at_T2", WITH),
    ("WL-P6-leads", "ordinary_over_lucky_at_T2", WITH),
    ("WL-P14", "likeness_to_supervised", WITH),
    ("WL-P14-without", "likeness_to_supervised", WITHOUT),
    ("WL-P4", "growth_over_closed_form", (*WITH, "rho=0.5", "rho=0.9", *WITHOUT)),
    ("WL-P7-share", "share_features", WITH),
    ("WL-P7-singletons", "covered_features", WITH),
    ("WL-P7-few", "features_per_neuron", WITH),
    ("WL-P8", "activity_over_probability", WITH),
    ("WL-P9", "noise_left", WITH),
    ("WL-P10-cosine", "noise_cosine", WITHOUT),
    ("WL-P10-share", "share_outside", WITHOUT),
    ("WL-P11", "regression_error", WITHOUT),
    ("WL-P12", "regression_error", WITH),
    ("WL-P12-raw", "error_less_raw", WITH),
    ("WL-P13-up", "bias_share", LEARNED),
    ("WL-P13-down", "bias_share", ("identical_learned_bias",)),
    ("WL-colour-stays", "share_colour", ("colour_identical", "colour_mask")),
    ("WL-colour-goes", "colour_removed", ("colour_mask_and_redrawn",)),
)
PREMISES = {"WL-P5-others": "lucky_above_threshold_at_T1"}
"""Metric of what a claim assumes."""
STAGED = ("WL-P4", "WL-P5", "WL-P6")
"""Claims about stages that not every replica comes to."""
IMBALANCED = ("imbalance_{}", "imbalance_{}_without_bias")
"""Studies with a rare feature, by the kind of pair."""


def measure(tables: Mapping[str, pd.DataFrame], augmentation: Augmentation) -> list[Measurement]:
    """Measure every study of the section `augmentation` that a claim is about."""
    (table,) = tables.values()
    groups = dict(iter(table.groupby(["study", "metric", "encoder", "labels"])))
    most, present = table["labels"].max(), set(table["study"])
    studies = {name: study for name, study in augmentation.studies.items() if name in present}
    found = []

    def rows_of(study: str, metric: str, encoder: str = "trained") -> pd.DataFrame:
        labels = most if metric == "regression_error" else 0
        return groups.get((study, metric, encoder, labels), table[:0])

    def quantity(study: str, metric: str) -> pd.DataFrame:
        """Return values by (eps_min, arm), a column per seed."""
        match metric:
            case "share_outside":
                return 1 - wide(rows_of(study, "share_features"))
            case "activity_over_probability":
                return wide(rows_of(study, "activity")) / probability(studies[study])
            case "pull_signal_and_noise":
                rows, p = rows_of(study, "pull_features"), probability(studies[study])
                return wide(rows.assign(value=rows["value"] * p / (p + rows["sigma"] ** 2)))
            case "colour_removed":
                left, before = (quantity(name, "share_colour") for name in (study, "colour_mask"))
                return left - before
            case "error_less_raw" if FIRST[0] in studies:
                raw = wide(rows_of(FIRST[0], "regression_error", "raw")).droplevel("arm")
                error = quantity(study, "regression_error")
                return error.sub(raw, level="eps_min").dropna(how="all")
        return wide(rows_of(study, metric))

    def add(claim: str, study: str, values: pd.DataFrame) -> None:
        for at, of_point in values.iterrows():
            eps_min, arm = at
            place = {"eps_min": eps_min, "arm": arm} if len(values) > 1 else {}
            few = claim.startswith(STAGED) and np.isfinite(of_point).sum() < 5
            why = "fewer than five replicas come to this stage" if few else ""
            premise = quantity(study, PREMISES[claim]).loc[at] if claim in PREMISES else None
            found.append(
                measurement(claim, study, place, of_point, untestable=why, premise=premise)
            )

    for claim, metric, names in BY_STUDY:
        for study in (name for name in names if name in studies):
            add(claim, study, quantity(study, metric))
    for name in IMBALANCED:
        mask, noise = (name.format(kind) for kind in ("random_mask", "independent_noise"))
        if mask not in studies:
            continue
        fate = quantity(mask, "minority_alignment")
        dense = fate.xs("dense", level="arm", drop_level=False)
        pruned = fate.drop("dense", level="arm")
        add("crossing-pruning", mask, pruned.sub(dense.droplevel("arm"), level="eps_min"))
        if noise in studies:
            other = quantity(noise, "minority_alignment").xs("dense", level="arm")
            add("crossing-mask", mask, dense.sub(other, level="eps_min"))
    return found


def probability(study: Study) -> float:
    """Compute p, the probability that a majority feature is active."""
    return float(activation_probability(np.ones(study.data.d), study.data.C)[0])


def wide(rows: pd.DataFrame) -> pd.DataFrame:
    """Return a row per (eps_min, arm), a column per seed."""
    return rows.pivot(index=["eps_min", "arm"], columns="seed", values="value")
