"""Findings of the study of selection; the numbers choose the words."""

import re
from collections.abc import Mapping

import pandas as pd

from answers.words import compare
from rarefeat.figures.labels import arm_name
from rarefeat.studies.selection.config import Selection
from rarefeat.workflow.files.markdown import interval, number, records, select_rows, single_row

TABLES = ("selection_scores_at_end", "selection_masks", "selection_steps", "selection_law_errors")
PRIMARY = {"point": "share=0.2", "eps_min": 0.7}
"""Point of the primary regimes of the claims."""
STRONG = {"point": "share=0.7", "eps_min": 0.9}
CHANCE = {"mean": 0.5, "ci_low": 0.5, "ci_high": 0.5}


def findings(section: Selection, tables: Mapping[str, pd.DataFrame]) -> list[str]:
    """Describe scores, masks, interventions, and the critical-frequency model."""
    scores, masks, steps, errors = (tables[name] for name in TABLES)
    weak = select_rows(scores, **PRIMARY)
    sentences = [
        summarise_scores(weak),
        describe_scores(weak, select_rows(scores, **STRONG)),
        describe_mask(
            select_rows(masks, **PRIMARY, quantity="gain"),
            select_rows(steps, study="help", point=PRIMARY["point"]),
        ),
        describe_gains(select_rows(masks, quantity="gain")),
        describe_steps(select_rows(steps, study="help", point=STRONG["point"])),
    ]
    if "all" in set(errors["parameter"]):
        model = single_row(errors, parameter="all")
        sentences.append(
            "A closed form with two fitted constants predicts the critical frequency, at which half"
            " of the runs end with a cosine of at least 0.5. In"
            f" {model['regimes']} random regimes that it was not fitted on, it is off by"
            f" {number(model['error'], 3)}"
            f" [{number(model['error_low'], 3)}, {number(model['error_high'], 3)}] on average."
        )
    return [sentence for sentence in sentences if sentence]


def summarise_scores(weak: pd.DataFrame) -> str:
    """Say which of the effective rate and the norm finds the neurons of the rare feature."""
    if not {"effective_rate", "norm"} <= set(weak["score"]):
        return ""
    words = ("identifies", "misidentifies", "is not shown to identify")
    rate, norm = (single_row(weak, score=score) for score in ("effective_rate", "norm"))
    return (
        f"A low effective rate {compare(rate, CHANCE, *words)} the rare feature's neurons; a small"
        f" norm, the score of magnitude pruning, {compare(norm, CHANCE, *words)} them."
    )


def describe_scores(weak: pd.DataFrame, strong: pd.DataFrame) -> str:
    """Describe how well rates and the norm find the neurons of the rare feature."""
    if not {"effective_rate", "norm"} <= set(weak["score"]):
        return ""
    rate, norm = (single_row(weak, score=score) for score in ("effective_rate", "norm"))
    text = (
        "At a bias scale of 0.2 and a relative frequency of 0.7 the effective rate has an AUC of"
        f" {interval(rate, 'mean', 2)} and the norm of {interval(norm, 'mean', 2)}; chance is 0.5."
    )
    if {"firing_rate", "effective_rate"} <= set(strong["score"]):
        firing, rate = (
            single_row(strong, score=score) for score in ("firing_rate", "effective_rate")
        )
        words = ("does better", "does worse", "is not shown to do better or worse")
        text += (
            " At a bias scale of 0.7 and a relative frequency of 0.9 the firing rate"
            f" {compare(firing, rate, *words)}:"
            f" {interval(firing, 'mean', 2)} against {interval(rate, 'mean', 2)}."
        )
    return text


def describe_mask(gains: pd.DataFrame, steps: pd.DataFrame) -> str:
    """Describe the effect of masking by effective rate, on critical frequency and on the lead."""
    late = gains[gains["arm"].str.fullmatch(r"effective_rate(-stop)?-onset=\d+")].sort_values("arm")
    masked = steps[steps["arm"].str.fullmatch(r"effective_rate-onset=\d+")]
    if len(late) != 2 or len(masked) != 1 or "dense" not in set(steps["arm"]):
        return ""
    free, stopped = records(late)
    mask, dense = single_row(masked), single_row(steps, arm="dense")
    words = ("raises", "lowers", "is not shown to change")
    return (
        f"A mask by the effective rate {compare(mask, dense, *words, column='step')} the critical"
        f" frequency: it is {interval(mask, 'step', 2)} under the mask and"
        f" {interval(dense, 'step', 2)} without. At a relative frequency of"
        f" {PRIMARY['eps_min']:g} the mask changes the rare feature's lead by"
        f" {interval(free, 'mean', 3, '+')}, and {free['diverged'] or 'none'} of {free['n']} runs"
        " diverge. With a stop it changes by"
        f" {interval(stopped, 'mean', 3, '+')}, and {stopped['diverged'] or 'none'} diverge."
    )


def describe_gains(gains: pd.DataFrame) -> str:
    """Describe how many masks raise or lower the lead of the rare feature, and the best one."""
    if gains.empty:
        return ""
    up, down = gains[gains["ci_low"] > 0], gains[gains["ci_high"] < 0]
    sound = up[up["diverged"] == 0]
    text = (
        f"Of {len(gains)} comparisons of a masked run with a dense one at the same seed, the rare"
        f" feature's lead rises in {len(up) or 'none'} and falls in {len(down) or 'none'}; the"
        " intervals are not corrected for their number."
    )
    if len(up):
        text += f" All runs stay finite in {len(sound) or 'none'} of the {len(up)}"
        if len(sound):
            chance = int(sound["arm"].str.startswith("random").sum())
            text += (
                f": the largest of these is {describe_gain(sound.loc[sound['mean'].idxmax()])},"
                f" and {chance or 'none'} {'is' if chance < 2 else 'are'} by a random mask"
            )
        text += "."
    return text


def describe_gain(row: pd.Series) -> str:
    """Write one gain with its mask, bias and frequency."""
    arm, _, _ = row["arm"].partition("-")
    share = row["point"].removeprefix("share=")
    bias = (
        "without a bias"
        if share == "0"
        else f"bias scale {share}"
        if share.replace(".", "").isdigit()
        else share
    )
    option = (
        " and masked keys"
        if "masked_keys" in row["arm"]
        else " and a stop"
        if "-stop" in row["arm"]
        else ""
    )
    return (
        f"{interval(row, 'mean', 3, '+')} ({arm_name(arm)}{option}, {bias}, relative frequency"
        f" {row['eps_min']:g})"
    )


def describe_steps(steps: pd.DataFrame) -> str:
    """Describe which interventions change the critical frequency under a strong bias."""
    if "dense" not in set(steps["arm"]) or len(steps) < 2:
        return ""
    dense = single_row(steps, arm="dense")
    others = [row for row in records(steps) if row["arm"] != "dense"]
    effects = [compare(row, dense, "raise", "lower", "keep", column="step") for row in others]
    text = (
        "With a strong bias (a scale of 0.7) the critical frequency is"
        f" {interval(dense, 'step', 2)}. Of {len(others)} interventions"
        f" {effects.count('lower') or 'none'} lower it and {effects.count('raise') or 'none'} raise"
        " it."
    )
    lower = [row for row, word in zip(others, effects, strict=True) if word == "lower"]
    if lower:
        best = min(lower, key=lambda row: row["step"])
        delay = re.fullmatch(r"dense-delay=(\d+)", best["arm"])
        name = f"a bias that comes {delay[1]} steps later" if delay else f"`{best['arm']}`"
        text += f" The lowest is {interval(best, 'step', 2)}, with {name}."
    return text
