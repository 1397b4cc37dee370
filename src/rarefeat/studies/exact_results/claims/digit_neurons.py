"""A.7.4 on scikit-learn's digits: two clusters of neurons."""

import pandas as pd

from rarefeat.claims.measured import Measured, of
from rarefeat.studies.exact_results.claims.reader import by_seed, settings

STUDY = "digit_neurons"
OTHER = "scikit-learn's digits for MNIST; rate and size of the initial weights are not printed"


def measure(table: pd.DataFrame) -> list[Measured]:
    """A row for each size of the initial weights, at the end of training; before it for the silhouette, too."""
    rows = []
    for setting in settings(table, "clusters"):
        rows.append(of("2-8-two", STUDY, {"setting": setting}, by_seed(table, setting, "clusters"), remark=OTHER))
        for place, at in (({}, None), ({"when": "before training"}, 0.0)):
            values = by_seed(table, setting, "silhouette", at)
            rows.append(of("2-8-clear", STUDY, {"setting": setting, **place}, values, remark=OTHER))
    return rows
