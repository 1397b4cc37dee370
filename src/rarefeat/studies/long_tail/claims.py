"""Table 2 on long-tailed images: pruning raises accuracy, more so with rho, and lowers Delta_20."""

from collections.abc import Iterator, Mapping

import numpy as np
import pandas as pd

from rarefeat.claims.measurements import Measurement, measurement
from rarefeat.workflow.config.images import ImageArm

KEYS = list(ImageArm.model_fields)


def measure(tables: Mapping[str, pd.DataFrame]) -> Iterator[Measurement]:
    """Measure every masked arm of every image study, paired with dense by seed."""
    (table,) = tables.values()
    table = table[table["split"] == "long_tailed"]
    masked = table[table["alpha"] > 0].groupby(["dataset", "width", *KEYS])
    for (dataset, width, *key), rows in masked:
        of_study = table[table["dataset"] == dataset]
        dense = of_study[(of_study["width"] == width) & (of_study["arm"] == "dense")]
        place = {"arm": ImageArm(**dict(zip(KEYS, key, strict=True))).label}
        if of_study["width"].nunique() > 1:
            place["width"] = width
        gains, wider = (
            differences(rows, dense, f"balanced_{metric}") for metric in ("accuracy", "delta_20")
        )
        for rho in gains.columns:
            yield measurement("T2-accuracy", dataset, {"rho": rho, **place}, gains[rho])
            yield measurement("T2-delta", dataset, {"rho": rho, **place}, wider[rho])
        ratios = gains.columns
        if len(ratios) == 1:
            alone, why = {"rho_alone": ratios[0], **place}, "a slope needs two ratios"
            yield measurement("T2-rho", dataset, alone, [], untestable=why)
            continue
        x = np.log10(ratios.to_numpy(dtype=float))
        x = x - x.mean()
        over = {"rho": (ratios.min(), ratios.max()), **place}
        yield measurement("T2-rho", dataset, over, gains.to_numpy() @ x / (x @ x))


def differences(arm: pd.DataFrame, dense: pd.DataFrame, metric: str) -> pd.DataFrame:
    """Return the differences of an arm to dense, a row by seed, a column by rho."""
    wide = [rows.pivot(index="seed", columns="rho", values=metric) for rows in (arm, dense)]
    return wide[0] - wide[1]
