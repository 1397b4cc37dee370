"""Measurements for the claims on late learning."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pandas as pd

from rarefeat.claims.measurements import Measurement, measurement
from rarefeat.studies.fate.config import AXES, LateLearning, LearningStudy
from rarefeat.studies.fate.growth import TOPS
from rarefeat.studies.fate.learning_times import log_margin_limit, state_from_table
from rarefeat.studies.fate.theorem import cooccurrence, critical_sample
from rarefeat.workflow.run.job import Job

MIN_PROBABILITY = 0.005
"""Probabilities are clipped to this distance from 0 and 1: one replica of 200."""
DECIDED_BY = 1000
"""Step after which a replica counts for F-decided."""
PAIRED = {
    "F-reuse": ("reuse", "reuse", {"lambda": 0.02, "N": 8192}, {"lambda": 0.02, "N": 0}),
    "F-apart": ("untied", "reuse", {"latents": "apart"}, {"lambda": 0.02, "N": 8192}),
    "F-noiseless": ("noiseless", "reuse", {"N": 8192}, {"lambda": 0.02, "N": 8192}),
    "F-leak-noise": ("leak_noiseless", "leak", {"N": 0}, {"lambda": 0.02, "eps_min": 0.3, "N": 0}),
}
"""Two studies and the values that select a cell of each, by claim.

The quantity is having learned in the first minus in the second, by seed, up to the last step that
both have.
"""
CARRIED = "batch_32", "batch_512", "features_16", "bias_late"
"""Studies that change one hyper-parameter, each with pairs that come back and fresh ones."""
BESIDE_PLAIN = {
    "F-signs": "new_signs",
    "F-tokens": "new_tokens",
    "F-replacement": "replacement",
}
"""Ways of drawing that are compared with pairs as drawn, by claim."""
BESIDE_FRESH = {
    "F-signs-fresh": "new_signs",
    "F-tokens-fresh": "new_tokens",
    "F-ties": "planted_ties",
}
"""Ways of drawing that are compared with fresh pairs, by claim."""
GRIDS = "reuse", "rarest", "leak", "shares"
"""Grids of points that share their seeds, on which predictors are compared."""
SETTING = "sigma", "share", "lambda", "eps_min"
"""Axes of a point but for its training pairs."""
OVER_REGIMES = {"over": "drawn regimes"}


def measure(tables: Mapping[str, pd.DataFrame], job: Job) -> list[Measurement]:
    """Measure every claim in every regime of the tables.

    Inputs: `STUDY_fate` of the studies with the role `point`, `fate_times`. Config:
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
    for name in CARRIED:
        if name in points:
            finite, fresh = (
                points[name][(points[name]["N"] > 0) == back] for back in (True, False)
            )
            difference = learned_by_seed(finite) - learned_by_seed(fresh)
            regime = {"lambda": finite["lambda"].iloc[0], "N": int(finite["N"].iloc[0])}
            rows.append(measurement("F-reuse", name, regime, difference, **diverged(finite, fresh)))
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
    if {"mechanism", "mechanism_fresh"} <= set(points):
        rows += drawing_measurements(points["mechanism"], points["mechanism_fresh"])
    if "removal" in points:
        rows += removal_measurements(points["removal"])
    grids = {name: points[name] for name in GRIDS if name in points}
    rows += predictor_measurements(grids, section.studies)
    if "reuse" in points:
        for decay, table in points["reuse"].groupby("lambda"):
            rows += passes_measurements(table, {"lambda": decay})
    if "fate_times" in tables:
        rows += time_measurements(tables["fate_times"], section)
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
    """Measure the claims that need one cell alone."""
    late = rows["learned_at"] > looked
    learned = rows["learned_at"].notna()
    decided_late = rows["learned_at"] > DECIDED_BY
    count = diverged(rows)
    # One quantity for two statements: on a sample that comes back, and on fresh latents.
    claim = "F-late" if regime["N"] else "F-leak"
    yield measurement(claim, study, regime, late.astype(float), **count)
    yield measurement("F-never", study, regime, learned.astype(float), **count)
    yield measurement("F-decided", study, regime, decided_late.astype(float), **count)
    difference = (rows["opened_fresh"] - rows["opened_without"])[late]
    yield measurement("F-selective", study, regime, difference)


def drawing_measurements(table: pd.DataFrame, fresh: pd.DataFrame) -> Iterator[Measurement]:
    """Measure what the ways of drawing change, beside pairs as drawn and beside fresh ones."""
    for N, pairs in table.groupby("N"):
        by_way = dict(iter(pairs.groupby("latents")))
        for claims, other, over in (
            (BESIDE_PLAIN, by_way["plain"], {}),
            (BESIDE_FRESH, fresh, {"over": "fresh"}),
        ):
            for claim, latents in claims.items():
                difference = learned_by_seed(by_way[latents]) - learned_by_seed(other)
                regime = {"latents": latents, "N": N, **over}
                count = diverged(by_way[latents], other)
                yield measurement(claim, "mechanism", regime, difference, **count)


def removal_measurements(table: pd.DataFrame) -> Iterator[Measurement]:
    """Measure what the top pairs change, beside as many random ones."""
    for N, pairs in table.groupby("N"):
        by_way = dict(iter(pairs.groupby("latents")))
        for k in TOPS:
            both = by_way[f"without_top_{k}"], by_way[f"without_random_{k}"]
            times = [censored_steps(cell) for cell in both]
            regime, count = {"latents": f"without_top_{k}", "N": N}, diverged(*both)
            delay = np.log2(times[0] / times[1])
            yield measurement(f"F-top-{k}", "removal", regime, delay, **count)
            if k == max(TOPS):
                share = learned_by_seed(both[0]) - learned_by_seed(both[1])
                regime = {**regime, "over": "share"}
                yield measurement("F-top-share", "removal", regime, share, **count)


def censored_steps(table: pd.DataFrame) -> pd.Series:
    """Return the step of learning by seed; T for those that never learn."""
    return table.set_index("seed")["learned_at"].fillna(table["T"].iloc[0])


def predictor_measurements(
    grids: Mapping[str, pd.DataFrame], studies: Mapping[str, LearningStudy]
) -> Iterator[Measurement]:
    """Measure how often each predictor without a fitted constant is right about late or never."""
    tables, fresh_leaks = {}, mean_leaks(grids, studies)
    for name, table in grids.items():
        table = table[~(table["learned_at"] <= studies[name].looked)]
        late = table["learned_at"].notna()
        border = log_margin_limit(state_from_table(table, studies[name])) >= 0
        # Where no fresh replica is left, all have learned it at once.
        means = fresh_leaks.reindex(pd.MultiIndex.from_frame(table[list(SETTING)]))
        critical = critical_samples(studies[name], table, means.fillna(np.inf).to_numpy())
        tables[name] = table.assign(
            late=late,
            theorem=(table["N"].replace(0, np.inf) <= critical) == late,
            border=border == late,
            neuron=(table["excess"] > 0) == late,
            decay=(table["largest_leak"] > table["lambda"]) == late,
        )
    if not tables:
        return
    everything = pd.concat(tables.values())
    for name, table in [("reuse", everything), *tables.items()]:
        often = table.groupby("lambda")["late"].transform("mean") >= 0.5
        best = (table["late"] == often).astype(float)
        over = {"over": "all points" if table is everything else "points"}
        for claim, right, other in (
            ("F-border", table["border"], best),
            ("F-threshold", table["theorem"], best),
            ("F-neuron", table["neuron"], best),
            ("F-neuron-decay", table["decay"], best),
            ("F-neuron-border", table["neuron"], table["border"].astype(float)),
        ):
            gain = (right.astype(float) - other).groupby(table["seed"]).mean()
            yield measurement(claim, name, over, gain, **diverged(table))


def mean_leaks(
    grids: Mapping[str, pd.DataFrame], studies: Mapping[str, LearningStudy]
) -> pd.Series:
    """Return the median leak of fresh pairs by SETTING, of replicas not learned at once."""
    fresh = [
        table[(table["N"] == 0) & ~(table["learned_at"] <= studies[name].looked)]
        for name, table in grids.items()
    ]
    return (
        (pd.concat(fresh) if fresh else pd.DataFrame(columns=[*SETTING, "leak"]))
        .groupby(list(SETTING))["leak"]
        .median()
    )


def critical_samples(study: LearningStudy, table: pd.DataFrame, leaks: np.ndarray) -> np.ndarray:
    """Compute the critical sample of each replica; the norm grows as decay takes.

    leaks (n,).
    """
    margins = table["lambda"].to_numpy() - leaks
    q = cooccurrence(study.data, table["eps_min"].to_numpy())
    return critical_sample(study.training.m, q, study.data.L**2, margins)


def passes_measurements(table: pd.DataFrame, regime: Mapping[str, Any]) -> Iterator[Measurement]:
    """Measure what more pairs change at equal passes, at one decay."""
    if {8192, 32768} <= set(table["N"]):
        large, small = (select_rows(table, {"N": N}) for N in (32768, 8192))
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
