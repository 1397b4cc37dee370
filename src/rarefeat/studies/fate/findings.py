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
    "supported": "More runs learn it from 8,192 reused pairs than from fresh pairs",
    "contradicted": "Reusing 8,192 pairs adds less than a quarter of the runs, or takes some away",
    "too few seeds": "These runs are too few to say whether more of them learn it from 8,192"
    " reused pairs than from fresh pairs",
    "undecided": "Whether more or fewer runs learn it from 8,192 reused pairs than from fresh"
    " pairs is inconclusive",
}
LEAST = 0.25
"""Smallest difference of a share that matters, as the claims have it."""
KINDS = {
    "new_signs": "its sign is drawn at each visit",
    "new_tokens": "the tokens that hold each feature are drawn at each visit",
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
    """Describe late learning by sample, its controls, frequency and decay, and the border."""
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
        describe_fresh(select_rows(points, study=["rarest", "reuse", "leak"], N=0)),
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
    counts = " and ".join(
        f"{point['at_once'] + point['late']} of {point['n']} with {pairs(point['N'])} pairs"
        for point in (few, fresh)
    )
    return f"{begins} By step {few['T']:,} it is learned by {counts}."


def describe_late(reuse: list[dict]) -> str:
    """Describe how many runs learn at once and late, by number of training pairs."""
    first = reuse[0]
    soon, runs = (sum(point[column] for point in reuse) for column in ("at_once", "n"))
    samples = [
        f"{learned(point)} with {pairs(point['N'])} pairs{'' if point['N'] else ' at every step'}"
        for point in reuse
    ]
    return (
        f"At a relative frequency of {first['eps_min']:g} and a weight decay of {LATE:g},"
        f" {soon or 'none'} of {runs} runs had learned it by step 500. By step {first['T']:,} the"
        f" share is {enumerate_words(samples)} (n = {first['n']} each). {describe_threshold(reuse)}"
    )


def describe_threshold(reuse: list[dict]) -> str:
    """Say from which cosine on the feature is learned, and what the other threshold changes."""
    if "half" not in reuse[0]:
        return (
            f"Here a feature counts as learned from a cosine of {HALF_LEARNED:g} on, elsewhere"
            f" above {PURE_COSINE:g}."
        )
    half = sum(point["half"] for point in reuse)
    ones = sum(point["at_once"] + point["late"] for point in reuse)
    return (
        f"A feature counts as learned above a cosine of {PURE_COSINE:g}; from {HALF_LEARNED:g} on,"
        f" {half} instead of {ones} runs would count."
    )


def describe_reuse(claims: pd.DataFrame) -> str:
    """Describe the effect of reusing pairs, by its verdict."""
    verdict = single_row(claims, claim_id="F-reuse")
    statement = REUSE.get(verdict["verdict"], FEW)
    return f"{statement}: the difference is {interval(verdict, 'estimate', 2, '+')} of the runs."


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
    """Describe which part of a reused pair matters for late learning, for the largest N.

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
        f"Which part of a reused pair matters? With {pairs(N)} pairs as drawn"
        f" {plain['learned']} of {plain['n']} runs learn the feature by step {plain['T']:,}, with"
        f" fresh pairs {fresh['learned']} of {fresh['n']}."
    )
    groups = {
        "fewer": "Fewer learn it if",
        "alike": f"As many, to less than {100 * LEAST:.0f} %, learn it if",
        "more": "More learn it if",
        "unclear": "No difference from pairs as drawn is shown if",
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
            text += f" {words} {enumerate_words(changed, 'or if')}."
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
        sentences = [
            f"With {pairs(N)} pairs {row['learned']} of {row['n']} runs learn it if"
            f" {KINDS[row['latents']]}: {outcomes[change(row, 'fresh')]}"
            f" ({interval(row, 'fresh', 2, '+')})."
            for row in records(select_rows(table, N=N))
            if row["latents"] in KINDS
        ]
        lines += [" ".join(sentences)] if sentences else []
    return lines


def describe_ties(rows: Mapping[str, Mapping]) -> str:
    """Describe whether ties of sign are needed for late learning, and whether they suffice."""
    needed = {
        "fewer": "Chance ties of its sign to other signs are part of the reason",
        "alike": "Chance ties of its sign to other signs are not the reason",
        "more": "Chance ties of its sign to other signs hinder it",
        "unclear": "Whether chance ties of its sign to other signs are part of the reason is not"
        " shown",
    }
    enough = {
        "more": "planted in fresh pairs they make late learning more frequent",
        "alike": "planted in fresh pairs they change little",
        "fewer": "planted in fresh pairs they make late learning less frequent",
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
        "fewer": "The tokens in which single pairs hold the feature are part of the reason; an"
        " augmentation, which redraws them, removes that part.",
        "alike": "The tokens in which single pairs hold the feature are not the reason.",
        "more": "If the tokens are drawn at each visit, more runs learn it.",
        "unclear": "Whether the tokens in which single pairs hold the feature are part of the"
        " reason is not shown.",
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
            frequencies.append(f"from {often.min():g} on (decay {decay:g})")
        if (group["eps_min"].min() == fresh["eps_min"].min()) and group["share"].iloc[0] == 0:
            none.append(f"{decay:g}")
    never = (
        f" At {fresh['eps_min'].min():g} no run learns it with a decay of"
        f" {enumerate_words(none, 'or')}."
        if none
        else ""
    )
    often = f"frequencies {enumerate_words(frequencies)}" if frequencies else "no frequency"
    return (
        f"With fresh pairs, more than half of the runs learn it by step {fresh['T'].iloc[0]:,} at"
        f" {often}.{never}"
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
    wrong = points[~right]
    return (
        "The theorem's critical sample has no fitted constant. It predicts what most runs do, late"
        f" or never, at {right.sum()} of {len(points)} points. The border with one leak for all"
        f" neurons is right at {border.sum()}, and the best constant prediction for each decay,"
        f" knowing the outcomes, at {best.sum()}. Of the {len(wrong)} points where the critical"
        f" sample is wrong, {(wrong['N'] == 0).sum()} have fresh pairs."
    )
