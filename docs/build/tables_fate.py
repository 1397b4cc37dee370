"""Published tables of late learning, from which docs/studies/fate.md is filled in."""

import pandas as pd

from rarefeat.claims.estimate import estimate_mean
from rarefeat.claims.verdict import PAIRED, confidence_bounds
from rarefeat.statistics import exact_bounds
from rarefeat.studies.fate import AXES, GROWTH
from rarefeat.studies.fate.learning_times import (
    doublings_later,
    learned_by_seed,
    learned_counts,
    points_of,
)

COUNTED_STEPS = 500, 2000, 8000, 32_000
"""Steps by which learned replicas are counted, at points that are trained for longer."""


def compare_draws(*tables: pd.DataFrame) -> pd.DataFrame:
    """Compare ways of drawing, and removals of pairs, by who learns and when.

    Paired differences are from pairs as drawn (`reuse`), from fresh ones (`fresh`), and of a
    removal from as many random pairs (`random`), with that of log2 of the step of learning
    (`delay`).
    """
    cells, rows = dict(iter(pd.concat(tables).groupby(["latents", "N"]))), []
    for (latents, N), cell in cells.items():
        row = {
            "latents": latents,
            "N": N,
            "n": len(cell),
            "T": int(cell["T"].iloc[0]),
            "by_500": int((cell["learned_at"] <= 500).sum()),
            **learned_counts(cell["learned_at"].notna()),
            "pure": int(cell["pure_at"].notna().sum()),
            **cell[[*GROWTH, "count"]].median(),
            "winner_first": int((cell["winner_rank"] == 1).sum()),
        }
        others = {"reuse": ("plain", N), "fresh": ("plain", 0)}
        if latents.startswith("without_top"):
            others["random"] = latents.replace("top", "other"), N
        for name, key in others.items():
            if key in cells and key != (latents, N):
                gain = learned_by_seed(cell) - learned_by_seed(cells[key])
                row |= interval(name, gain, PAIRED)
        if others.get("random") in cells:
            row |= interval("delay", doublings_later(cell, cells[others["random"]]), "number")
        rows.append(row)
    return pd.DataFrame(rows)


def interval(name: str, difference: pd.Series, kind: str) -> dict[str, float]:
    """Return the mean of differences by seed and its 95 % interval, as columns."""
    estimate = estimate_mean(difference.dropna())
    low, high = confidence_bounds(estimate, 0.025, kind)
    return {name: estimate.value, f"{name}_ci_low": low, f"{name}_ci_high": high}


def select_stairs(shares: pd.DataFrame) -> pd.DataFrame:
    """Select from step 100 on those around a change of counts, the first and the last step."""
    shares = shares[shares["step"] >= 100]
    points = shares.groupby(["study", *AXES])[["learned", "pure"]]
    rises = (points.diff().fillna(1) > 0).any(axis=1)
    falls = (points.diff(-1).fillna(1) < 0).any(axis=1)
    return shares[rises | falls | (points.cumcount(ascending=False) == 0)]


def count_longer(table: pd.DataFrame) -> pd.DataFrame:
    """Count who has learned by COUNTED_STEPS at each point, with the others' median cosine."""
    rows = []
    for point, group in points_of(table):
        times = group["learned_at"]
        counts = {f"by_{step}": int((times <= step).sum()) for step in COUNTED_STEPS}
        low, high = exact_bounds(counts[f"by_{COUNTED_STEPS[-1]}"], len(group), 0.025)
        without = group.loc[times.isna(), "cosine"].median()
        counts |= {"ci_low": low, "ci_high": high, "cosine_without": without}
        rows.append({**point, "n": len(group), **counts})
    return pd.DataFrame(rows)


TABLES = {
    "fate_mechanism": (("mechanism_fate", "mechanism_fresh_fate"), compare_draws),
    "fate_removal": (("reused_fate", "removal_fate"), compare_draws),
    "fate_shares": (("fate_shares",), select_stairs),
    "fate_points": (("fate_points",), pd.DataFrame.copy),
    "fate_longer": (("long_fate",), count_longer),
}
