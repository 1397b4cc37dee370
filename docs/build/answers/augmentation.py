"""Findings of the study of augmentation, in sentences that follow from its numbers."""

from collections.abc import Mapping

import pandas as pd

from answers.words import compare, enumerate_words
from rarefeat.studies.augmentation.config import Augmentation
from rarefeat.workflow.files.markdown import interval, select_rows, single_row

TABLES = ("augmentation",)
COMPARED = {
    "A bias": (
        ("identical", "identical_without_bias", "for identical views"),
        ("random_mask", "random_mask_without_bias", "for a random mask"),
    ),
    "A random mask instead of identical views": (
        ("random_mask", "identical", "with a bias"),
        ("random_mask_without_bias", "identical_without_bias", "without one"),
    ),
}
"""By cause: pairs of studies, of which the first has it and the second lacks it, with the
setting."""


def findings(section: Augmentation, tables: Mapping[str, pd.DataFrame]) -> list[str]:
    """Say how bias and augmentation change the covered features, and the error of a head."""
    table = tables["augmentation"]
    covered = select_rows(table, metric="covered_features")
    words = ("raises", "lowers", "is not shown to change")
    sentences = []
    for cause, pairs in COMPARED.items():
        by_verb: dict[str, list[str]] = {}
        for first, second, where in pairs:
            if {first, second} <= set(covered["study"]):
                rows = (single_row(covered, study=name) for name in (first, second))
                by_verb.setdefault(compare(*rows, *words), []).append(where)
        if by_verb:
            share = "it" if sentences else "the share of features with a neuron of their own"
            changes = enumerate_words(
                f"{verb} {share} {enumerate_words(settings)}" for verb, settings in by_verb.items()
            )
            sentences.append(f"{cause} {changes} (n = {covered['n'].max()}).")
    errors = select_rows(table, metric="regression_error")
    if {"identical", "identical_without_bias"} <= set(errors["study"]):
        with_bias, without = (
            single_row(errors, study=name) for name in ("identical", "identical_without_bias")
        )
        sentences.append(
            "Without augmentation the error of a linear head"
            f" {compare(with_bias, without, 'rises', 'falls', 'is not shown to change')} with a"
            f" bias: from {interval(without, 'mean', 2)} to {interval(with_bias, 'mean', 2)} of the"
            " label's variance. The paper says that a bias does not matter for it (footnote 3)."
        )
    return sentences
