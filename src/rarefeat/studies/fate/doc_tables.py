"""What docs/studies/fate.md is filled in from."""

import numpy as np
import pandas as pd

from rarefeat.studies.fate.claims import log_loss
from rarefeat.studies.fate.config import AXES
from rarefeat.studies.fate.learning_times import clopper_pearson

LOOKS = 500, 2000, 8000, 32_000
"""Steps at which those are counted who have learned it, in points that go on for longer than others."""


def law(table: pd.DataFrame) -> pd.DataFrame:
    """Of the regimes of the fit and of the test: how the law and a regression on the regime tell who learns late, and when."""
    rows = []
    for study, part in table[table["at_once"] == 0].groupby("study"):
        learned = part["learned_at"].notna()
        ratio = np.abs(np.log2(part["predicted"] / part["learned_at"]))
        rows.append(
            {"study": study, "regimes": len(part[list(AXES)].drop_duplicates()), "replicas": len(part),
             "late": int(learned.sum()),
             "expected": part["probability"].sum(), "log_loss": log_loss(part["probability"], learned).mean(),
             "log_loss_of_regime": log_loss(part["gate_alone"], learned).mean(), "doublings_off": ratio.median(),
             "never_predicted": int((part["predicted"].isna() & learned).sum())}
        )  # fmt: skip
    return pd.DataFrame(rows)


def late(table: pd.DataFrame) -> pd.DataFrame:
    """Of fit and test: the constants of the step's law with T, its log-loss, and those of what it is held against."""
    rows = []
    for role, part in table.groupby("role"):
        counts = {
            "regimes": len(part[list(AXES)].drop_duplicates()),
            "replicas": len(part),
            "learned": int(part["learned"].sum()),
        }
        told = ("by_law", "without_T", "by_regime")
        losses = {f"log_loss_{name}": log_loss(part[name], part["learned"]).mean() for name in told}
        kept = part.iloc[0][["centre", "steepness", "drop", "by_decay", "by_pairs", "rate"]]
        rows.append({"role": role, **counts, **losses, **kept})
    return pd.DataFrame(rows)


def stairs(shares: pd.DataFrame) -> pd.DataFrame:
    """Of each point the steps from 100 on at which a replica more has learned, with the one before, the first and the last."""
    shares = shares[shares["step"] >= 100]
    points = shares.groupby(["study", *AXES])["learned"]
    rises, falls = points.diff().fillna(1) > 0, points.diff(-1).fillna(1) < 0
    return shares[rises | falls | (points.cumcount(ascending=False) == 0)]


def longer(table: pd.DataFrame) -> pd.DataFrame:
    """Of each point how many have learned by LOOKS, the exact interval of the last share, and how near the others came."""
    rows = []
    for cell, part in table.groupby(list(AXES)):
        learned = {f"by_{step}": int((part["learned_at"] <= step).sum()) for step in LOOKS}
        low, high = clopper_pearson(learned[f"by_{LOOKS[-1]}"], len(part))
        without = part.loc[part["learned_at"].isna(), "cosine"].median()
        rows.append(
            {
                **dict(zip(AXES, cell, strict=True)),
                "n": len(part),
                **learned,
                "ci_low": low,
                "ci_high": high,
                "cosine_without": without,
            }
        )
    return pd.DataFrame(rows)


TABLES = {
    "fate_shares": (("fate_shares",), stairs),
    "fate_points": (("fate_points",), pd.DataFrame.copy),
    "fate_late": (("fate_late",), late),
    "fate_step": (("fate_step",), pd.DataFrame.copy),
    "fate_law": (("fate_times",), law),
    "fate_longer": (("long_fate",), longer),
}
