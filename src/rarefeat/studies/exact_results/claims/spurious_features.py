"""Claims of section 6.4: spurious features under a ridge and a bound on the rank."""

import numpy as np
import pandas as pd

from rarefeat.claims.measurements import Measurement, measurement
from rarefeat.studies.exact_results.claims.table_reader import settings

STUDY = "spurious_features"


def measure(table: pd.DataFrame) -> list[Measurement]:
    """Return a row for each factor of lambda; every seed is an instance."""
    rows = []
    for setting in settings(table, "alpha"):
        setting_rows = table[table["setting"] == setting]
        value, stated = (
            setting_rows.pivot(index="seed", columns="quantity", values=column)
            for column in ("value", "stated")
        )
        share = value["beta"] / value["alpha"]
        quantities = {
            "6.1-alpha": value["alpha"] / stated["alpha"],
            "6.1-order": np.maximum(share - 1, -share),
            "6.1-ratio": np.log(value["alpha_over_beta"] / stated["alpha_over_beta"]),
            "6.2": (value["cost_of_spurious"] > 0).astype(float),
            "6.3-ridge": np.log(value["ood_accuracy"] / stated["ood_accuracy"]),
            "6.3-rank": value["rank_ood_accuracy"].round(12),
        }
        rows += [
            measurement(claim, STUDY, {"setting": setting}, values)
            for claim, values in quantities.items()
        ]
    return rows
