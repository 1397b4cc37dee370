"""Findings of the exact results; their numbers choose the words."""

from collections.abc import Mapping

import pandas as pd

from answers.words import enumerate_words
from rarefeat.studies.exact_results import ExactResults
from rarefeat.workflow.files.markdown import number, records, select_rows

TABLES = ("exact_results",)
NEGLIGIBLE = 0.01
"""Weight below which a task's own features count as not encoded."""


def findings(section: ExactResults, tables: Mapping[str, pd.DataFrame]) -> list[str]:
    """Write what a mixture keeps of a rare task, what rounding does to a looped transformer, and
    what a bound on the rank does.
    """
    table = tables["exact_results"]
    sentences = [
        describe_tasks(select_rows(table, result="task_mixture", quantity="private_weight")),
        describe_loops(select_rows(table, result="looped_transformer")),
        describe_spurious(select_rows(table, result="spurious_features")),
    ]
    return [sentence for sentence in sentences if sentence]


def describe_tasks(mixed: pd.DataFrame) -> str:
    """Say which of three rare tasks are encoded; a smaller size may have none of them."""
    rare = mixed[mixed["setting"].isin([f"mixture=rare_{often}" for often in (0.3, 0.65, 0.8)])]
    rare = records(rare[rare["at"] == rare["at"].max()])
    if not rare:
        return ""
    often = [row["setting"].removeprefix("mixture=rare_") for row in rare]
    groups = {"does not encode": [], "encodes": [], "is not shown to encode or to drop": []}
    for row, times in zip(rare, often, strict=True):
        word = (
            "does not encode"
            if row["ci_high"] < NEGLIGIBLE
            else "encodes"
            if row["ci_low"] > NEGLIGIBLE
            else ""
        )
        groups[word or "is not shown to encode or to drop"].append(times)
    statement = enumerate_words(
        f"{word} a task of relative frequency {enumerate_words(times, 'or')}"
        for word, times in groups.items()
        if times
    )
    return (
        f"Contrastive pre-training {statement} (encoded: its own features have a weight above"
        f" {NEGLIGIBLE:g})."
    )


def describe_loops(looped: pd.DataFrame) -> str:
    """Say on which side of its bound the looped transformer's error lies, in exact arithmetic and
    with rounding.
    """
    largest = looped.set_index(["quantity", "setting"])["mean"]
    if not {"error_excess", "rounded_excess"} <= set(looped["quantity"]):
        return ""
    exact, rounded = (largest[name].max() for name in ("error_excess", "rounded_excess"))
    if exact < 0 and rounded < 0:
        where = "in exact arithmetic, and in double precision up to where rounding ends its fall"
        return f"The looped transformer's error stays below its bound {where}."
    places = {"exact arithmetic": exact, "double precision, before rounding ends its fall": rounded}
    above = " and in ".join(name for name, excess in places.items() if excess >= 0)
    return f"The looped transformer's error does not stay below its bound in {above}."


def describe_spurious(spurious: pd.DataFrame) -> str:
    """Compare the accuracy out of domain with and without a bound on the rank."""
    means = spurious.groupby("quantity")["mean"]
    limits = means.agg(["min", "max"]) if len(spurious) else pd.DataFrame()
    if not {"id_accuracy", "ood_accuracy", "rank_ood_accuracy"} <= set(limits.index):
        return ""
    ridge, rank = limits.loc["ood_accuracy"], limits.loc["rank_ood_accuracy"]
    side = (
        "more, as Proposition 6.3 says"
        if rank["min"] > ridge["max"]
        else "less, against Proposition 6.3"
        if rank["max"] < ridge["min"]
        else "not more in every setting"
    )
    return (
        "With spurious features, ridge regression is right on at least"
        f" {number(100 * limits.loc['id_accuracy', 'min'], 0)} % in domain and on at most"
        f" {number(100 * ridge['max'], 0)} % out of domain. With a bound on the rank it is right on"
        f" at least {number(100 * rank['min'], 0)} % there: {side}."
    )
