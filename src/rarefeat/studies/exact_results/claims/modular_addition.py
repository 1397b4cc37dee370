"""Theorem 4.9 on networks that are trained: their margin, and the frequencies of their neurons."""

from functools import partial

import pandas as pd

from rarefeat.claims.claim import CORRELATION, SHARE, Measured
from rarefeat.studies.exact_results.claims.reader import by_seed, row, settings
from rarefeat.studies.exact_results.claims.reader import declare as of_paper

STUDY = "modular_addition"
SMALLER = "the printed sizes are out of reach: a reduced one"
declare = partial(of_paper, group="modular addition", effect=1.55, seeds=15, primary=f"{STUDY}: table=k3", tolerance=0.05)
MARGIN = declare(
    id="4.9-margin",
    source="Theorem 4.9, Lemma 4.7",
    statement="training reaches the largest margin gamma*",
    quantity="normalised margin over the whole table, over gamma*",
    test="non-inferiority",
    side="above",
    threshold=1.0,
    margin=0.05,
    reason="gamma* as lambda goes to 0; a twentieth below",
    control="the construction of Lemma C.18 has gamma*, and no network more; a test searches for one",
)
ONE = declare(
    id="4.9-frequency",
    source="Theorem 4.9, Figure 4.2",
    statement="every neuron has one frequency",
    quantity="share of neurons with more than nine tenths of their power at one frequency",
    test="non-inferiority",
    side="above",
    threshold=1.0,
    margin=0.1,
    reason="Figure 4.2: almost 1 for all neurons; all but a tenth",
    control="before training none has",
    bounds=SHARE,
)
EVERY = declare(
    id="4.9-every",
    source="Theorem 4.9, Lemma C.20",
    statement="every frequency has a neuron",
    quantity="frequencies that a neuron with one frequency has, over (p - 1) / 2",
    test="non-inferiority",
    side="above",
    threshold=1.0,
    margin=0.01,
    reason="all of them",
    control="a network with as many neurons at one frequency would be wrong on most of the table",
    bounds=SHARE,
)
PHASE = declare(
    id="4.9-phase",
    source="Theorem 4.9",
    statement="the phases of a neuron's inputs sum to that of its output",
    quantity="mean cosine of the difference, over neurons with one frequency",
    test="non-inferiority",
    side="above",
    threshold=1.0,
    margin=0.05,
    reason="equal; a twentieth below 1",
    control="before training, or at random, its mean is 0",
    bounds=CORRELATION,
)
CLAIMS = (MARGIN, ONE, EVERY, PHASE)


def measure(table: pd.DataFrame) -> list[Measured]:
    """A row for each table, at the end of training."""
    rows = []
    for setting in settings(table, "margin_ratio"):
        for claim, quantity in ((MARGIN, "margin_ratio"), (ONE, "one_frequency"), (PHASE, "phase")):
            rows.append(row(claim, STUDY, setting, by_seed(table, setting, quantity), SMALLER))
        share = by_seed(table, setting, "frequencies") / by_seed(table, setting, "frequencies", column="stated")
        rows.append(row(EVERY, STUDY, setting, share, SMALLER))
    return rows
