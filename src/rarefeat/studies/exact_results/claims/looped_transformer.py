"""Claims of chapter 8: the looped transformer is gradient descent, and its bound.

With what section 8.6 reads off Figure 8.1.
"""

import numpy as np
import pandas as pd

from rarefeat.claims.measurements import Measurement, measurement
from rarefeat.studies.exact_results.claims.table_reader import settings, values_by_seed
from rarefeat.studies.exact_results.paper_values import KAPPA

STUDY = "looped_transformer"
QUANTITIES = (
    ("8.25", "error_excess"),
    ("8.16", "prediction_excess"),
    ("8-1-below", "rounded_excess"),
)
LOOPS = (10, 20, 50, 100, 200)


def measure(table: pd.DataFrame) -> list[Measurement]:
    """Return the measurements of each n, and at some numbers of loops the gap between the smallest
    and the largest n.
    """
    rows = []
    sizes = sorted(int(setting.removeprefix("n=")) for setting in settings(table, "kappa"))
    for n in sizes:
        setting = f"n={n}"
        rows.append(
            measurement(
                "8.14",
                STUDY,
                {"setting": setting},
                values_by_seed(table, setting, "disagreement") / n,
            )
        )
        rows += [
            measurement(
                claim, STUDY, {"setting": setting}, values_by_seed(table, setting, quantity)
            )
            for claim, quantity in QUANTITIES
        ]
        if n in KAPPA:
            rows.append(
                measurement(
                    "8-1-kappa",
                    STUDY,
                    {"setting": setting},
                    np.log(values_by_seed(table, setting, "kappa") / KAPPA[n]),
                )
            )
    for t in LOOPS:
        most, least = (values_by_seed(table, f"n={n}", "gap", t) for n in (sizes[-1], sizes[0]))
        if len(most) and sizes[-1] > sizes[0]:
            rows.append(measurement("8-1-gap", STUDY, {"t": t}, np.log(most / least)))
    return rows
