"""Published tables of late learning, from which docs/studies/fate.md is filled in."""

import numpy as np
import pandas as pd

from rarefeat.studies.fate.claims import log_loss
from rarefeat.studies.fate.config import AXES
from rarefeat.studies.fate.learning_times import clopper_pearson

COUNTED_STEPS = 500, 2000, 8000, 32_000
"""Steps by which learned replicas are counted, at points that are trained for longer."""


def summarise_times(table: pd.DataFrame) -> pd.DataFrame:
    """Summarise how well the linear model and a regression predict late learning and its time.

    A row for each study, the one of the fit and the one of the test, from `fate_times`; replicas
    that learned at once are left out.
    """
    rows = []
    for study, group in table[table["at_once"] == 0].groupby("study"):
        learned = group["learned_at"].notna()
        ratio = np.abs(np.log2(group["predicted"] / group["learned_at"]))
        rows.append(
            {
                "study": study,
                "regimes": len(group[list(AXES)].drop_duplicates()),
                "replicas": len(group),
                "late": int(learned.sum()),
                "expected": group["probability"].sum(),
                "log_loss": log_loss(group["probability"], learned).mean(),
                "log_loss_of_regime": log_loss(group["gate_alone"], learned).mean(),
                "doublings_off": ratio.median(),
                "never_predicted": int((group["predicted"].isna() & learned).sum()),
            }
        )
    return pd.DataFrame(rows)


def summarise_late(table: pd.DataFrame) -> pd.DataFrame:
    """Summarise the critical-frequency model with T: its constants and log-losses, by role.

    The log-losses of the model at step 500 and of a regression are given for comparison.
    """
    rows = []
    for role, group in table.groupby("role"):
        counts = {
            "regimes": len(group[list(AXES)].drop_duplicates()),
            "replicas": len(group),
            "learned": int(group["learned"].sum()),
        }
        losses = {
            f"log_loss_{name}": log_loss(group[name], group["learned"]).mean()
            for name in ("by_law", "without_T", "by_regime")
        }
        constants = group.iloc[0][["centre", "steepness", "drop", "by_decay", "by_pairs", "rate"]]
        rows.append({"role": role, **counts, **losses, **constants})
    return pd.DataFrame(rows)


def select_stairs(shares: pd.DataFrame) -> pd.DataFrame:
    """Select the steps from 100 on that draw the stairs of each point.

    They are the steps at which another replica has learned, each with the step before it, the
    first step and the last.
    """
    shares = shares[shares["step"] >= 100]
    points = shares.groupby(["study", *AXES])["learned"]
    rises, falls = points.diff().fillna(1) > 0, points.diff(-1).fillna(1) < 0
    return shares[rises | falls | (points.cumcount(ascending=False) == 0)]


def count_longer(table: pd.DataFrame) -> pd.DataFrame:
    """Count the replicas that have learned by COUNTED_STEPS, at each point.

    With the exact interval of the last fraction, and the median cosine of the replicas that have
    not learned.
    """
    rows = []
    for cell, group in table.groupby(list(AXES)):
        learned = {f"by_{step}": int((group["learned_at"] <= step).sum()) for step in COUNTED_STEPS}
        low, high = clopper_pearson(learned[f"by_{COUNTED_STEPS[-1]}"], len(group))
        without = group.loc[group["learned_at"].isna(), "cosine"].median()
        rows.append(
            {
                **dict(zip(AXES, cell, strict=True)),
                "n": len(group),
                **learned,
                "ci_low": low,
                "ci_high": high,
                "cosine_without": without,
            }
        )
    return pd.DataFrame(rows)


TABLES = {
    "fate_shares": (("fate_shares",), select_stairs),
    "fate_points": (("fate_points",), pd.DataFrame.copy),
    "fate_late": (("fate_late",), summarise_late),
    "fate_step": (("fate_step",), pd.DataFrame.copy),
    "fate_law": (("fate_times",), summarise_times),
    "fate_longer": (("long_fate",), count_longer),
}
