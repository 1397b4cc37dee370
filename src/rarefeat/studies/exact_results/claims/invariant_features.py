"""Claims of section 7.2.1: contrastive learning as PCA, and which features it encodes."""

import pandas as pd

from rarefeat.claims.measurements import Measurement, measurement
from rarefeat.studies.exact_results.claims.table_reader import settings, values_by_seed

STUDY = "invariant_features"


def measure(table: pd.DataFrame) -> list[Measurement]:
    """Return a row for each norm of the representation."""
    rows = []
    for setting in settings(table, "loss"):

        def by_seed(quantity: str, place: float = 0.0, column="value", setting=setting):
            return values_by_seed(table, setting, quantity, place, column)

        errors = {
            name: by_seed(name) / by_seed(name, column="stated") - 1
            for name in ("loss", "loss_tied")
        }
        bits = table[(table["setting"] == setting) & (table["quantity"] == "encoded")]
        encoded = bits.pivot(index="seed", columns="at", values="value")
        values = {
            "7.1": errors["loss"],
            "7.1-tied": errors["loss_tied"].abs() - errors["loss"].abs(),
            "7.1-pca": by_seed("pca_overlap"),
            "7.1-raw": by_seed("pca_overlap") - by_seed("raw_overlap"),
            "7.2-1": by_seed("spurious"),
            "7.2-1-shared": by_seed("spurious_shared") - by_seed("spurious"),
            "7.2-2": encoded.min(axis=1),
            "7.2-order": encoded[encoded.columns.min()] - encoded[encoded.columns.max()],
        }
        rows += [
            measurement(claim, STUDY, {"setting": setting}, value)
            for claim, value in values.items()
        ]
    return rows
