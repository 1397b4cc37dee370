"""What the study of selection has found."""

from collections.abc import Mapping

import pandas as pd

from rarefeat.storage.answer import answering
from rarefeat.storage.markdown import interval, number, one, rows
from rarefeat.studies.selection import page
from rarefeat.studies.selection.config import Selection

TABLES = ("selection_scores_at_end", "selection_masks", "selection_steps", "selection_law_errors")
AT = {"point": "share=0.2", "eps_min": 0.7}
"""Where the claims are read."""
STRONG = {"point": "share=0.7", "eps_min": 0.9}


def found(section: Selection, tables: Mapping[str, pd.DataFrame]) -> list[str]:
    """Who the neurons are, what their mask does, what moves the step, and where it lies."""
    scores, masks, steps, errors = (tables[name] for name in TABLES)
    sentences = []
    gains = rows(masks, **AT, quantity="gain")
    read, strong = rows(scores, **AT), rows(scores, **STRONG)
    if {"effective_rate", "norm"} <= set(read["score"]):
        rate, norm = (interval(one(read, score=score), "mean", 2) for score in ("effective_rate", "norm"))
        sentences.append(
            "With a weak bias (a share of 0.2) the neurons of a feature that is 0.7 times as frequent as the others can be"
            f" found without knowing it: the lowest effective rate tells them from the others with an AUC of {rate}, while the"
            f" smallest norm, by which magnitude pruning goes, has {norm}, where 0.5 is chance."
        )
        names = ("firing_rate", "effective_rate")
        both = [one(strong, score=score) for score in names] if set(names) <= set(strong["score"]) else []
        if both and both[0]["ci_low"] > both[1]["ci_high"]:
            better, worse = (interval(score, "mean", 2) for score in both)
            sentences[-1] += f" With a strong one (0.7), at 0.9 times, the firing rate does better: {better} against {worse}."
    late = gains[gains["arm"].str.fullmatch(r"effective_rate(-stop)?-onset=\d+")].sort_values("arm")
    weak = rows(steps, study="help", point=AT["point"])
    masked = weak[weak["arm"].str.fullmatch(r"effective_rate-onset=\d+")]
    if len(late) == 2 and len(masked) == 1 and "dense" in set(weak["arm"]):
        free, stopped = late.to_dict("records")
        there, dense = one(masked), one(weak, arm="dense")
        lets = "lets the feature in earlier" if there["ci_high"] < dense["ci_low"] else "does not let the feature in earlier"
        sentences.append(
            f"Masking them {lets}: half of the trainings learn it at {interval(there, 'step', 2)} times the others' frequency"
            f" under the mask and at {interval(dense, 'step', 2)} without. Where it is learned, the mask changes its lead by"
            f" {interval(free, 'mean', 4, '+')}, and {free['diverged'] or 'none'} of {free['n']} trainings run away; with a"
            f" stop {stopped['diverged'] or 'none'} does, and the change is {interval(stopped, 'mean', 4, '+')}."
        )
    shut = rows(steps, study="help", point="share=0.7")
    if {"dense", "dense-delay=200"} <= set(shut["arm"]):
        dense, delayed = (interval(one(shut, arm=arm), "step", 2) for arm in ("dense", "dense-delay=200"))
        sentences.append(
            f"What moves its fate is the bias. With a strong one (a share of 0.7) half of the trainings learn it at {dense}"
            f" times the others' frequency; if the bias comes 200 steps later, at {delayed}."
        )
    if "all" in set(errors["parameter"]):
        law = one(errors, parameter="all")
        sentences.append(
            "Where that frequency lies can be computed beforehand: a law with two fitted constants is off by"
            f" {number(law['error'], 3)} [{number(law['error_low'], 3)}, {number(law['error_high'], 3)}] on average, in"
            f" {law['regimes']} drawn regimes that it was not fitted on."
        )
    return sentences


answer = answering("Which neurons to prune", "selection", Selection, found, TABLES, page.TABLES)
