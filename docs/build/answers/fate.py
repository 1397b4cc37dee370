"""Findings of the study of late learning; the numbers choose the words."""

from collections.abc import Mapping

import numpy as np
import pandas as pd

from answers.words import enumerate_words
from rarefeat.model.thresholds import PURE_COSINE
from rarefeat.studies.fate.claims import GRIDS, SETTING, critical_samples
from rarefeat.studies.fate.config import LateLearning
from rarefeat.studies.fate.figures import LATE, pairs
from rarefeat.studies.fate.learning_times import clopper_pearson
from rarefeat.workflow.files.markdown import interval, records, select_rows, single_row

TABLES = ("fate_points", "verdicts_fate_over_time")
OPTIONAL = ("fate_mechanism",)
"""Tables of runs of their own, which add to the findings."""
REUSE = {
    "supported": "More runs learn it from 8,192 reused pairs than from fresh pairs",
    "contradicted": "Reusing 8,192 pairs adds less than a quarter of the runs, or takes some away",
    "too few seeds": "These runs are too few to compare 8,192 reused pairs with fresh pairs",
    "undecided": "A comparison of 8,192 reused pairs with fresh pairs is inconclusive",
}
LEAST = 0.25
"""Smallest difference of a share that matters, as the claims have it."""
KINDS = {
    "new_signs": "each visit draws the feature's sign",
    "new_tokens": "each visit draws the tokens that hold it",
    "replacement": "pairs are drawn with replacement",
}
"""What is changed of pairs that come back."""
FEW = "The effect of reusing pairs is not tested"


def learned(point: Mapping) -> str:
    """Write the fraction of a point's runs that have learned the feature by its last step."""
    ones = point["at_once"] + point["late"]
    low, high = clopper_pearson(ones, point["n"])
    return f"{100 * ones / point['n']:.0f} [{100 * low:.0f}, {100 * high:.0f}] %"


def findings(section: LateLearning, tables: Mapping[str, pd.DataFrame]) -> list[str]:
    """Describe late learning by sample, its mechanism and its predictors."""
    points, claims = (tables[name] for name in TABLES)
    late = select_rows(points, **{"lambda": LATE})
    reuse = sorted(
        records(select_rows(late, study="reuse")), key=lambda point: point["N"] or float("inf")
    )
    return [
        summarise_late(reuse),
        describe_late(reuse),
        describe_reuse(claims),
        *(line for name in OPTIONAL if name in tables for line in describe_mechanism(tables[name])),
        describe_predictors(section, points),
    ]


def summarise_late(reuse: list[dict]) -> str:
    """Say whether any run learns the feature late, from the fewest and from fresh pairs."""
    begins = (
        "A rare feature that is not learned at once may be learned late."
        if any(point["late"] for point in reuse)
        else "No run learned the rare feature late."
    )
    few, fresh = reuse[0], reuse[-1]
    return (
        f"{begins} By step {few['T']:,} it is learned by {learned(few)} of the runs that reuse"
        f" {pairs(few['N'])} pairs and {learned(fresh)} of those with {pairs(fresh['N'])} pairs"
        f" (n = {few['n']} each)."
    )


def describe_late(reuse: list[dict]) -> str:
    """Say where these runs were made, how many learn at once, and how many end pure."""
    soon, runs = (sum(point[column] for point in reuse) for column in ("at_once", "n"))
    return (
        f"These runs have a relative frequency of {reuse[0]['eps_min']:g} and a weight decay of"
        f" {LATE:g}; {soon or 'none'} of {runs} had learned the feature by step 500."
        f"{describe_purity(reuse)}"
    )


def describe_purity(reuse: list[dict]) -> str:
    """Say how many of the runs that learn the feature reach PURE_COSINE; empty if unknown."""
    if "pure" not in reuse[0]:
        return ""
    pure = sum(point["pure"] for point in reuse)
    ones = sum(point["at_once"] + point["late"] for point in reuse)
    return f" Of {ones} that learn it, {pure} reach a cosine above {PURE_COSINE:g}."


def describe_reuse(claims: pd.DataFrame) -> str:
    """Describe the effect of reusing pairs, by its verdict."""
    verdict = single_row(claims, claim_id="F-reuse")
    statement = REUSE.get(verdict["verdict"], FEW)
    return f"{statement}: the shares differ by {interval(verdict, 'estimate', 2, '+')}."


def change(row: Mapping, other: str) -> str:
    """Classify a paired difference: fewer, more, alike (less than LEAST apart) or unclear."""
    low, high = row[f"{other}_ci_low"], row[f"{other}_ci_high"]
    if high < 0:
        return "fewer"
    if low > 0:
        return "more"
    return "alike" if low > -LEAST and high < LEAST else "unclear"


def describe_mechanism(table: pd.DataFrame) -> list[str]:
    """Describe which part of a reused pair matters for late learning, for the largest N.

    The words follow from paired differences with their intervals. They speak of ties of sign only
    if these were planted.
    """
    N = int(table["N"].max())
    rows = {row["latents"]: row for row in records(select_rows(table, N=N))}
    fresh = single_row(table, N=0)
    plain = rows.get("plain")
    if plain is None:
        return []
    text = (
        f"Which part of a reused pair matters? With {pairs(N)} pairs as drawn"
        f" {plain['learned']} of {plain['n']} runs learn the feature by step {plain['T']:,}, with"
        f" fresh pairs {fresh['learned']}."
    )
    groups = {
        "fewer": "Fewer learn it if",
        "alike": f"About as many (within {100 * LEAST:.0f} points) learn it if",
        "more": "More learn it if",
        "unclear": "No difference from pairs as drawn is shown if",
    }
    outcomes = {name: change(rows[name], "reuse") for name in KINDS if name in rows}
    for outcome, words in groups.items():
        changed = [
            f"{KINDS[name]} ({interval(rows[name], 'reuse', 2, '+')})"
            for name, result in outcomes.items()
            if result == outcome
        ]
        if changed:
            text += f" {words} {enumerate_words(changed, 'or if')}."
    return [text, *([describe_ties(rows["planted_ties"])] if "planted_ties" in rows else [])]


def describe_ties(row: Mapping) -> str:
    """Describe whether ties of sign suffice for late learning."""
    enough = {
        "more": "make late learning more frequent",
        "alike": "change little",
        "fewer": "make late learning less frequent",
        "unclear": "have no effect that is shown",
    }
    return (
        "In a fixed sample the feature's sign agrees with other signs by chance. Such ties, planted"
        f" in fresh pairs, {enough[change(row, 'fresh')]} ({interval(row, 'fresh', 2, '+')})."
    )


def describe_predictors(section: LateLearning, points: pd.DataFrame) -> str:
    """Describe at how many points each predictor without a fitted constant is right.

    A point counts as late where more than half of the runs that had not learned at once learn.
    """
    points = select_rows(points, study=list(GRIDS), latents="plain")
    points = points[points["at_once"] < points["n"]]
    late = points["late"] > (points["n"] - points["at_once"]) / 2
    leaks = select_rows(points, N=0).set_index(list(SETTING))["leak"]
    means = leaks.reindex(pd.MultiIndex.from_frame(points[list(SETTING)])).fillna(np.inf)
    critical = critical_samples(section.studies[GRIDS[0]], points, means.to_numpy())
    by_decay = late.groupby(points["lambda"]).transform("mean") > 0.5
    right = (points["N"].replace(0, np.inf) <= critical) == late
    border, best = (points["border"] > 1) == late, by_decay == late
    return (
        "Our theorem's critical sample, which has no fitted constant, predicts what most runs do,"
        f" late or never, at {right.sum()} of {len(points)} points. With one leak for all neurons"
        f" it would be {border.sum()}, and with the best constant for each decay, which knows the"
        f" outcomes, {best.sum()}."
    )
