"""What the study of selection has found."""

from collections.abc import Mapping

import pandas as pd

from rarefeat.run.job import Job
from rarefeat.storage.answer import reduced, written
from rarefeat.storage.markdown import interval, number, one, rows
from rarefeat.studies.selection import page
from rarefeat.studies.selection.config import Selection

TABLES = ("selection_scores_at_end", "selection_masks", "selection_steps", "selection_law_errors")
AT = {"point": "share=0.2", "eps_min": 0.7}
"""Where the claims are read."""


def found(section: Selection, tables: Mapping[str, pd.DataFrame]) -> list[str]:
    """Who the neurons are, what their mask does, what moves the step, and where it lies."""
    scores, masks, steps, errors = (tables[name] for name in TABLES)
    sentences = []
    scores, gains = rows(scores, **AT), rows(masks, **AT, quantity="gain")
    if {"effective_rate", "norm"} <= set(scores["score"]):
        rate, norm = (interval(one(scores, score=score), "mean", 2) for score in ("effective_rate", "norm"))
        sentences.append(
            "The neurons of a rare feature can be found without knowing it: the lowest effective rate tells them from the"
            " others with an AUC of"
            f" {rate}, while the smallest norm, by which magnitude pruning goes, has {norm}, where 0.5 is chance."
        )
    late = gains[gains["arm"].str.fullmatch(r"effective_rate(-stop)?-onset=\d+")].sort_values("arm")
    if len(late) == 2:
        free, stopped = late.to_dict("records")
        sentences.append(
            f"Masking them does not save the feature: it changes the rare feature's lead by {interval(free, 'mean', 4, '+')},"
            f" and {free['diverged'] or 'none'} of {free['n']} trainings run away; with a stop {stopped['diverged'] or 'none'}"
            f" does, and the change is {interval(stopped, 'mean', 4, '+')}."
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


def answer(tables: Mapping[str, pd.DataFrame], job: Job) -> str:
    """The page of a run."""
    return written("Which neurons to prune", found(job.part("selection", Selection), reduced(TABLES, page.TABLES, tables)))
