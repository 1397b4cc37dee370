"""Measurements of feature decoupling by augmentation (Wen & Li 2021).

They include its crossing with imbalance and pruning.
"""

from collections.abc import Mapping

import numpy as np
import pandas as pd

from rarefeat.claims.measurements import Measurement, measurement
from rarefeat.model.theory import activation_probability
from rarefeat.studies.augmentation.config import Augmentation
from rarefeat.workflow.config.study import Study
from rarefeat.workflow.run.job import Job

# Studies share W(0), which is measured once.
FIRST = ("independent_noise",)
MASKED = ("random_mask", "mask=0.25", "mask=0.1")
WITH = (*MASKED, "independent_noise")
WITHOUT = ("identical", "identical_without_bias")
STAGED = (
    "WL-P4",
    "WL-P5-lucky",
    "WL-P5-others",
    "WL-P5-few",
    "WL-P5-outside",
    "WL-P6-focus",
    "WL-P6-leads",
)
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
    ("WL-P9", "noise_left", WITH),
    ("WL-P10-cosine", "noise_cosine", WITHOUT),
    ("WL-P10-share", "share_outside", WITHOUT),
    ("WL-P13-up", "bias_share", ("random_mask_learned_bias", "independent_noise_learned_bias")),
    ("WL-P13-down", "bias_share", ("identical_learned_bias",)),
    ("WL-colour-stays", "share_colour", ("colour_identical", "colour_mask")),
    ("WL-colour-goes", "share_colour", ("colour_mask_and_redrawn",)),
)


def measure(tables: Mapping[str, pd.DataFrame], job: Job) -> list[Measurement]:
    """Measure every study of the section `augmentation` that a claim is about."""
    table, studies = (
        tables["augmentation"],
        job.config_section("augmentation", Augmentation).studies,
    )
    names_in_table = [name for name in studies if name in set(table["study"])]
    rows = []

    def select_values(
        study: str, metric: str, labels: int = 0, encoder: str = "trained"
    ) -> pd.DataFrame:
        """Return values by (eps_min, arm), a column per seed."""
        chosen = table[
            (table["study"] == study) & (table["encoder"] == encoder) & (table["labels"] == labels)
        ]
        if metric == "share_outside":
            return 1 - wide(chosen[chosen["metric"] == "share_features"])
        if metric == "pull_signal_and_noise":
            chosen = chosen[chosen["metric"] == "pull_features"]
            p, noise = probability(studies[study]), chosen["sigma"] ** 2
            return wide(chosen.assign(value=chosen["value"] * p / (p + noise)))
        return wide(chosen[chosen["metric"] == metric])

    def add(claim: str, study: str, values: pd.DataFrame) -> None:
        """Add a row for every point and arm that has values."""
        for (eps_min, arm), of_point in values.iterrows():
            place = {"eps_min": eps_min, "arm": arm} if len(values) > 1 else {}
            few = claim in STAGED and np.isfinite(of_point).sum() < 5
            rows.append(
                measurement(
                    claim,
                    study,
                    place,
                    of_point,
                    untestable="fewer than five replicas come to this stage" if few else "",
                )
            )

    for claim, metric, names in BY_STUDY:
        for study in (name for name in names if name in names_in_table):
            add(claim, study, select_values(study, metric))
    most = table["labels"].max()
    for study in (name for name in (*WITH, *WITHOUT) if name in names_in_table):
        error = select_values(study, "regression_error", most)
        add("WL-P12" if study in WITH else "WL-P11", study, error)
        if study in WITH and "independent_noise" in names_in_table:
            raw = select_values("independent_noise", "regression_error", most, "raw").droplevel(
                "arm"
            )
            add("WL-P12-raw", study, error.sub(raw, level="eps_min").dropna(how="all"))
        if study in WITH:
            add("WL-P8", study, select_values(study, "activity") / probability(studies[study]))
    for suffix in ("", "_without_bias"):
        mask, noise = (f"imbalance_{name}{suffix}" for name in ("random_mask", "independent_noise"))
        if mask not in names_in_table:
            continue
        fate = select_values(mask, "minority_alignment")
        dense = fate.xs("dense", level="arm")
        add("crossing-pruning", mask, fate.drop("dense", level="arm").sub(dense, level="eps_min"))
        if noise in names_in_table:
            other = select_values(noise, "minority_alignment").xs("dense", level="arm")
            add(
                "crossing-mask",
                mask,
                fate.xs("dense", level="arm", drop_level=False).sub(other, level="eps_min"),
            )
    return rows


def probability(study: Study) -> float:
    """Compute p, the probability that a majority feature is active."""
    return float(activation_probability(np.ones(study.data.d), study.data.C)[0])


def wide(rows: pd.DataFrame) -> pd.DataFrame:
    """Return a row per (eps_min, arm), a column per seed."""
    return rows.pivot(index=["eps_min", "arm"], columns="seed", values="value")
