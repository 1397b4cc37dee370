"""What the study of augmentation has found."""

from collections.abc import Mapping

import pandas as pd

from rarefeat.storage.answer import answering, joined
from rarefeat.storage.markdown import each, interval, one, rows
from rarefeat.studies.augmentation import page
from rarefeat.studies.augmentation.config import Augmentation

TABLES = ("augmentation",)
NAMES = {
    "independent_noise": "noise of its own in each view",
    "random_mask": "a random mask",
    "mask=0.25": "a mask of a quarter",
    "mask=0.1": "a mask of a tenth",
    "identical": "identical views",
    "identical_without_bias": "identical views without a bias",
    "random_mask_without_bias": "a random mask without a bias",
}
"""Kinds of positive pairs, for people."""
TOLD = ("identical", "independent_noise", "random_mask", "random_mask_without_bias", "identical_without_bias")


def found(section: Augmentation, tables: Mapping[str, pd.DataFrame]) -> list[str]:
    """The share of the features that have a neuron of their own, and the error of a head, by kind of positive pair."""
    table = tables["augmentation"]
    covered = rows(table, metric="covered_features", study=list(TOLD)).sort_values("mean", ascending=False)
    shares = joined(f"{interval(row, 'mean', 2)} for {NAMES[row['study']]}" for row in each(covered))
    sentences = [
        "What gives features a neuron of their own at this size is the bias, at least as much as the augmentation. The share of"
        f" features that have one: {shares} (n = {covered['n'].max()} seeds)."
    ]
    errors = rows(table, metric="regression_error")
    if {"identical", "identical_without_bias"} <= set(errors["study"]):
        with_bias, without = (one(errors, study=name) for name in ("identical", "identical_without_bias"))
        sentences.append(
            f"Without augmentation and without a bias a linear head leaves {interval(without, 'mean', 2)} of the label's"
            f" variance, as the paper says it must; with a bias {interval(with_bias, 'mean', 2)}, which the paper leaves open."
        )
    return sentences


answer = answering("Augmentation and feature decoupling", "augmentation", Augmentation, found, TABLES, page.TABLES)
