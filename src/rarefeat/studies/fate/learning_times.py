"""Tables of outcomes of late learning, and quantities of its theorem.

Below its gate beta the cosine of neuron i obeys x' = eta ((A_i - g) x + k_i). A push k_i beyond the
threshold carries it through the gate, on either side; in a sample of N pairs k_i has the variance
v / N, so that reuse lets the feature in below a critical N (docs/method/fate.md, with its proof).
"""

import math
from collections.abc import Iterator, Mapping
from statistics import NormalDist

import numpy as np
import pandas as pd

from rarefeat.model.recorded_steps import log_spaced
from rarefeat.statistics import exact_bounds
from rarefeat.studies.fate import AGAIN, AXES, GROWTH, OPENED, PUSH, LearningStudy
from rarefeat.studies.fate.growth import gate

Tables = Mapping[str, pd.DataFrame]
SETTING = ["sigma", "share", "lambda", "eps_min"]
"""Axes of a point but for its training pairs."""
Numbers = np.ndarray | float


def fate_points(tables: Tables, courses: dict[str, LearningStudy]) -> pd.DataFrame:
    """Return learning outcomes, growth terms and gate openings of every point."""
    rows, medians = [], [*GROWTH, *AGAIN, "cosine_looked", "cosine", "others", "count"]
    for name, study in courses.items():
        table = tables[f"{name}_fate"]
        for point, group in points_of(table):
            times = group["learned_at"]
            late = times > study.looked
            rows.append(
                {
                    "study": name,
                    **point,
                    "n": len(group),
                    "T": study.training.T,
                    "at_once": int((times <= study.looked).sum()),
                    "late": int(late.sum()),
                    "pure": int(group["pure_at"].notna().sum()),
                    **group[medians].median(),
                    **group[list(PUSH)].iloc[0],
                    "neurons": study.training.m,
                    "features": study.data.d - 1,
                    "step_quarter": learning_quantile(times, 0.25),
                    "step_half": learning_quantile(times, 0.5),
                    **group.loc[late, list(OPENED)].mean(),
                }
            )
    points = sort(pd.DataFrame(rows))
    return points.assign(**push_thresholds(points, courses))


def push_thresholds(
    points: pd.DataFrame, courses: dict[str, LearningStudy]
) -> dict[str, pd.Series]:
    """Compute the push and the number of pairs for which the theorem says that half learn.

    g is the weight decay, and A the median leak of fresh pairs in the same setting, T aside.
    """
    alike = {n: repr((s.data, s.training.model_copy(update={"T": 0}))) for n, s in courses.items()}
    points = points.assign(alike=points["study"].map(alike))
    setting = ["alike", *SETTING]
    fresh = points[(points["N"] == 0) & (points["push"] == "") & (points["latents"] == "plain")]
    leaks = fresh.groupby(setting)["leak"].median()
    leak = leaks.reindex(pd.MultiIndex.from_frame(points[setting])).to_numpy()
    of_one = points["study"].map({name: gate(s.data.d, 1.0) for name, s in courses.items()})
    limits = threshold(leak - points["lambda"], of_one * points["share"])
    variances = (points["N"] * points["kick_size"] ** 2).replace(0, np.nan)
    largest = points["neurons"].map(largest_normal)
    return {
        "threshold": limits / largest,
        "critical_N": critical_sample(variances, limits, largest),
    }


def fate_shares(tables: Tables) -> pd.DataFrame:
    """Return the fraction of learned replicas at log-spaced steps, with its exact interval."""
    rows = []
    for name, table in tables.items():
        for point, group in points_of(table):
            for step in log_spaced(int(group["T"].iloc[0]))[1:]:
                counts = learned_counts(group["learned_at"] <= step)
                rows.append(
                    {
                        "study": name.removesuffix("_fate"),
                        **point,
                        "step": step,
                        **counts,
                        "pure": int((group["pure_at"] <= step).sum()),
                        "learned_share": counts["learned"] / counts["n"],
                    }
                )
    return sort(pd.DataFrame(rows), "step")


def points_of(table: pd.DataFrame) -> Iterator[tuple[dict, pd.DataFrame]]:
    """Yield the axes and the replicas of every point."""
    for cell, group in table.groupby(list(AXES)):
        yield dict(zip(AXES, cell, strict=True)), group


def sort(table: pd.DataFrame, *last: str) -> pd.DataFrame:
    """Return the rows sorted by study and point."""
    return table.sort_values(["study", *AXES, *last], ignore_index=True)


def learning_quantile(learned_at: pd.Series, share: float) -> float:
    """Return the step by which a share of the replicas has learned; NaN where it never does."""
    return learned_at.sort_values().iloc[math.ceil(share * len(learned_at)) - 1]


def learned_counts(learned: pd.Series) -> dict[str, float]:
    """Count replicas that have learned, with the exact interval of their share."""
    ones, n = int(learned.sum()), len(learned)
    low, high = exact_bounds(ones, n, 0.025)
    return {"learned": ones, "n": n, "ci_low": low, "ci_high": high}


def threshold(rate: Numbers, gate: Numbers) -> Numbers:
    """Compute the push beyond which |x| reaches the gate beta: -beta rate, and 0 if rate > 0."""
    return gate * np.maximum(-rate, 0)


def share_learned(size: Numbers, limit: Numbers, m: int) -> Numbers:
    """Compute the probability that the largest of m |k_i|, normal of a size, exceeds a limit."""
    inside = np.vectorize(lambda t: 2 * NormalDist().cdf(t) - 1)
    with np.errstate(divide="ignore"):
        return 1 - inside(np.divide(limit, size)) ** m


def largest_normal(m: int) -> float:
    """Compute the median of the largest of m absolute values of standard normal numbers."""
    return NormalDist().inv_cdf((1 + 0.5 ** (1 / m)) / 2)


def critical_sample(variance: Numbers, limit: Numbers, largest: Numbers) -> Numbers:
    """Compute the N below which, of runs with N pairs, more than half have such a push.

    `variance` is N times that of a neuron's push by N pairs, `largest` that of `largest_normal`.
    """
    with np.errstate(divide="ignore"):
        return variance * np.divide(largest, limit) ** 2


def learned_by_seed(table: pd.DataFrame, step: float = np.inf) -> pd.Series:
    """Return 1 for each seed that has learned the feature by a step, else 0."""
    return (table.set_index("seed")["learned_at"] <= step).astype(float)


def doublings_later(table: pd.DataFrame, other: pd.DataFrame) -> pd.Series:
    """Return log2 of the ratio of the steps of learning by seed; T for those that never learn."""
    steps, others = (
        cell.set_index("seed")["learned_at"].fillna(cell["T"].iloc[0]) for cell in (table, other)
    )
    return np.log2(steps / others)
