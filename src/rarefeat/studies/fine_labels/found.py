"""What the study of fine-grained labels has found."""

from collections.abc import Mapping

import pandas as pd

from rarefeat.storage.answer import answering
from rarefeat.storage.markdown import interval, one, rows
from rarefeat.studies.fine_labels import page
from rarefeat.studies.fine_labels.config import FineLabels

TABLES = ("fine_labels_errors", "fine_labels_crossing", "fine_labels_digits")
DISTRACTORS = 6
"""Expected number of distracting patches at which errors are told."""


def found(section: FineLabels, tables: Mapping[str, pd.DataFrame]) -> list[str]:
    """Errors with coarse and fine labels, of contrastive encoders between them, and on images."""
    errors, crossed, images = (tables[name] for name in TABLES)
    k = errors["k"].max()
    distractors = DISTRACTORS if DISTRACTORS in set(errors["s_dag"]) else errors["s_dag"].max()
    many = rows(errors, k=k, s_dag=distractors)

    def error(table: pd.DataFrame, **where) -> str:
        return f"{interval(one(table, **where), 'mean', 1, '', 100)} %"

    fine, coarse = (error(many, labels=labels, metric="hard_error") for labels in ("fine", "coarse"))
    sentences = [
        f"Fine labels keep what coarse labels lose: on hard samples, with {k} subclasses and {distractors:g} distracting"
        f" patches, networks with coarse labels are wrong on {coarse} and networks with fine labels on {fine} (n ="
        f" {many['n'].max()} seeds). On easy samples neither makes an error that can be seen."
    ]
    hard = rows(crossed, k=8 if 8 in set(crossed["k"]) else crossed["k"].max(), quantity="hard")
    if {"dense", "dense-bias=1"} <= set(rows(hard, pair="views")["arm"]):
        few = rows(crossed, k=crossed["k"].min(), quantity="hard")
        half = rows(hard, pair="views", arm="dense-bias=0.5")
        with_half = f", {error(half)} with half of it" if len(half) else ""
        sentences.append(
            "Contrastive encoders that see two views of a sample keep subclasses with a strong bias, and lose them without:"
            f" read by a linear head at {hard['k'].max()} subclasses they are wrong on"
            f" {error(hard, pair='views', arm='dense-bias=1')} of the hard samples with a bias of 1{with_half} and"
            f" {error(hard, pair='views', arm='dense')} without one (n = {hard['n'].min()}); fine labels give"
            f" {error(hard, pair='labels', arm='fine')}, coarse ones {error(hard, pair='labels', arm='coarse')}. At"
            f" {few['k'].max()} subclasses they are wrong on {error(few, pair='views', arm='dense-bias=1')} with a bias of 1."
        )
    images = rows(images, readout="finetuned", epoch=images["epoch"].max(), superclass="loops")
    if {"manual", "sample"} <= set(images["labels"]):
        change = {
            labels: interval(one(images, labels=labels), "paired_difference", 1, "+", 100) for labels in ("manual", "sample")
        }
        sentences.append(
            "On images of digits, pretraining on the ten digits instead of on the question that is asked, whether there is a"
            f" closed loop, changes the error by {change['manual']} points; one class for each image changes it by"
            f" {change['sample']}."
        )
    return sentences


answer = answering("Fine-grained labels", "fine_labels", FineLabels, found, TABLES, page.TABLES)
