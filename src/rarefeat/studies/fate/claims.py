"""Measurements for the claims on late learning."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pandas as pd

from rarefeat.claims.measurements import Measurement, measurement
from rarefeat.studies.experiment import select
from rarefeat.studies.fate import AXES, LateLearning, LearningStudy
from rarefeat.studies.fate.growth import TOPS
from rarefeat.studies.fate.learning_times import log_margin_limit, state_from_table
from rarefeat.studies.fate.theorem import cooccurrence, critical_sample

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
"""Two studies and what selects a cell of each: learned in the first minus in the second, by the
last step that both have."""
CARRIED = "batch_32", "batch_512", "features_16", "bias_late"
"""Studies that change one hyper-parameter, each with pairs that come back and fresh ones."""
BESIDE_PLAIN = {"F-signs": "new_signs", "F-tokens": "new_tokens", "F-replacement": "replacement"}
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
Tables = Mapping[str, pd.DataFrame]


def measure(tables: Tables, fate: LateLearning) -> Iterator[Measurement]:
    """Measure every claim in every regime of the tables that there are."""
    points = {name: tables[f"{name}_fate"] for name in fate.studies_with_role("point")}
    for name, table in points.items():
        for cell, group in table.groupby(list(AXES)):
            regime = dict(zip(AXES, cell, strict=True))
            yield from cell_measurements(name, regime, group, fate.studies[name].looked)
    for name in CARRIED:
        if name in points:
            fresh, finite = (group for _, group in points[name].groupby(points[name]["N"] > 0))
            regime = {"lambda": finite["lambda"].iloc[0], "N": int(finite["N"].iloc[0])}
            yield learned_more("F-reuse", name, regime, finite, fresh)
    for claim, (first, second, values, others) in PAIRED.items():
        if first in points and second in points:
            cells = select(points[first], values), select(points[second], others)
            yield learned_more(claim, first, values, *cells, min(cell["T"].min() for cell in cells))
    if {"mechanism", "mechanism_fresh"} <= set(points):
        yield from drawing_measurements(points["mechanism"], points["mechanism_fresh"])
    if "removal" in points:
        yield from removal_measurements(points["removal"])
    grids = {name: points[name] for name in GRIDS if name in points}
    if grids:
        yield from predictor_measurements(grids, fate.studies)
    if "reuse" in points and {8192, 32768} <= set(points["reuse"]["N"]):
        yield from passes_measurements(points["reuse"])
    if "fate_times" in tables:
        yield from time_measurements(tables["fate_times"], fate)


def learned_by_seed(table: pd.DataFrame, step: float = np.inf) -> pd.Series:
    """Return 1 for each seed that has learned the feature by a step, else 0."""
    return (table.set_index("seed")["learned_at"] <= step).astype(float)


def learned_more(
    claim: str, study: str, regime: Mapping[str, Any], cell: pd.DataFrame, other: pd.DataFrame,
    step: float = np.inf,
) -> Measurement:  # fmt: skip
    """Measure having learned by a step in one cell minus in another, by seed."""
    difference = learned_by_seed(cell, step) - learned_by_seed(other, step)
    return measurement(claim, study, regime, difference, diverged=diverged(cell, other))


def diverged(*tables: pd.DataFrame) -> int:
    """Count the replicas that diverged."""
    return int(sum(table["diverged"].sum() for table in tables))


def cell_measurements(
    study: str, regime: dict[str, Any], rows: pd.DataFrame, looked: int
) -> Iterator[Measurement]:
    """Measure the claims that need one cell alone."""
    rows, count = rows.set_index("seed"), diverged(rows)
    late = rows["learned_at"] > looked
    # One quantity for two statements: on a sample that comes back, and on fresh latents.
    for claim, happened in (
        ("F-late" if regime["N"] else "F-leak", late),
        ("F-never", rows["learned_at"].notna()),
        ("F-decided", rows["learned_at"] > DECIDED_BY),
    ):
        yield measurement(claim, study, regime, happened.astype(float), diverged=count)
    yield measurement(
        "F-selective", study, regime, (rows["opened_fresh"] - rows["opened_without"])[late]
    )


def drawing_measurements(table: pd.DataFrame, fresh: pd.DataFrame) -> Iterator[Measurement]:
    """Measure what the ways of drawing change, beside pairs as drawn and beside fresh ones."""
    for N, pairs in table.groupby("N"):
        ways = dict(iter(pairs.groupby("latents")))
        for claim, way in BESIDE_PLAIN.items():
            regime = {"latents": way, "N": N}
            yield learned_more(claim, "mechanism", regime, ways[way], ways["plain"])
        for claim, way in BESIDE_FRESH.items():
            regime = {"latents": way, "N": N, "over": "fresh"}
            yield learned_more(claim, "mechanism", regime, ways[way], fresh)


def removal_measurements(table: pd.DataFrame) -> Iterator[Measurement]:
    """Measure what the top pairs change, beside as many random ones."""
    for N, pairs in table.groupby("N"):
        ways = dict(iter(pairs.groupby("latents")))
        for k in TOPS:
            top, random = ways[f"without_top_{k}"], ways[f"without_random_{k}"]
            regime = {"latents": f"without_top_{k}", "N": N}
            delay, count = doublings_later(top, random), diverged(top, random)
            yield measurement(f"F-top-{k}", "removal", regime, delay, diverged=count)
        yield learned_more("F-top-share", "removal", regime | {"over": "share"}, top, random)


def doublings_later(table: pd.DataFrame, other: pd.DataFrame) -> pd.Series:
    """Return log2 of the ratio of the steps of learning by seed; T for those that never learn."""
    steps, others = (
        cell.set_index("seed")["learned_at"].fillna(cell["T"].iloc[0]) for cell in (table, other)
    )
    return np.log2(steps / others)


def predictor_measurements(
    grids: Tables, studies: Mapping[str, LearningStudy]
) -> Iterator[Measurement]:
    """Measure how often each predictor without a fitted constant is right about late or never."""
    tables = {
        name: table[~(table["learned_at"] <= studies[name].looked)] for name, table in grids.items()
    }
    fresh = pd.concat(table[table["N"] == 0] for table in tables.values())
    leaks = fresh.groupby(list(SETTING))["leak"].median()
    for name, table in tables.items():
        late = table["learned_at"].notna()
        # Where no fresh replica is left, all have learned it at once.
        means = leaks.reindex(pd.MultiIndex.from_frame(table[list(SETTING)])).fillna(np.inf)
        critical = critical_samples(studies[name], table, means.to_numpy())
        tables[name] = table.assign(
            late=late,
            theorem=(table["N"].replace(0, np.inf) <= critical) == late,
            border=(log_margin_limit(state_from_table(table, studies[name])) >= 0) == late,
            neuron=(table["excess"] > 0) == late,
            decay=(table["largest_leak"] > table["lambda"]) == late,
        )
    cells = [(name, "points", table) for name, table in tables.items()]
    for name, over, table in [("reuse", "all points", pd.concat(tables.values())), *cells]:
        often = table.groupby("lambda")["late"].transform("mean") >= 0.5
        best = table["late"] == often
        for claim, right, other in (
            ("F-border", table["border"], best),
            ("F-threshold", table["theorem"], best),
            ("F-neuron", table["neuron"], best),
            ("F-neuron-decay", table["decay"], best),
            ("F-neuron-border", table["neuron"], table["border"]),
        ):
            gain = (right.astype(float) - other.astype(float)).groupby(table["seed"]).mean()
            yield measurement(claim, name, {"over": over}, gain, diverged=diverged(table))


def critical_samples(study: LearningStudy, table: pd.DataFrame, leaks: np.ndarray) -> np.ndarray:
    """Compute the critical sample of each replica; the norm grows as decay takes."""
    margins = table["lambda"].to_numpy() - leaks
    q = cooccurrence(study.data, table["eps_min"].to_numpy())
    return critical_sample(study.training.m, q, study.data.L**2, margins)


def passes_measurements(table: pd.DataFrame) -> Iterator[Measurement]:
    """Measure what more pairs change at equal passes, at each decay."""
    for decay, cells in table.groupby("lambda"):
        large, small = (select(cells, {"N": N}) for N in (32768, 8192))
        passes = int(large["T"].iloc[0]) / 32768
        gain = learned_by_seed(small, passes * 8192) - learned_by_seed(large)
        regime = {"lambda": decay, "over": "passes"}
        yield measurement("F-passes", "reuse", regime, gain, diverged=diverged(small, large))


def log_loss(probability: pd.Series, true: pd.Series) -> pd.Series:
    """Compute minus the log of the probability of what happened (nat)."""
    p = probability.clip(MIN_PROBABILITY, 1 - MIN_PROBABILITY)
    return -np.log(np.where(true, p, 1 - p))


def time_measurements(table: pd.DataFrame, section: LateLearning) -> Iterator[Measurement]:
    """Measure how well the linear model predicts late learning and its time.

    Values are means of the drawn regimes over their replicas that did not learn at once.
    """
    table = table[table["at_once"] == 0]
    is_fitted = table["study"].isin(section.studies_with_role("fit"))
    constant = np.log2(table.loc[is_fitted, "learned_at"]).mean()
    learned, log_time = table["learned_at"].notna(), np.log2(table["learned_at"])
    table = table.assign(
        loss=log_loss(table["probability"], learned) - log_loss(table["gate_alone"], learned),
        error=np.abs(np.log2(table["predicted"] / table["learned_at"])),
        plain=np.abs(constant - log_time),
    )
    for name, group in table.groupby("study"):
        regimes = group.groupby(list(AXES))[["loss", "error", "plain"]].mean()
        gain = (regimes["error"] - regimes["plain"]).dropna()
        over = {"over": "drawn regimes"}
        yield measurement("T-fate", name, over, regimes["loss"].to_numpy())
        yield measurement("T-time", name, over, gain.to_numpy())
