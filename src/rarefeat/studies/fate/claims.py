"""Measurements for the claims on late learning."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pandas as pd

from rarefeat.claims.measurements import Measurement, measurement
from rarefeat.run.job import Job
from rarefeat.studies.fate.config import AXES, LateLearning, LearningStudy
from rarefeat.studies.fate.learning_times import log_margin_limit, state_from_table

MIN_PROBABILITY = 0.005
"""Probabilities are clipped to this distance from 0 and 1: one replica of 200."""
DECIDED_BY = 1000
"""Step after which a replica counts for F-decided."""
PAIRED = {
    "F-reuse": ("reuse", "reuse", {"lambda": 0.02, "N": 8192}, {"lambda": 0.02, "N": 0}),
    "F-antithetic": ("untied", "reuse", {"latents": "antithetic"}, {"lambda": 0.02, "N": 8192}),
    "F-apart": ("untied", "reuse", {"latents": "apart"}, {"lambda": 0.02, "N": 8192}),
    "F-noiseless": ("noiseless", "reuse", {"N": 8192}, {"lambda": 0.02, "N": 8192}),
    "F-leak-noise": ("leak_noiseless", "leak", {"N": 0}, {"lambda": 0.02, "eps_min": 0.3, "N": 0}),
}
"""Two studies and the values that select a cell of each, by claim.

The quantity is having learned in the first minus in the second, by seed, up to the last step that
both have.
"""
OVER_REGIMES = {"over": "drawn regimes"}


def measure(tables: Mapping[str, pd.DataFrame], job: Job) -> list[Measurement]:
    """Measure every claim in every regime of the tables.

    Inputs: `STUDY_fate` of the studies with the role `point`, `fate_times`, `fate_late`. Config:
    `fate`.
    """
    section = job.config_section("fate", LateLearning)
    points = {name: tables[f"{name}_fate"] for name in section.studies_with_role("point")}
    rows: list[Measurement] = []
    for name, table in points.items():
        looked = section.studies[name].looked
        for cell, group in table.groupby(list(AXES)):
            regime = dict(zip(AXES, cell, strict=True))
            rows += cell_measurements(name, regime, group.set_index("seed"), looked)
    for claim, (first, second, *values) in PAIRED.items():
        if first in points and second in points:
            cells = [
                select_rows(points[name], chosen)
                for name, chosen in zip((first, second), values, strict=True)
            ]
            T = min(cell["T"].min() for cell in cells)
            learned = [learned_by_seed(cell, T) for cell in cells]
            difference = learned[0] - learned[1]
            rows.append(measurement(claim, first, values[0], difference, **diverged(*cells)))
    for name in [name for name in ("reuse", "rarest") if name in points]:
        rows += border_measurements(name, points[name], section.studies[name])
    if "reuse" in points:
        for decay, table in points["reuse"].groupby("lambda"):
            rows += sample_size_measurements(table, {"lambda": decay})
    if "fate_times" in tables:
        rows += time_measurements(tables["fate_times"], section)
        rows += critical_frequency_measurements(tables["fate_late"])
    return rows


def select_rows(table: pd.DataFrame, values: Mapping[str, Any]) -> pd.DataFrame:
    """Select the rows that have some values in some columns."""
    return table[np.logical_and.reduce([table[name] == value for name, value in values.items()])]


def learned_by_seed(table: pd.DataFrame, step: float = np.inf) -> pd.Series:
    """Return 1 for each seed that has learned the feature by a step, else 0."""
    return (table.set_index("seed")["learned_at"] <= step).astype(float)


def diverged(*tables: pd.DataFrame) -> dict[str, int]:
    """Count the replicas that diverged, as a keyword argument of `measurement`."""
    return {"diverged": int(sum(table["diverged"].sum() for table in tables))}


def cell_measurements(
    study: str, regime: dict[str, Any], rows: pd.DataFrame, looked: int
) -> Iterator[Measurement]:
    """Measure the claims that need one cell alone.

    Parameters
    ----------
    study : str
        Name of the study.
    regime : dict
        Values on the axes.
    rows : DataFrame
        Replicas of the cell, with the seed as index.
    looked : int
        Step after which a replica learns late.
    """
    late = rows["learned_at"] > looked
    learned = rows["learned_at"].notna()
    decided_late = rows["learned_at"] > DECIDED_BY
    count = diverged(rows)
    # One quantity for two statements: on a sample that comes back, and on fresh latents.
    claim = "F-late" if regime["N"] else "F-leak"
    yield measurement(claim, study, regime, late.astype(float), **count)
    yield measurement("F-never", study, regime, learned.astype(float), **count)
    yield measurement("F-decided", study, regime, decided_late.astype(float), **count)
    if regime["N"]:
        difference = (rows["opened_trained"] - rows["opened_fresh"])[late]
        yield measurement("F-feature", study, regime, difference)
    difference = (rows["opened_fresh"] - rows["opened_without"])[late]
    yield measurement("F-selective", study, regime, difference)


def border_measurements(
    name: str, table: pd.DataFrame, study: LearningStudy
) -> Iterator[Measurement]:
    """Measure how often the border predicts the learning outcome, over the points of a study.

    Parameters
    ----------
    name : str
        Name of the study.
    table : DataFrame
        Its replicas; those that learned at once are left out.
    study : LearningStudy
        The study.

    Yields
    ------
    Measurement
        Fraction of points predicted rightly, minus that of the better constant answer, by seed.
    """
    undecided = table[~(table["learned_at"] <= study.looked)]
    late = undecided["learned_at"].notna().to_numpy()
    right = (log_margin_limit(state_from_table(undecided, study)) >= 0) == late
    constant = late if late.mean() >= 0.5 else ~late
    gain = pd.Series(right.astype(float) - constant, undecided["seed"]).groupby(level=0).mean()
    yield measurement("F-border", name, {"over": "points"}, gain, **diverged(table))


def sample_size_measurements(
    table: pd.DataFrame, regime: Mapping[str, Any]
) -> Iterator[Measurement]:
    """Measure the claims over numbers of training pairs, at one decay."""
    finite = table[table["N"] > 0]
    kicks = np.log(finite.pivot(index="seed", columns="N", values="kick").dropna())
    if kicks.shape[1] > 1:
        log_N = np.log(kicks.columns.to_numpy(dtype=float))
        slopes = (
            (kicks.to_numpy() - kicks.to_numpy().mean(1, keepdims=True))
            @ (log_N - log_N.mean())
            / ((log_N - log_N.mean()) ** 2).sum()
        )
        values = pd.Series(slopes, kicks.index)
        yield measurement("F-kick", "reuse", {**regime, "over": "N"}, values)
    if {8192, 32768} <= set(finite["N"]):
        large, small = (select_rows(finite, {"N": N}) for N in (32768, 8192))
        passes = int(large["T"].iloc[0]) / 32768
        gain = learned_by_seed(small, passes * 8192) - learned_by_seed(large)
        regime = {**regime, "over": "passes"}
        yield measurement("F-passes", "reuse", regime, gain, **diverged(small, large))


def log_loss(probability: pd.Series, true: pd.Series) -> pd.Series:
    """Compute minus the log of the probability of what happened (nat)."""
    p = probability.clip(MIN_PROBABILITY, 1 - MIN_PROBABILITY)
    return -np.log(np.where(true, p, 1 - p))


def time_measurements(table: pd.DataFrame, section: LateLearning) -> Iterator[Measurement]:
    """Measure how well the linear model predicts late learning and its time.

    Values are means of the drawn regimes over their replicas that did not learn at once.
    """
    is_fitted = table["study"].isin(section.studies_with_role("fit")) & (table["at_once"] == 0)
    constant = np.log2(table.loc[is_fitted, "learned_at"]).mean()
    for name, group in table[table["at_once"] == 0].groupby("study"):
        learned = group["learned_at"].notna()
        by_model, by_regime = (
            log_loss(group[column], learned) for column in ("probability", "gate_alone")
        )
        group = group.assign(
            excess=by_model - by_regime,
            error=np.abs(np.log2(group["predicted"] / group["learned_at"])),
            plain=np.abs(constant - np.log2(group["learned_at"])),
        )
        regimes = group.groupby(list(AXES))[["excess", "error", "plain"]].mean()
        yield measurement("T-fate", name, OVER_REGIMES, regimes["excess"].to_numpy())
        gain = (regimes["error"] - regimes["plain"]).dropna()
        yield measurement("T-time", name, OVER_REGIMES, gain.to_numpy())


def critical_frequency_measurements(table: pd.DataFrame) -> Iterator[Measurement]:
    """Measure how well the critical-frequency model with T predicts who has learned.

    Values are means of the drawn regimes over their replicas.
    """
    for role, group in table.groupby("role"):
        loss, by_regime, without_T = (
            log_loss(group[name], group["learned"]) for name in ("by_law", "by_regime", "without_T")
        )
        means = (
            group.assign(regime=loss - by_regime, without=loss - without_T)
            .groupby(list(AXES))[["regime", "without"]]
            .mean()
        )
        study = f"time_{role}"
        yield measurement("T-step", study, OVER_REGIMES, means["regime"].to_numpy())
        yield measurement("T-without", study, OVER_REGIMES, means["without"].to_numpy())
