"""Table 2 on long-tailed images: accuracy up by pruning, the more so with rho, and Delta_20 down."""

from collections.abc import Mapping
from functools import partial

import numpy as np
import pandas as pd

from rarefeat.claims.claim import Claim, Measured, Regime
from rarefeat.claims.estimate import of_seeds
from rarefeat.config.images import ImageArm
from rarefeat.run.job import Job

declare = partial(
    Claim, group="table 2", paper="imbalance_and_pruning", source="section 4, Table 2", test="superiority", threshold=0.0,
    effect=4.0, seeds=6, tolerance=0.01,
)  # fmt: skip
ARM = "pruned_unmasked-alpha=0.7"
ACCURACY = declare(
    id="T2-accuracy",
    statement="pruning improves linear-probe accuracy on long-tailed images",
    quantity="accuracy of the balanced linear probe less that of dense, seed by seed",
    side="above",
    reason="higher",
    primary=f"digits: rho 50, {ARM}",
    control="the same arm on as many images in equal classes",
)
WITH_RHO = declare(
    id="T2-rho",
    statement="the improvement becomes larger as rho increases",
    quantity="slope of that difference in log10 rho",
    side="above",
    reason="growing",
    primary=f"digits: rho 5 to 50, {ARM}",
    control="a slope of 0: the same gain at every rho",
)
DELTA = declare(
    id="T2-delta",
    statement="pruning reduces Delta_20, the gap between head and tail classes",
    quantity="Delta_20 of the balanced linear probe less that of dense, seed by seed",
    side="below",
    reason="lower",
    primary=f"digits: rho 50, {ARM}",
    control="the same arm on as many images in equal classes",
)
CLAIMS = [ACCURACY, WITH_RHO, DELTA]
KEYS = list(ImageArm.model_fields)


def measure(tables: Mapping[str, pd.DataFrame], job: Job) -> list[Measured]:
    """Every masked arm of every image study, paired with dense by seed."""
    longtail = tables["longtail"]
    rows, table = [], longtail[longtail["split"] == "long_tailed"]
    for (dataset, width, *key), part in table[table["arm"] != "dense"].groupby(["dataset", "width", *KEYS]):
        arm = ImageArm(**dict(zip(KEYS, key, strict=True))).label
        of_study = table[table["dataset"] == dataset]
        dense = of_study[(of_study["width"] == width) & (of_study["arm"] == "dense")]
        if of_study["width"].nunique() > 1:
            arm = f"{arm}, width {width}"
        gains, wider = (differences(part, dense, f"balanced_{metric}") for metric in ("accuracy", "delta_20"))
        for rho in gains.columns:
            rows.append(Measured(ACCURACY, Regime(dataset, f"rho {rho:g}, {arm}"), of_seeds(gains[rho].to_numpy())))
            rows.append(Measured(DELTA, Regime(dataset, f"rho {rho:g}, {arm}"), of_seeds(wider[rho].to_numpy())))
        if len(gains.columns) > 1:
            x = np.log10(gains.columns.to_numpy(dtype=float))
            x = x - x.mean()
            slopes = gains.to_numpy() @ x / (x @ x)
            regime = Regime(dataset, f"rho {gains.columns.min():g} to {gains.columns.max():g}, {arm}")
            rows.append(Measured(WITH_RHO, regime, of_seeds(slopes)))
        else:
            regime = Regime(dataset, f"rho {gains.columns[0]:g} alone, {arm}")
            rows.append(Measured(WITH_RHO, regime, of_seeds(np.array([])), "a slope needs two ratios"))
    return rows


def differences(arm: pd.DataFrame, dense: pd.DataFrame, metric: str) -> pd.DataFrame:
    """Of an arm to dense, a row per seed and a column per rho."""
    wide = [part.pivot(index="seed", columns="rho", values=metric) for part in (arm, dense)]
    return wide[0] - wide[1]
