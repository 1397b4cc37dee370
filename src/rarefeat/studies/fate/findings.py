"""Findings of the study of late learning; the numbers choose the words."""

from collections.abc import Mapping

import numpy as np
import pandas as pd

from rarefeat.core.thresholds import HALF_LEARNED, PURE_COSINE
from rarefeat.storage.findings import enumerate_words
from rarefeat.storage.markdown import interval, records, select_rows, single_row
from rarefeat.studies.fate.claims import GRIDS, SETTING, critical_samples
from rarefeat.studies.fate.config import LateLearning
from rarefeat.studies.fate.figures import LATE, pairs
from rarefeat.studies.fate.learning_times import clopper_pearson

TABLES = ("fate_points", "verdicts_fate_over_time")
OPTIONAL = ("fate_mechanism",)
"""Tables of runs of their own, which add to the findings."""
REUSE = {
    "supported": "more replicas learn it from a sample of 8,192 pairs that comes back than from"
    " fresh pairs",
    "contradicted": "a sample of 8,192 pairs that comes back adds less than a quarter of the"
    " replicas, or takes some away",
    "too few seeds": "these seeds are too few to say whether more replicas learn it from 8,192"
    " pairs that come back than from fresh pairs",
    "undecided": "it is not shown that more or fewer replicas learn it from 8,192 pairs that come"
    " back than from fresh pairs",
}
LEAST = 0.25
"""Smallest difference of a share that matters, as the claims have it."""
KINDS = {
    "new_signs": "its sign is new at each visit",
    "new_tokens": "the tokens that hold each feature are new at each visit",
    "replacement": "visits are drawn with replacement",
}
"""What is changed of pairs that come back."""
FEW = "is not tested"


def learned(point: Mapping) -> str:
    """Write the fraction of a point's replicas that have learned the feature by its last step."""
    ones = point["at_once"] + point["late"]
    low, high = clopper_pearson(ones, point["n"])
    return f"{100 * ones / point['n']:.0f} [{100 * low:.0f}, {100 * high:.0f}] %"


def findings(section: LateLearning, tables: Mapping[str, pd.DataFrame]) -> list[str]:
    """Describe late learning by sample, its controls, frequency and decay, and the border."""
    points, claims = (tables[name] for name in TABLES)
    late = select_rows(points, **{"lambda": LATE})
    reuse = sorted(
        records(select_rows(late, study="reuse")), key=lambda point: point["N"] or float("inf")
    )
    return [
        describe_late(reuse),
        describe_reuse(claims),
        *(line for name in OPTIONAL if name in tables for line in describe_mechanism(tables[name])),
        describe_fresh(select_rows(points, study=["rarest", "reuse", "leak"], N=0)),
        describe_predictors(section, points),
    ]


def describe_late(reuse: list[dict]) -> str:
    """Describe how many replicas learn at once and late, by number of training pairs."""
    first = reuse[0]
    soon, later = (sum(point[outcome] for point in reuse) for outcome in ("at_once", "late"))
    replicas = sum(point["n"] for point in reuse)
    begins = (
        "A rare feature that is not learned at once may come late."
        if later
        else "No replica learned the rare feature late."
    )
    samples = [
        f"{learned(point)} with {pairs(point['N'])} pairs{'' if point['N'] else ' at every step'}"
        for point in reuse
    ]
    return (
        f"{begins} At {first['eps_min']:g} times the others' frequency and a weight decay of"
        f" {LATE:g}, {soon or 'none'} of {replicas} replicas had learned it by step 500. By step"
        f" {first['T']:,} it had been learned in {enumerate_words(samples)} (n = {first['n']}"
        f" each). {describe_threshold(reuse)}"
    )


def describe_threshold(reuse: list[dict]) -> str:
    """Say from which cosine on the feature is learned, and what the other threshold changes."""
    if "half" not in reuse[0]:
        return (
            f"Learned means here a cosine of at least {HALF_LEARNED:g}, elsewhere above"
            f" {PURE_COSINE:g}."
        )
    half = sum(point["half"] for point in reuse)
    ones = sum(point["at_once"] + point["late"] for point in reuse)
    return (
        f"Learned means a cosine above {PURE_COSINE:g}; from {HALF_LEARNED:g} on it would be"
        f" {half} instead of {ones} replicas."
    )


def describe_reuse(claims: pd.DataFrame) -> str:
    """Describe what the sample that comes back changes, by its verdict."""
    verdict = single_row(claims, claim_id="F-reuse")
    statement = REUSE.get(verdict["verdict"], f"the sample that comes back {FEW}")
    return (
        f"There {statement}: the difference is {interval(verdict, 'estimate', 2, '+')} of the"
        " replicas."
    )


def change(row: Mapping, other: str) -> str:
    """Classify a paired difference: fewer, more, alike (less than LEAST apart) or unclear.

    Parameters
    ----------
    row : mapping
        Row of `fate_mechanism`.
    other : str
        First part of the columns of the difference.
    """
    low, high = row[f"{other}_ci_low"], row[f"{other}_ci_high"]
    if high < 0:
        return "fewer"
    if low > 0:
        return "more"
    return "alike" if low > -LEAST and high < LEAST else "unclear"


def describe_mechanism(table: pd.DataFrame) -> list[str]:
    """Describe what of a pair that comes back lets the feature in late, for the largest N.

    The words follow from paired differences with their intervals. They speak of ties of sign and of
    single pairs only as far as the ways of drawing without them were trained.
    """
    N = int(table["N"].max())
    rows = {row["latents"]: row for row in records(select_rows(table, N=N))}
    fresh = single_row(table, N=0)
    plain = rows.get("plain")
    if plain is None:
        return []
    text = (
        f"Which part of a pair matters when it comes back? With {pairs(N)} pairs as drawn"
        f" {plain['learned']} of {plain['n']} runs learn the feature by step {plain['T']:,}, with"
        f" fresh pairs {fresh['learned']} of {fresh['n']}."
    )
    groups = {
        "fewer": "Fewer than with pairs as drawn learn it where",
        "alike": f"As many, to less than {100 * LEAST:.0f} %, learn it where",
        "more": "More learn it where",
        "unclear": "No difference from pairs as drawn is shown where",
    }
    outcomes = {name: change(rows[name], "reuse") for name in KINDS if name in rows}
    for outcome, words in groups.items():
        changed = [
            f"{KINDS[name]} ({interval(rows[name], 'reuse', 2, '+')}; from fresh pairs"
            f" {interval(rows[name], 'fresh', 2, '+')})"
            for name, result in outcomes.items()
            if result == outcome
        ]
        if changed:
            text += f" {words} {enumerate_words(changed, 'or where')}."
    return [text, describe_ties(rows), *describe_tokens(rows), *describe_smaller_samples(table)]


def describe_smaller_samples(table: pd.DataFrame) -> list[str]:
    """Describe for fewer pairs which ways without a part of a pair still beat fresh pairs."""
    outcomes = {
        "more": "more than from fresh pairs",
        "fewer": "fewer than from fresh pairs",
        "alike": "as many as from fresh pairs",
        "unclear": "no difference from fresh pairs is shown",
    }
    lines = []
    for N in sorted(set(table["N"]) - {0, table["N"].max()}):
        rows = {row["latents"]: row for row in records(select_rows(table, N=N))}
        clauses = [
            f"{row['learned']} of {row['n']} where {KINDS[name]}"
            f" ({outcomes[change(row, 'fresh')]}, {interval(row, 'fresh', 2, '+')})"
            for name, row in rows.items()
            if name in KINDS
        ]
        if clauses:
            lines.append(f"With {pairs(N)} pairs it is learned by {enumerate_words(clauses)}.")
    return lines


def describe_ties(rows: Mapping[str, Mapping]) -> str:
    """Describe whether ties of sign are needed for late learning, and whether they suffice."""
    needed = {
        "fewer": "Chance ties of its sign to others are part of the reason",
        "alike": "Chance ties of its sign to others are not the reason",
        "more": "Chance ties of its sign to others hinder it",
        "unclear": "Whether chance ties of its sign to others are part of the reason is not shown",
    }
    enough = {
        "more": "planted in fresh pairs they bring more late learning",
        "alike": "planted in fresh pairs they change little",
        "fewer": "planted in fresh pairs they take late learning away",
        "unclear": "planted in fresh pairs they have no effect that is shown",
    }
    clauses = []
    if "new_signs" in rows:
        clauses.append(needed[change(rows["new_signs"], "reuse")])
    if "planted_ties" in rows:
        row = rows["planted_ties"]
        clauses.append(f"{enough[change(row, 'fresh')]} ({interval(row, 'fresh', 2, '+')})")
    return f"{'; '.join(clauses)}." if clauses else "Ties of its sign were not tested."


def describe_tokens(rows: Mapping[str, Mapping]) -> list[str]:
    """Describe whether the tokens that single pairs hold the feature in are part of the reason."""
    needed = {
        "fewer": "The tokens that single pairs hold the feature in are part of the reason; an"
        " augmentation, which redraws them, takes that part away.",
        "alike": "The tokens that single pairs hold the feature in are not the reason.",
        "more": "With tokens that are drawn at each visit more learn it.",
        "unclear": "Whether the tokens that single pairs hold the feature in are part of the reason"
        " is not shown.",
    }
    return [needed[change(rows["new_tokens"], "reuse")]] if "new_tokens" in rows else []


def describe_fresh(fresh: pd.DataFrame) -> str:
    """Describe from which frequency on most replicas learn from fresh pairs, by decay."""
    fresh = fresh.assign(share=(fresh["at_once"] + fresh["late"]) / fresh["n"]).sort_values(
        "eps_min"
    )
    frequencies, none = [], []
    for decay, group in fresh.groupby("lambda"):
        below = group.loc[group["share"] <= 0.5, "eps_min"]
        often = (
            group.loc[group["eps_min"] > below.max(), "eps_min"] if len(below) else group["eps_min"]
        )
        if len(often):
            frequencies.append(f"from {often.min():g} on at a decay of {decay:g}")
        if (group["eps_min"].min() == fresh["eps_min"].min()) and group["share"].iloc[0] == 0:
            none.append(f"{decay:g}")
    never = (
        f" At {fresh['eps_min'].min():g} no replica has it with a decay of"
        f" {enumerate_words(none, 'or')}."
        if none
        else ""
    )
    often = enumerate_words(frequencies) if frequencies else "at no frequency"
    return (
        "With fresh pairs at every step more than half of the replicas have it by step"
        f" {fresh['T'].iloc[0]:,} {often}.{never}"
    )


def describe_predictors(section: LateLearning, points: pd.DataFrame) -> str:
    """Describe at how many points each predictor without a fitted constant is right.

    A point counts as late where more than half of the replicas that had not learned at once learn.
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
    wrong = points[~right]
    return (
        "Late or never, without a fitted constant: the critical sample of the theorem says rightly"
        f" what most runs do at {right.sum()} of {len(points)} points. The border of one leak for"
        f" all neurons is right at {border.sum()}. The best answer for each decay, knowing the"
        f" outcomes, is right at {best.sum()}. Of the"
        f" {len(wrong)} points where the critical sample is wrong {(wrong['N'] == 0).sum()} have"
        " fresh pairs."
    )
