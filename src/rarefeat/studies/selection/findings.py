"""Findings of the study of selection, in words that its numbers choose."""

import re
from collections.abc import Mapping

import pandas as pd

from rarefeat.figures.labels import arm_name
from rarefeat.storage.findings import compare, make_findings_page
from rarefeat.storage.markdown import interval, number, records, select_rows, single_row
from rarefeat.studies.selection import doc_tables
from rarefeat.studies.selection.config import Selection

TABLES = ("selection_scores_at_end", "selection_masks", "selection_steps", "selection_law_errors")
AT = {"point": "share=0.2", "eps_min": 0.7}
"""Where the claims are read."""
STRONG = {"point": "share=0.7", "eps_min": 0.9}
CHANCE = {"mean": 0.5, "ci_low": 0.5, "ci_high": 0.5}


def findings(section: Selection, tables: Mapping[str, pd.DataFrame]) -> list[str]:
    """Say who finds the neurons, what masks do, what moves the critical frequency, and how well it is predicted."""
    scores, masks, steps, errors = (tables[name] for name in TABLES)
    sentences = [
        describe_scores(select_rows(scores, **AT), select_rows(scores, **STRONG)),
        describe_mask(
            select_rows(masks, **AT, quantity="gain"),
            select_rows(steps, study="help", point=AT["point"]),
        ),
        describe_gains(select_rows(masks, quantity="gain")),
        describe_steps(select_rows(steps, study="help", point=STRONG["point"])),
    ]
    if "all" in set(errors["parameter"]):
        law = single_row(errors, parameter="all")
        sentences.append(
            "A closed form with two fitted constants predicts the frequency at which half of the trainings end with a cosine of"
            f" at least 0.5: it is off by {number(law['error'], 3)}"
            f" [{number(law['error_low'], 3)}, {number(law['error_high'], 3)}] on average, in"
            f" {law['regimes']} drawn regimes that it was not fitted on."
        )
    return [sentence for sentence in sentences if sentence]


def describe_scores(weak: pd.DataFrame, strong: pd.DataFrame) -> str:
    """Say how well the lowest rates and the smallest norm tell the rare feature's neurons from the others."""
    if not {"effective_rate", "norm"} <= set(weak["score"]):
        return ""
    words = ("better than chance", "worse than chance", "not measurably other than chance")
    rate, norm = (single_row(weak, score=score) for score in ("effective_rate", "norm"))
    text = (
        "With a weak bias (a share of 0.2), at 0.7 times the others' frequency, the lowest effective rate picks out the rare"
        f" feature's neurons {compare(rate, CHANCE, *words)}, with an AUC of"
        f" {interval(rate, 'mean', 2)}. The smallest norm, by which magnitude pruning goes, picks them out"
        f" {compare(norm, CHANCE, *words)} ({interval(norm, 'mean', 2)}; chance is 0.5)."
    )
    if {"firing_rate", "effective_rate"} <= set(strong["score"]):
        firing, rate = (
            single_row(strong, score=score) for score in ("firing_rate", "effective_rate")
        )
        text += (
            " With a strong bias (0.7), at 0.9 times, the firing rate"
            f" {compare(firing, rate, 'does better', 'does worse', 'is not shown to do better or worse')}:"
            f" {interval(firing, 'mean', 2)} against {interval(rate, 'mean', 2)}."
        )
    return text


def describe_mask(gains: pd.DataFrame, steps: pd.DataFrame) -> str:
    """Say what masking by the effective rate does to the critical frequency and, where it is learned, to the lead."""
    late = gains[gains["arm"].str.fullmatch(r"effective_rate(-stop)?-onset=\d+")].sort_values("arm")
    masked = steps[steps["arm"].str.fullmatch(r"effective_rate-onset=\d+")]
    if len(late) != 2 or len(masked) != 1 or "dense" not in set(steps["arm"]):
        return ""
    free, stopped = records(late)
    mask, dense = single_row(masked), single_row(steps, arm="dense")
    words = ("raises", "lowers", "is not shown to change")
    return (
        f"Masking them {compare(mask, dense, *words, column='step')} the frequency from which half of the trainings reach a cosine"
        f" of at least 0.5: {interval(mask, 'step', 2)} times the others' under the mask, {interval(dense, 'step', 2)} without."
        f" At {AT['eps_min']:g} times, the mask changes the rare feature's lead by {interval(free, 'mean', 4, '+')}, and"
        f" {free['diverged'] or 'none'} of {free['n']} trainings diverge; with a stop the change is"
        f" {interval(stopped, 'mean', 4, '+')}, and {stopped['diverged'] or 'none'} diverge."
    )


def describe_gains(gains: pd.DataFrame) -> str:
    """Count the masks that raise or lower the rare feature's lead, over all biases and frequencies, and name the best."""
    if gains.empty:
        return ""
    up, down = gains[gains["ci_low"] > 0], gains[gains["ci_high"] < 0]
    sound = up[up["diverged"] == 0]
    text = (
        f"Of {len(gains)} comparisons of a mask with dense at the same seed, the rare feature's lead"
        f" rises in {len(up) or 'none'} and falls in {len(down) or 'none'}; the intervals are not corrected"
        " for their number."
    )
    if len(up):
        text += f" The largest rise is {describe_gain(up.loc[up['mean'].idxmax()])}."
        text += f" No training diverges in {len(sound) or 'none'} of the {len(up)}"
        if len(sound) and len(sound) < len(up):
            chance = int(sound["arm"].str.startswith("random").sum())
            text += (
                f": the largest of these is {describe_gain(sound.loc[sound['mean'].idxmax()])}, and"
                f" {chance or 'none'} {'is' if chance < 2 else 'are'} by a random mask"
            )
        text += "."
    return text


def describe_gain(row: pd.Series) -> str:
    """Write one gain with the mask, bias and frequency at which it was measured, and its diverged trainings."""
    arm, _, _ = row["arm"].partition("-")
    share = row["point"].removeprefix("share=")
    bias = (
        "without a bias"
        if share == "0"
        else f"with a bias share of {share}"
        if share.replace(".", "").isdigit()
        else share
    )
    diverged = f", {row['diverged']:g} of {row['n']:g} trainings diverge" if row["diverged"] else ""
    kept = (
        " and masked keys"
        if "masked_keys" in row["arm"]
        else " and a stop"
        if "-stop" in row["arm"]
        else ""
    )
    return (
        f"{interval(row, 'mean', 3, '+')} ({arm_name(arm)}{kept}, {bias}, {row['eps_min']:g} times the others'"
        f" frequency{diverged})"
    )


def describe_steps(steps: pd.DataFrame) -> str:
    """Say which of all interventions move the critical frequency under a strong bias, and which moves it most."""
    if "dense" not in set(steps["arm"]) or len(steps) < 2:
        return ""
    dense = single_row(steps, arm="dense")
    others = [row for row in records(steps) if row["arm"] != "dense"]
    moved = [compare(row, dense, "raise", "lower", "keep", column="step") for row in others]
    text = (
        "With a strong bias (a share of 0.7) half of the trainings reach a cosine of at least 0.5 at"
        f" {interval(dense, 'step', 2)} times the others' frequency. Of {len(others)} interventions"
        f" {moved.count('lower') or 'none'} lower this frequency and {moved.count('raise') or 'none'} raise it."
    )
    lower = [row for row, word in zip(others, moved, strict=True) if word == "lower"]
    if lower:
        best = min(lower, key=lambda row: row["step"])
        delay = re.fullmatch(r"dense-delay=(\d+)", best["arm"])
        name = f"a bias that comes {delay[1]} steps later" if delay else f"`{best['arm']}`"
        text += f" The lowest is {interval(best, 'step', 2)}, with {name}."
    return text


answer = make_findings_page(
    "Which neurons to prune", "selection", Selection, findings, TABLES, doc_tables.TABLES
)
