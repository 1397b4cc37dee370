"""Findings of the study of learners; the numbers choose the words."""

from collections.abc import Mapping

import pandas as pd

from answers.words import count_text, enumerate_words
from rarefeat.studies.learners.config import LearnerStudies
from rarefeat.studies.learners.figures import PAPER, describe_learner
from rarefeat.workflow.files.markdown import records, select_rows

TABLES = ("learner_frequencies", "learner_shares")
MATCHED = 0.1
"""Smallest difference of the frequent features' R^2 that is told as not matched."""


def findings(section: LearnerStudies, tables: Mapping[str, pd.DataFrame]) -> list[str]:
    """Describe the paper's learner, the others beside it, fresh pairs, and both measures."""
    # A published table has no value where a run's has an empty text.
    frequencies = tables["learner_frequencies"].dropna(subset=["frequency"]).fillna({"bound": ""})
    readout = select_rows(frequencies, measure="readout")
    returning = {row["learner"]: row for row in records(select_rows(readout, pairs="returning"))}
    if PAPER not in returning:
        return []
    base = returning.pop(PAPER)
    fresh = {row["learner"]: row for row in records(select_rows(readout, pairs="fresh"))}
    sentences = [
        count_others(base, returning),
        f"The paper's learner needs the rare feature {describe(base)}, for half of {base['n']} runs"
        " to have it in a linear readout.",
        *compare(base, returning),
    ]
    if PAPER in fresh:
        words = {"higher": "more often", "lower": "less often", "": "no difference is shown"}
        sentences.append(
            f"With fresh pairs this learner needs it {describe(fresh[PAPER])}:"
            f" {words[side(base, fresh[PAPER])]}."
        )
    return [*sentences, *compare_measures(frequencies), *describe_matching(tables)]


def describe(row: Mapping) -> str:
    """Describe the critical frequency of a learner with its interval."""
    if row["bound"] == "above":
        return f"more often than any frequency tested, {row['frequency']:g} times the others'"
    bound = "at most " if row["bound"] else ""
    return (
        f"{bound}{row['frequency']:.2f} [{row['ci_low']:.2f}, {row['ci_high']:.2f}] times as often"
        " as the others"
    )


def side(base: Mapping, row: Mapping) -> str:
    """Say on which side of the base's interval that of another learner lies; empty for neither."""
    if row["ci_high"] < base["ci_low"]:
        return "lower"
    return "higher" if row["ci_low"] > base["ci_high"] else ""


def count_others(base: Mapping, others: Mapping[str, Mapping]) -> str:
    """Count the learners that need lower and higher frequencies than the paper's."""
    sides = [side(base, row) for row in others.values()]
    lower, higher = sides.count("lower"), sides.count("higher")
    return (
        f"Of {count_text(len(sides), 'other learner')}, {lower or 'none'}"
        f" {'learns' if lower < 2 else 'learn'} the rare feature at lower frequencies than the"
        f" paper's, and {higher or 'none'} {'needs' if higher < 2 else 'need'} higher ones."
    )


def compare(base: Mapping, others: Mapping[str, Mapping]) -> list[str]:
    """List the learners whose interval lies below, above, or across that of the paper's."""
    opening = {
        "lower": "Lower frequencies suffice with",
        "higher": "Higher ones are needed with",
        "": "Intervals overlap with that of the paper's learner for",
    }
    lines = []
    for where, words in opening.items():
        rows = [row for row in others.values() if side(base, row) == where]
        names = [
            describe_learner(row["learner"])
            for row in sorted(rows, key=lambda row: row["frequency"])
        ]
        if names:
            lines.append(f"{words} {enumerate_words(names)}.")
    return [" ".join(lines)] if lines else []


def compare_measures(frequencies: pd.DataFrame) -> list[str]:
    """Say for how many learners the readout has the feature at lower frequencies than neurons."""
    wide = {
        measure: select_rows(frequencies, measure=measure).set_index(["learner", "pairs"])
        for measure in ("readout", "cosine")
    }
    shared = wide["cosine"].index.intersection(wide["readout"].index)
    if shared.empty:
        return []
    sides = [side(wide["cosine"].loc[key], wide["readout"].loc[key]) for key in shared]
    return [
        "A readout has the feature at lower frequencies than a single neuron in"
        f" {sides.count('lower')} of {len(shared)} cases and at higher ones in"
        f" {sides.count('higher')}."
    ]


def describe_matching(tables: Mapping[str, pd.DataFrame]) -> list[str]:
    """Name the learners that read the frequent features otherwise than the paper's."""
    shares = tables["learner_shares"]
    means = select_rows(shares, pairs="returning").groupby("learner")["r2_frequent"].mean()
    apart = means[(means - means[PAPER]).abs() > MATCHED].sort_values()
    if apart.empty:
        return ["All read the frequent features alike, to 0.1 of $R^2$."]
    names = [f"{describe_learner(name)} ({value:.2f})" for name, value in apart.items()]
    return [
        f"The paper's learner reads the frequent features with an $R^2$ of {means[PAPER]:.2f}."
        f" More than {MATCHED:g} away: {enumerate_words(names)}."
    ]
