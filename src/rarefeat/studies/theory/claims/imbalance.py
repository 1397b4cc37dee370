"""Beyond the paper: whether the imbalance is transient, and when a rare feature starts."""

import numpy as np
import pandas as pd

from rarefeat.claims.measurements import Measurement
from rarefeat.studies.theory.claims.table_reader import ClaimTableReader, values_by_seed

REACHED = 0.5


def first_step(table: pd.DataFrame, metric: str) -> pd.Series:
    """Return the first recorded step at which a metric reaches 0.5, by seed; else NaN."""
    reached = table[(table["metric"] == metric) & (table["value"] >= REACHED)]
    return (
        reached.groupby("seed")["step"].min().reindex(sorted(table["seed"].unique())).astype(float)
    )


def measure(reader: ClaimTableReader) -> list[Measurement]:
    """Measure every point of the studies of the phase."""
    rows = []
    for name in reader.studies("phase", table="trajectories"):
        for (eps_min, sigma), point in reader.tables[f"{name}_trajectories"].groupby(
            ["eps_min", "sigma"]
        ):
            if eps_min == 1:
                continue
            place = {"eps_min": eps_min, "sigma": sigma, "step": point["step"].max()}
            gap = values_by_seed(point, "majority_alignment") - values_by_seed(
                point, "max_alignment"
            )
            rows += [reader.row(claim, name, place, gap) for claim in ("lasting", "equal")]
            ratio = first_step(point, "max_alignment") / first_step(point, "majority_alignment")
            missing = int(ratio.isna().sum())
            # A start that is not seen is later than T: the mean of the others would be too early.
            late = (
                f"{missing} of {len(ratio)} replicas do not learn the feature within T"
                if missing
                else ""
            )
            values = np.log2(ratio * eps_min)
            untestable = late if 10 * missing > len(ratio) else ""
            rows.append(
                reader.row(
                    "onset",
                    name,
                    place,
                    values,
                    "",
                    untestable,
                    remark=late and f"{late}, and are left out",
                )
            )
    return rows
