"""Measurements of Table 2 on long-tailed images.

It claims that pruning raises accuracy, the more so with rho, and lowers Delta_20.
"""

from collections.abc import Mapping

import numpy as np
import pandas as pd

from rarefeat.claims.measurements import Measurement, measurement
from rarefeat.workflow.config.images import ImageArm
from rarefeat.workflow.run.job import Job

KEYS = list(ImageArm.model_fields)


def measure(tables: Mapping[str, pd.DataFrame], job: Job) -> list[Measurement]:
    """Measure every masked arm of every image study, paired with dense by seed."""
    longtail = tables["longtail"]
    rows, table = [], longtail[longtail["split"] == "long_tailed"]
    for (dataset, width, *key), masked in table[table["alpha"] > 0].groupby(
        ["dataset", "width", *KEYS]
    ):
        of_study = table[table["dataset"] == dataset]
        dense = of_study[(of_study["width"] == width) & (of_study["arm"] == "dense")]
        place = {"arm": ImageArm(**dict(zip(KEYS, key, strict=True))).label}
        if of_study["width"].nunique() > 1:
            place["width"] = width
        gains, wider = (
            differences(masked, dense, f"balanced_{metric}") for metric in ("accuracy", "delta_20")
        )
        for rho in gains.columns:
            rows.append(measurement("T2-accuracy", dataset, {"rho": rho, **place}, gains[rho]))
            rows.append(measurement("T2-delta", dataset, {"rho": rho, **place}, wider[rho]))
        ratios = gains.columns
        if len(ratios) > 1:
            x = np.log10(ratios.to_numpy(dtype=float))
            x = x - x.mean()
            slopes = gains.to_numpy() @ x / (x @ x)
            rows.append(
                measurement(
                    "T2-rho", dataset, {"rho": (ratios.min(), ratios.max()), **place}, slopes
                )
            )
        else:
            rows.append(
                measurement(
                    "T2-rho",
                    dataset,
                    {"rho_alone": ratios[0], **place},
                    [],
                    untestable="a slope needs two ratios",
                )
            )
    return rows


def differences(arm: pd.DataFrame, dense: pd.DataFrame, metric: str) -> pd.DataFrame:
    """Return the differences of an arm to dense."""
    wide = [rows.pivot(index="seed", columns="rho", values=metric) for rows in (arm, dense)]
    return wide[0] - wide[1]
