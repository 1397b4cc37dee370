"""A.7.4 on scikit-learn's digits: two clusters of neurons."""

from functools import partial

import pandas as pd

from rarefeat.claims.claim import CORRELATION, Measured
from rarefeat.studies.exact_results.claims.reader import by_seed, row, settings
from rarefeat.studies.exact_results.claims.reader import declare as of_paper

STUDY = "digit_neurons"
OTHER = "scikit-learn's digits for MNIST; rate and size of the initial weights are not printed"
declare = partial(of_paper, group="neurons on digits", effect=1.55, seeds=15, primary=f"{STUDY}: sigma=1.0")
TWO = declare(
    id="2-8-two",
    source="A.7.4, Figures 2.3, A.13",
    statement="trained on zeros and ones, the neurons of a two-layer network form two clusters",
    quantity="number of clusters with the largest silhouette",
    test="equivalence",
    side="around",
    threshold=2.0,
    margin=0.5,
    reason="two",
    tolerance=0.5,
    control="before training it is larger, and means nothing: 2-8-clear",
)
CLEAR = declare(
    id="2-8-clear",
    source="A.7.4, Figures 2.3, A.13",
    statement="and these are clusters",
    quantity="their mean silhouette",
    test="superiority",
    side="above",
    threshold=0.25,
    reason="below a quarter a silhouette shows no substantial structure (Kaufman & Rousseeuw 1990)",
    tolerance=0.1,
    control="before training",
    bounds=CORRELATION,
)
CLAIMS = (TWO, CLEAR)


def measure(table: pd.DataFrame) -> list[Measured]:
    """A row for each size of the initial weights, at the end of training; before it for the silhouette, too."""
    rows = []
    for setting in settings(table, "clusters"):
        rows.append(row(TWO, STUDY, setting, by_seed(table, setting, "clusters"), OTHER))
        rows.append(row(CLEAR, STUDY, setting, by_seed(table, setting, "silhouette"), OTHER))
        rows.append(row(CLEAR, STUDY, f"{setting}, before training", by_seed(table, setting, "silhouette", 0.0), OTHER))
    return rows
