"""Findings of the study across sizes, in sentences that follow from its numbers."""

from collections.abc import Mapping

import pandas as pd

from answers.words import enumerate_words
from rarefeat.studies.scaling.config import Scaling
from rarefeat.workflow.files.markdown import select_rows

TABLES = ("scaling_exponents",)
NAMES = {
    "lucky_probability": "the share of lucky neurons at the start",
    "ordinary_features": "the number of features that a neuron is ordinary for at the start",
    "largest_features": "the largest number of features that a neuron is ordinary for at the start",
    "pure_minority_share": "the share of neurons that end pure in the rare feature",
    "single_minority_share": "the share of neurons that end with that feature alone",
    "learned_features": "the number of features of a trained neuron",
}
"""Human-readable names of the quantities."""


def findings(section: Scaling, tables: Mapping[str, pd.DataFrame]) -> list[str]:
    """Say how many fitted exponents agree with their bounds, and which do not.

    For those that do not, say what the missing logarithm explains.
    """
    (fits,) = tables.values()
    plain = select_rows(fits, log_power=0.0)
    sentences = [
        f"Of {len(plain)} exponents in the number of features d,"
        f" {int(plain['consistent'].sum())} are compatible with the bounds of Theorem 3.1 and"
        " Lemma B.2."
    ]
    against = plain[~plain["consistent"]]
    if len(against):
        which = enumerate_words(
            f"{NAMES[name]} ({len(rows)} of {len(select_rows(plain, quantity=name))} fits)"
            for name, rows in against.groupby("quantity", sort=False)
        )
        sentences.append(f"The others are of {which}.{describe_divided(fits, against)}")
    return sentences


def describe_divided(fits: pd.DataFrame, against: pd.DataFrame) -> str:
    """Say how many fits still contradict their bound without the factor 1/√log d."""
    keys = ["quantity", "ratio", "d1_power", "d_low", "d_high"]
    divided = fits[fits["log_power"] != 0].merge(against[keys].drop_duplicates(), on=keys)
    if divided.empty:
        return ""
    still = int((~divided["consistent"]).sum())
    fitted = f"all {len(divided)}" if len(divided) == len(against) else f"{len(divided)} of them"
    return (
        " If we divide out the factor 1/√log d, which eq. (238) has and eq. (239) drops,"
        f" {still or 'none'} of {fitted} {'does' if still == 1 else 'do'} not agree."
        if still
        else " If we divide out the factor 1/√log d, which eq. (238) has and eq. (239) drops,"
        f" {fitted} agree."
    )
