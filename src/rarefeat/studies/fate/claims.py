"""What is measured for the claims on late learning."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pandas as pd

from rarefeat.claims.measurements import Measurement, measurement
from rarefeat.run.job import Job
from rarefeat.studies.fate.config import AXES, LateLearning, LearningStudy
from rarefeat.studies.fate.learning_times import log_margin_limit, state_from_table

BOUNDED = 0.005
"""No probability is taken to be nearer to 0 or 1: one replica of 200."""
DECIDED_BY = 1000
PAIRED = {
    "F-reuse": ("reuse", "reuse", {"lambda": 0.02, "N": 8192}, {"lambda": 0.02, "N": 0}),
    "F-antithetic": ("untied", "reuse", {"latents": "antithetic"}, {"lambda": 0.02, "N": 8192}),
    "F-apart": ("untied", "reuse", {"latents": "apart"}, {"lambda": 0.02, "N": 8192}),
    "F-noiseless": ("noiseless", "reuse", {"N": 8192}, {"lambda": 0.02, "N": 8192}),
    "F-leak-noise": ("leak_noiseless", "leak", {"N": 0}, {"lambda": 0.02, "eps_min": 0.3, "N": 0}),
}
"""By claim: two courses and what of each; who has learned in the first less in the second, seed by seed,
by the last step of both."""


def measure(tables: Mapping[str, pd.DataFrame], job: Job) -> list[Measurement]:
    """Every claim in every regime that there is."""
    section = job.config_section("fate", LateLearning)
    found = {name: tables[f"{name}_fate"] for name in section.studies_with_role("point")}
    rows: list[Measurement] = []
    for name, table in found.items():
        looked = section.studies[name].looked
        for cell, part in table.groupby(list(AXES)):
            where = dict(zip(AXES, cell, strict=True))
            rows += cell_measurements(name, where, part.set_index("seed"), looked)
    for claim, (first, second, one, other) in PAIRED.items():
        if first in found and second in found:
            own, less = chosen(found[first], one), chosen(found[second], other)
            by = min(own["T"].min(), less["T"].min())
            rows.append(
                measurement(
                    claim,
                    first,
                    one,
                    values_by_seed(own, by) - values_by_seed(less, by),
                    **lost(own, less),
                )
            )
    for name in [name for name in ("reuse", "rarest") if name in found]:
        rows += border(name, found[name], section.studies[name])
    if "reuse" in found:
        for decay, table in found["reuse"].groupby("lambda"):
            rows += sample_size_measurements(table, {"lambda": decay})
    if "fate_times" in tables:
        rows += the_law(tables["fate_times"], section)
        rows += the_step(tables["fate_late"])
    return rows


def chosen(table: pd.DataFrame, values: Mapping[str, Any]) -> pd.DataFrame:
    """The rows with these values."""
    return table[np.logical_and.reduce([table[name] == value for name, value in values.items()])]


def values_by_seed(table: pd.DataFrame, step: float = np.inf) -> pd.Series:
    """1 for each seed that has learned by a step."""
    return (table.set_index("seed")["learned_at"] <= step).astype(float)


def lost(*tables: pd.DataFrame) -> dict[str, int]:
    """How many replicas diverged."""
    return {"diverged": int(sum(table["diverged"].sum() for table in tables))}


def cell_measurements(
    name: str, where: dict, part: pd.DataFrame, looked: int
) -> Iterator[Measurement]:
    """What is read from one point alone."""
    late = part["learned_at"] > looked
    diverged = {"diverged": int(part["diverged"].sum())}
    learned = part["learned_at"].notna()
    # One quantity, and two statements: of a sample that comes back, and of fresh latents.
    yield measurement(
        "F-late" if where["N"] else "F-leak", name, where, late.astype(float), **diverged
    )
    yield measurement("F-never", name, where, learned.astype(float), **diverged)
    yield measurement(
        "F-decided", name, where, (part["learned_at"] > DECIDED_BY).astype(float), **diverged
    )
    if where["N"]:
        yield measurement(
            "F-feature", name, where, (part["opened_trained"] - part["opened_fresh"])[late]
        )
    yield measurement(
        "F-selective", name, where, (part["opened_fresh"] - part["opened_without"])[late]
    )


def border(name: str, table: pd.DataFrame, course: LearningStudy) -> Iterator[Measurement]:
    """How often the border between late and never tells a replica's fate, over the points of a course."""
    open_ = table[~(table["learned_at"] <= course.looked)]
    late = open_["learned_at"].notna().to_numpy()
    told = (log_margin_limit(state_from_table(open_, course)) >= 0) == late
    constant = late if late.mean() >= 0.5 else ~late
    by = pd.Series(told.astype(float) - constant, open_["seed"]).groupby(level=0).mean()
    yield measurement("F-border", name, {"over": "points"}, by, **lost(table))


def sample_size_measurements(
    table: pd.DataFrame, where: Mapping[str, Any]
) -> Iterator[Measurement]:
    """What is read over the numbers of training pairs at one decay."""
    finite = table[table["N"] > 0]
    kicks = np.log(finite.pivot(index="seed", columns="N", values="kick").dropna())
    if kicks.shape[1] > 1:
        log_N = np.log(kicks.columns.to_numpy(dtype=float))
        slopes = (
            (kicks.to_numpy() - kicks.to_numpy().mean(1, keepdims=True))
            @ (log_N - log_N.mean())
            / ((log_N - log_N.mean()) ** 2).sum()
        )
        yield measurement("F-kick", "reuse", {**where, "over": "N"}, pd.Series(slopes, kicks.index))
    if {8192, 32768} <= set(finite["N"]):
        large = chosen(finite, {"N": 32768})
        passes = int(large["T"].iloc[0]) / 32768
        small = chosen(finite, {"N": 8192})
        gain = values_by_seed(small, passes * 8192) - values_by_seed(large)
        yield measurement(
            "F-passes", "reuse", {**where, "over": "passes"}, gain, **lost(small, large)
        )


def log_loss(probability: pd.Series, true: pd.Series) -> pd.Series:
    """-log of the probability of what happened."""
    p = probability.clip(BOUNDED, 1 - BOUNDED)
    return -np.log(np.where(true, p, 1 - p))


def the_law(table: pd.DataFrame, section: LateLearning) -> Iterator[Measurement]:
    """The law for the time by drawn regime: the mean over its replicas that have not learned at once."""
    fit = section.studies_with_role("fit")
    of_fit = table[table["study"].isin(fit) & (table["at_once"] == 0)]
    constant = np.log2(of_fit["learned_at"]).mean()
    for name, part in table[table["at_once"] == 0].groupby("study"):
        learned = part["learned_at"].notna()
        part = part.assign(
            excess=log_loss(part["probability"], learned) - log_loss(part["gate_alone"], learned),
            error=np.abs(np.log2(part["predicted"] / part["learned_at"])),
            plain=np.abs(constant - np.log2(part["learned_at"])),
        )
        regimes = part.groupby(list(AXES))[["excess", "error", "plain"]].mean()
        place = {"over": "drawn regimes"}
        yield measurement("T-fate", name, place, regimes["excess"].to_numpy())
        yield measurement(
            "T-time", name, place, (regimes["error"] - regimes["plain"]).dropna().to_numpy()
        )


def the_step(table: pd.DataFrame) -> Iterator[Measurement]:
    """The step's law with T by drawn regime: the mean over its replicas."""
    for role, part in table.groupby("role"):
        own, regime, without = (
            log_loss(part[name], part["learned"]) for name in ("by_law", "by_regime", "without_T")
        )
        means = (
            part.assign(regime=own - regime, without=own - without)
            .groupby(list(AXES))[["regime", "without"]]
            .mean()
        )
        place = {"over": "drawn regimes"}
        yield measurement("T-step", f"time_{role}", place, means["regime"].to_numpy())
        yield measurement("T-without", f"time_{role}", place, means["without"].to_numpy())
