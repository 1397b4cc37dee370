"""Findings of the study of augmentation, in sentences that follow from its numbers."""

from collections.abc import Mapping

import pandas as pd

from rarefeat.storage.findings import compare, enumerate_words, make_findings_page
from rarefeat.storage.markdown import interval, records, select_rows, single_row
from rarefeat.studies.augmentation import doc_tables
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
"""Human-readable names of kinds of positive pairs."""
COMPARED = (
    ("identical", "identical_without_bias", "a bias", "for identical views"),
    ("random_mask", "random_mask_without_bias", "a bias", "for a random mask"),
    ("random_mask", "identical", "a random mask instead of identical views", "with a bias"),
    ("random_mask_without_bias", "identical_without_bias", "the same mask", "without a bias"),
)
"""Pairs of studies, with what the first has and the second lacks, and the setting."""
REPORTED = (
    "identical",
    "independent_noise",
    "random_mask",
    "random_mask_without_bias",
    "identical_without_bias",
)


def findings(section: Augmentation, tables: Mapping[str, pd.DataFrame]) -> list[str]:
    """Say how bias and augmentation change the covered features, and the error of a head."""
    table = tables["augmentation"]
    covered = select_rows(table, metric="covered_features", study=list(REPORTED)).sort_values(
        "mean", ascending=False
    )
    shares = enumerate_words(
        f"{interval(row, 'mean', 2)} for {NAMES[row['study']]}" for row in records(covered)
    )
    words = ("raises", "lowers", "is not shown to change")
    changes = {
        (cause, where): compare(
            single_row(covered, study=first), single_row(covered, study=second), *words
        )
        for first, second, cause, where in COMPARED
        if {first, second} <= set(covered["study"])
    }
    of_bias = [
        f"{word} the share of features with a neuron of their own {where}"
        for (cause, where), word in changes.items()
        if cause == "a bias"
    ]
    of_masks = [
        f"{cause} {word} it {where}"
        for (cause, where), word in changes.items()
        if cause != "a bias"
    ]
    sentences = []
    if of_bias:
        sentences.append(f"A bias {enumerate_words(of_bias)}.")
    if of_masks:
        sentences.append(
            f"By intervals that do not overlap, {enumerate_words(of_masks)} (n ="
            f" {covered['n'].max()})."
        )
    errors = select_rows(table, metric="regression_error")
    if {"identical", "identical_without_bias"} <= set(errors["study"]):
        with_bias, without = (
            single_row(errors, study=name) for name in ("identical", "identical_without_bias")
        )
        sentences.append(
            "Without augmentation the error of a linear head"
            f" {compare(with_bias, without, 'rises', 'falls', 'is not shown to change')} with a"
            f" bias: it is {interval(without, 'mean', 2)} of the label's variance without a bias"
            f" and {interval(with_bias, 'mean', 2)} with one. The paper states a constant error,"
            " and its footnote 3 that a bias does not matter for it."
        )
    return [
        *sentences,
        f"The share of the features that have a neuron of their own is {shares} (n ="
        f" {covered['n'].max()} runs).",
    ]


answer = make_findings_page(
    "Augmentation and feature decoupling",
    "augmentation",
    Augmentation,
    findings,
    TABLES,
    doc_tables.TABLES,
)
