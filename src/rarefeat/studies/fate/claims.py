"""Measurements for the claims on late learning."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pandas as pd

from rarefeat.claims.measurements import Measurement, measurement
from rarefeat.studies.experiment import select
from rarefeat.studies.fate import AXES, LateLearning, LearningStudy
from rarefeat.studies.fate.growth import TOPS
from rarefeat.studies.fate.learning_times import (
    SETTING,
    doublings_later,
    fate_points,
    learned_by_seed,
)

DECIDED_BY = 1000
"""Step after which a replica counts for F-decided."""
FRESH = {"N": 0}
CARRIED = "batch_32", "batch_512", "features_16", "bias_late"
"""Studies that change one hyper-parameter, each with pairs that come back and fresh ones."""
PAIRED = (
    ("F-reuse", "reuse", "reuse", {"lambda": 0.02, "N": 8192}, {"lambda": 0.02, "N": 0}),
    *(("F-reuse", name, name, {"N": 8192}, FRESH) for name in CARRIED),
    ("F-apart", "untied", "reuse", {"latents": "apart"}, {"lambda": 0.02, "N": 8192}),
    ("F-noiseless", "noiseless", "reuse", {"N": 8192}, {"lambda": 0.02, "N": 8192}),
    ("F-leak-noise", "leak_noiseless", "leak", FRESH, {"lambda": 0.02, "eps_min": 0.3} | FRESH),
    *(
        ("F-push", f"{by}_{dose}", "fresh", FRESH, FRESH)
        for by in ("neuron", "feature")
        for dose in ("1", "quarter", "half", "2")
    ),
    *(("F-push", f"neuron_{dose}_05", "fresh_05", FRESH, FRESH) for dose in (1, 2)),
    *(
        (claim, "mechanism", "mechanism", {"latents": way, "N": N}, {"latents": "plain", "N": N})
        for claim, way in (
            ("F-signs", "new_signs"),
            ("F-tokens", "new_tokens"),
            ("F-replacement", "replacement"),
        )
        for N in (8192, 2048)
    ),
    *(
        (claim, "mechanism", "mechanism_fresh", {"latents": way, "N": N, "over": "fresh"}, FRESH)
        for claim, way in (("F-signs-fresh", "new_signs"), ("F-tokens-fresh", "new_tokens"))
        for N in (8192, 2048)
    ),
    ("F-push-dose", "neuron_1", "neuron_quarter", FRESH, FRESH),
    ("F-push-dose", "feature_1", "feature_quarter", FRESH, FRESH),
    ("F-push-reuse", "reused", "neuron_1", {"N": 2048}, FRESH),
    ("F-push-out", "reused_none", "reused", {"N": 2048}, {"N": 2048}),
    ("F-leak-rest", "reused_none", "reused_none", {"N": 2048}, FRESH),
    ("F-leak-added", "leak_1", "fresh", FRESH, FRESH),
    ("F-leak-added", "leak_2", "fresh", FRESH, FRESH),
    ("F-ties", "ties", "fresh", {"N": 512}, FRESH),
    *(("F-signs-longer", "signs_longer", "fresh_longer", {"N": N}, FRESH) for N in (8192, 2048)),
    *(
        ("F-method", "method_push", "method_nothing", {"eps_min": eps}, {"eps_min": eps})
        for eps in (0.1, 0.2, 0.3, 0.5)
    ),
)
"""Claims, two studies and what selects a cell of each: learned in the first minus in the second, by
the last step that both have."""
Tables = Mapping[str, pd.DataFrame]


def measure(tables: Tables, fate: LateLearning) -> Iterator[Measurement]:
    """Measure every claim in every regime of the tables that there are."""
    points = {name: tables[f"{name}_fate"] for name in fate.studies}
    for name, table in points.items():
        if fate.studies[name].push is None:
            for cell, group in table.groupby(list(AXES)):
                regime = dict(zip(AXES, cell, strict=True))
                yield from cell_measurements(name, regime, group, fate.studies[name].looked)
    for claim, first, second, values, others in PAIRED:
        if first in points and second in points:
            where = {axis: value for axis, value in values.items() if axis != "over"}
            cells = select(points[first], where), select(points[second], others)
            step = min(cell["T"].min() for cell in cells)
            yield learned_more(claim, first, values, *cells, step)
            if claim == "F-method":
                cost = np.subtract(*(cell.set_index("seed")["others"] for cell in cells))
                yield measurement(f"{claim}-cost", first, values, cost, diverged=diverged(*cells))
    if "removal" in points:
        yield from removal_measurements(points["removal"])
    if "thresholds" in points:
        yield from predictor_measurements(points["thresholds"], fate.studies["thresholds"])
    if "reuse" in points and {8192, 32768} <= set(points["reuse"]["N"]):
        yield from passes_measurements(points["reuse"])


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


def removal_measurements(table: pd.DataFrame) -> Iterator[Measurement]:
    """Measure what the top pairs change, beside as many random ones."""
    for N, pairs in table.groupby("N"):
        ways = dict(iter(pairs.groupby("latents")))
        for k in TOPS:
            top, random = ways[f"without_top_{k}"], ways[f"without_other_{k}"]
            regime = {"latents": f"without_top_{k}", "N": N}
            delay, count = doublings_later(top, random), diverged(top, random)
            yield measurement(f"F-top-{k}", "removal", regime, delay, diverged=count)
        yield learned_more("F-top-share", "removal", regime | {"over": "share"}, top, random)


def predictor_measurements(table: pd.DataFrame, study: LearningStudy) -> Iterator[Measurement]:
    """Measure how often each predictor without a fitted constant is right about late or never."""
    points = fate_points({"thresholds_fate": table}, {"thresholds": study})
    smallest = select(points, {"N": table.loc[table["N"] > 0, "N"].min()})
    critical = smallest.set_index(SETTING)["critical_N"]
    critical = critical.reindex(pd.MultiIndex.from_frame(table[SETTING])).to_numpy()
    late = table["learned_at"].notna()
    table = table.assign(
        late=late,
        threshold=(table["N"].replace(0, np.inf) <= critical) == late,
        neuron=(table["excess"] > 0) == late,
        decay=(table["largest_leak"] > table["lambda"]) == late,
    )
    table = table[~(table["learned_at"] <= study.looked)]
    often = table.groupby(SETTING)["late"].transform("mean") >= 0.5
    best = table["late"] == often
    for claim, right in (
        ("F-threshold", table["threshold"]),
        ("F-neuron", table["neuron"]),
        ("F-neuron-decay", table["decay"]),
    ):
        gain = (right.astype(float) - best.astype(float)).groupby(table["seed"]).mean()
        yield measurement(claim, "thresholds", {"over": "points"}, gain, diverged=diverged(table))


def passes_measurements(table: pd.DataFrame) -> Iterator[Measurement]:
    """Measure what more pairs change at equal passes, at each decay."""
    for decay, cells in table.groupby("lambda"):
        large, small = (select(cells, {"N": N}) for N in (32768, 8192))
        passes = int(large["T"].iloc[0]) / 32768
        gain = learned_by_seed(small, passes * 8192) - learned_by_seed(large)
        regime = {"lambda": decay, "over": "passes"}
        yield measurement("F-passes", "reuse", regime, gain, diverged=diverged(small, large))
