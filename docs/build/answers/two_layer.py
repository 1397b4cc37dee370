"""Findings of the study of two-layer networks; its numbers choose the words."""

from collections.abc import Mapping

import pandas as pd

from answers.words import compare, enumerate_words
from rarefeat.studies.two_layer.config import TwoLayer
from rarefeat.workflow.files.markdown import interval, select_rows

TABLES = ("two_layer_printed",)


def findings(section: TwoLayer, tables: Mapping[str, pd.DataFrame]) -> list[str]:
    """Write the findings on the parity, on all printed accuracies and on the first two steps."""
    table = tables["two_layer_printed"]
    tests = select_rows(table, quantity="test_accuracy")
    parity = select_rows(tests, setting="parity").set_index("arm")
    sentences = []

    def accuracy(arm: str) -> str:
        return f"{interval(parity.loc[arm].to_dict(), 'mean', 1, '', 100)} %"

    if {"network", "ntk", "random_features", "network-printed"} <= set(parity.index):
        network = parity.loc["network"].to_dict()
        words = ("more often than", "less often than", "not measurably more or less often than")
        fixed = {"its tangent kernel": "ntk", "random features": "random_features"}
        compared = [
            f"{compare(network, parity.loc[arm].to_dict(), *words)} {name}"
            for name, arm in fixed.items()
        ]
        schedule = parity.loc["network-printed"].to_dict()
        reached = compare(
            schedule, network, "more often right", "less often right", "not measurably other"
        )
        sentences += [
            "On the parity of the patterns a trained network is right"
            f" {enumerate_words(compared)}.",
            f"On the test set the network is right on {accuracy('network')}, its tangent kernel on"
            f" {accuracy('ntk')} and random features on {accuracy('random_features')} (n ="
            f" {parity['n'].max()} runs). With the theorem's printed schedule the network is"
            f" {reached}: {accuracy('network-printed')}.",
        ]
    printed = tests[tests["printed"].notna()]
    if len(printed):
        off = printed[(printed["mean"] - printed["printed"]).abs() > 0.05]
        unbalanced = off["setting"].str.startswith("class_ratio").sum()
        sentences.append(
            f"Tables A.1 to A.5 print {len(printed)} test accuracies. Ours are within five points"
            f" of {len(printed) - len(off)} of them; of the other {len(off)}, {unbalanced} are of"
            " unbalanced classes."
        )
    if {"one_step", "two_step"} <= set(parity.index):
        first, second = (parity.loc[arm].to_dict() for arm in ("one_step", "two_step"))
        words = (
            "makes features better",
            "makes features worse",
            "is not shown to make features better or worse",
        )
        sentences.append(
            f"The second step of training {compare(second, first, *words)}: a linear head is right"
            f" on {accuracy('one_step')} after the first and on {accuracy('two_step')} after the"
            " second."
        )
    return sentences
