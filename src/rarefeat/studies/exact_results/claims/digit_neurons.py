"""A.7.4 on scikit-learn's digits: two clusters of neurons."""

import pandas as pd

from rarefeat.claims.measurements import Measurement, measurement
from rarefeat.studies.exact_results.claims.table_reader import settings, values_by_seed

STUDY = "digit_neurons"
OTHER = "scikit-learn's digits for MNIST; rate and size of the initial weights are not printed"


def measure(table: pd.DataFrame) -> list[Measurement]:
    """Return the clusters at the end of training for each size of the initial weights, and the
    silhouette also before it.
    """
    rows = []
    for setting in settings(table, "clusters"):
        rows.append(
            measurement(
                "2-8-two",
                STUDY,
                {"setting": setting},
                values_by_seed(table, setting, "clusters"),
                remark=OTHER,
            )
        )
        for place, step in (({}, None), ({"when": "before training"}, 0.0)):
            values = values_by_seed(table, setting, "silhouette", step)
            rows.append(
                measurement("2-8-clear", STUDY, {"setting": setting, **place}, values, remark=OTHER)
            )
    return rows
