"""Findings of the study of late learning; the numbers choose the words."""

from collections.abc import Mapping

import pandas as pd

from rarefeat.core.thresholds import HALF_LEARNED, PURE_COSINE
from rarefeat.storage.findings import enumerate_words
from rarefeat.storage.markdown import interval, records, select_rows, single_row
from rarefeat.studies.fate.config import LateLearning
from rarefeat.studies.fate.figures import LATE, pairs
from rarefeat.studies.fate.learning_times import clopper_pearson

TABLES = ("fate_points", "verdicts_fate_over_time")
REUSE = {
    "supported": "more replicas learn it from a sample of 8,192 pairs that comes back than from"
    " fresh pairs",
    "contradicted": "a sample of 8,192 pairs that comes back adds less than a quarter of the"
    " replicas, or takes some away",
    "undecided": "it is not shown that more or fewer replicas learn it from 8,192 pairs that come"
    " back than from fresh pairs",
}
CONTROLS = {
    "F-antithetic": "without chance ties of its sign",
    "F-apart": "with no other feature beside it",
    "F-noiseless": "without noise",
}
"""Controls of the sample that comes back, by the claim that compares each with pairs as drawn."""
FEWER = {
    "supported": "fewer learn it",
    "contradicted": "the share that learns it does not fall by a quarter",
    "undecided": "no difference is shown",
}
BORDER = {
    "supported": "is right more often than the better of the answers late and never, which are the"
    " same for all points",
    "contradicted": "is right no more often than the better of the answers late and never",
    "undecided": "is not shown to be right more often than the better of the answers late and"
    " never",
}
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
        describe_controls(claims),
        describe_fresh(select_rows(points, study=["rarest", "reuse", "leak"], N=0)),
        describe_border(claims),
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
        f" {LATE:g}, {soon or 'none'} of {replicas} replicas had learned it by step 500; by step"
        f" {first['T']:,} it had been learned in {enumerate_words(samples)} (n = {first['n']}"
        f" each). Learned means here a cosine of at least {HALF_LEARNED:g}, elsewhere above"
        f" {PURE_COSINE:g}."
    )


def describe_controls(claims: pd.DataFrame) -> str:
    """Describe what the sample that comes back and its controls change, by their verdicts."""
    verdict = single_row(claims, claim_id="F-reuse")
    statement = REUSE.get(verdict["verdict"], f"the sample that comes back {FEW}")
    text = (
        f"There {statement}: the difference is {interval(verdict, 'estimate', 2, '+')} of the"
        " replicas."
    )
    controls = [
        (words, single_row(claims, claim_id=name))
        for name, words in CONTROLS.items()
        if name in set(claims["claim_id"])
    ]
    if controls:
        changes = enumerate_words(
            f"{words} {FEWER.get(control['verdict'], f'nothing {FEW}')}"
            f" ({interval(control, 'estimate', 2, '+')})"
            for words, control in controls
        )
        text += f" With pairs that come back, but {changes}."
    return (
        f"{text} Why is not established: these controls do not separate chance ties of signs from"
        " single pairs."
    )


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


def describe_border(claims: pd.DataFrame) -> str:
    """Describe how often a border without a fitted constant separates late from never."""
    border = single_row(claims, claim_id="F-border")
    return (
        "A border between late and never without a fitted constant, from a linear model of growth,"
        f" {BORDER.get(border['verdict'], FEW)}: {interval(border, 'estimate', 2, '+')} of the"
        " points."
    )
