"""Findings of the study of fine-grained labels; the numbers choose the words."""

from collections.abc import Mapping

import pandas as pd

from answers.words import compare
from rarefeat.studies.fine_labels.config import FineLabels
from rarefeat.workflow.files.markdown import interval, number, select_rows, single_row, trend_word

TABLES = ("fine_labels_errors", "fine_labels_crossing", "fine_labels_digits")
DISTRACTORS = 6
"""Expected number of distracting patches at which errors are described."""


def findings(section: FineLabels, tables: Mapping[str, pd.DataFrame]) -> list[str]:
    """Describe errors with coarse and fine labels, of contrastive encoders, and on images."""
    errors, crossed, images = (tables[name] for name in TABLES)
    k = errors["k"].max()
    distractors = DISTRACTORS if DISTRACTORS in set(errors["s_dag"]) else errors["s_dag"].max()
    many = select_rows(errors, k=k, s_dag=distractors)

    def error(table: pd.DataFrame, **where) -> str:
        return f"{interval(single_row(table, **where), 'mean', 1, '', 100)} %"

    words = ("more often", "less often", "not measurably more or less often")
    fine, coarse = (
        single_row(many, labels=labels, metric="hard_error") for labels in ("fine", "coarse")
    )
    easy = select_rows(many, metric="easy_error")
    sentences = [
        "On hard samples, networks trained with fine labels are wrong"
        f" {compare(fine, coarse, *words)} than networks trained with coarse ones.",
        f"With {k} subclasses and {distractors:g} distracting patches they are wrong on"
        f" {interval(fine, 'mean', 1, '', 100)} % against"
        f" {interval(coarse, 'mean', 1, '', 100)} % (n = {many['n'].max()} runs)."
        + (
            " On easy samples neither is wrong on more than"
            f" {number(100 * easy['mean'].max(), 1)} %."
            if len(easy)
            else ""
        ),
    ]
    hard = select_rows(
        crossed, k=8 if 8 in set(crossed["k"]) else crossed["k"].max(), quantity="hard"
    )
    if {"dense", "dense-bias=1"} <= set(select_rows(hard, pair="views")["arm"]):
        strong, without = (
            single_row(hard, pair="views", arm=arm) for arm in ("dense-bias=1", "dense")
        )
        sentences.append(
            "A linear head on a contrastive encoder that sees two views of a sample is wrong on"
            f" hard samples {compare(strong, without, *words)} with a bias of 1 than without. At"
            f" {hard['k'].max()} subclasses it is wrong on"
            f" {error(hard, pair='views', arm='dense-bias=1')} against"
            f" {error(hard, pair='views', arm='dense')} (n = {hard['n'].min()}). Fine labels give"
            f" {error(hard, pair='labels', arm='fine')}, coarse ones"
            f" {error(hard, pair='labels', arm='coarse')}."
        )
    images = select_rows(
        images, readout="finetuned", epoch=images["epoch"].max(), superclass="loops"
    )
    if {"manual", "sample"} <= set(images["labels"]):
        words = ("raises", "lowers", "is not shown to change")
        manual, sample = (single_row(images, labels=labels) for labels in ("manual", "sample"))
        changes = [interval(row, "paired_difference", 1, "+", 100) for row in (manual, sample)]
        sentences.append(
            "On images of digits the task is to tell a closed loop. Pretraining on the ten digits"
            f" {trend_word(manual, 'paired_difference', *words)} the error ({changes[0]} points),"
            f" against pretraining on the task; one class for each image"
            f" {trend_word(sample, 'paired_difference', *words)} it ({changes[1]} points)."
        )
    return sentences
