"""Who has learned the rare feature, and from which frequency on.

A replica has learned the rare features where its readout of them has at least half of the R^2 of
the frequent ones: before training, both are read alike.
"""

from collections.abc import Iterator, Mapping

import numpy as np
import pandas as pd
from jaxtyping import Float

from rarefeat.claims.measurements import Measurement, measurement
from rarefeat.model.thresholds import HALF_LEARNED
from rarefeat.statistics import fraction_interval
from rarefeat.workflow.config.model import Data

LEARNED_SHARE = 0.5
"""R^2 of the rare features in units of the frequent ones' from which they count as learned."""
RESAMPLES = 2000
MEASURES = {"cosine": "aligned", "readout": "learned"}
"""Columns of the outcomes by measure."""
CELL = ["learner", "pairs", "eps_min", "eta"]


def outcomes(readouts: pd.DataFrame, n_rare: int) -> pd.DataFrame:
    """Return a row for each replica of each cell: what it has learned."""
    # A replica that the chain has stopped keeps its last weights, and has an R^2.
    readouts = readouts.assign(r2=readouts["r2"].where(readouts["diverged"] == 0))
    is_rare = readouts["feature"] > readouts["feature"].max() - n_rare
    rare, frequent, every = (
        rows.groupby([*CELL, "seed", "diverged"])
        for rows in (readouts[is_rare], readouts[~is_rare], readouts)
    )
    cosine = rare["cosine"].agg(lambda values: values.min(skipna=False))
    table = pd.DataFrame(
        {
            "r2_rare": rare["r2"].mean(),
            "r2_frequent": frequent["r2"].mean(),
            "r2_shuffled": every["r2_shuffled"].mean(),
        }
    )
    # A readout that is worse than the mean has learned nothing.
    least = LEARNED_SHARE * table["r2_frequent"].clip(lower=0)
    learned = (table["r2_rare"] >= least) & (table["r2_rare"] > 0)
    is_known = table["r2_rare"].notna()
    table["learned"] = learned.astype(float).where(is_known)
    aligned = (cosine >= HALF_LEARNED).astype(float)
    table["aligned"] = aligned.where(is_known & cosine.notna())
    return table.reset_index()


def learners(tables: Mapping[str, pd.DataFrame], data: Data) -> pd.DataFrame:
    """Return the share of replicas that have learned, for each cell."""
    (readouts,) = tables.values()
    rows = []
    for cell, group in outcomes(readouts, len(data.minority)).groupby(CELL):
        row = dict(zip(CELL, cell, strict=True)) | {"n": int(group["learned"].notna().sum())}
        for name in MEASURES.values():
            row[f"{name}_low"], row[f"{name}_high"] = fraction_interval(group[name])
        for name in (*MEASURES.values(), "r2_rare", "r2_frequent", "r2_shuffled", "diverged"):
            row[name] = group[name].mean()
        rows.append(row)
    return pd.DataFrame(rows)


def half_frequency(
    fractions: Float[np.ndarray, "courses F"], eps_min: Float[np.ndarray, " F"]
) -> Float[np.ndarray, " courses"]:
    """Return the frequency from which half learn, for several courses over frequency."""
    rising = np.maximum.accumulate(np.asarray(fractions, dtype=float), axis=1)
    reached = rising >= 0.5
    index = reached.argmax(1)
    before, row = np.maximum(index - 1, 0), np.arange(len(rising))
    rise = rising[row, index] - rising[row, before]
    share = np.where(rise > 0, (0.5 - rising[row, before]) / np.where(rise > 0, rise, 1), 1.0)
    crossing = eps_min[before] + share * (eps_min[index] - eps_min[before])
    return np.where(reached.any(1), np.where(index == 0, eps_min[0], crossing), np.inf)


def locate_frequency(outcomes: pd.DataFrame, beyond: float) -> dict[str, int | float | str]:
    """Return the frequency from which half learn, from outcomes of seeds (rows) by frequency.

    A seed that diverged at one frequency is left out. The interval is a percentile bootstrap over
    seeds, which are the same at all frequencies; `beyond` stands for what lies beyond the grid.
    """
    values, eps_min = outcomes.dropna().to_numpy(), outcomes.columns.to_numpy(dtype=float)
    n, middle, low, high, bound = len(values), np.nan, np.nan, np.nan, ""
    if n:
        (middle,) = half_frequency(values.mean(0)[None], eps_min)
        bound = "above" if middle == np.inf else "at most" * bool(middle == eps_min[0])
        draws = np.random.default_rng(0).integers(n, size=(RESAMPLES, n))
        resampled = half_frequency(values[draws].mean(1), eps_min)
        low, high = np.quantile(np.minimum(resampled, beyond), [0.025, 0.975])
    middle = np.minimum(middle, beyond)
    return {"n": n, "frequency": middle, "ci_low": low, "ci_high": high, "bound": bound}


def frequencies(tables: Mapping[str, pd.DataFrame], data: Data) -> pd.DataFrame:
    """Return the frequency from which half learn, for each learner, kind of pairs and measure.

    What lies beyond the grid is cut to it.
    """
    (readouts,) = tables.values()
    replicas, rows = outcomes(readouts, len(data.minority)), []
    for (learner, pairs), group in replicas.groupby(["learner", "pairs"]):
        for measure, column in MEASURES.items():
            wide = group.pivot(index="seed", columns="eps_min", values=column)
            found = locate_frequency(wide, beyond=wide.columns.max())
            rows.append({"learner": learner, "pairs": pairs, "measure": measure} | found)
    return pd.DataFrame(rows)


def thresholds(table: pd.DataFrame) -> pd.DataFrame:
    """Return the mean frequency from which each seed learns, for the claims.

    It is the largest frequency minus the integral of the outcome over frequency (Spearman and
    Kärber's estimate, seed by seed): a seed that has learned everywhere has the smallest frequency.
    """
    wide = table.pivot(index=["learner", "pairs", "seed"], columns="eps_min", values="learned")
    eps_min, values = wide.columns.to_numpy(dtype=float), wide.to_numpy()
    area = ((values[:, 1:] + values[:, :-1]) / 2 * np.diff(eps_min)).sum(1)
    return pd.Series(eps_min[-1] - area, wide.index).unstack(["learner", "pairs"])


PAPER = "infonce"
"""The paper's learner."""
LOCKS = {"B-infonce": PAPER, "B-barlow": "barlow_twins"}
"""Learner whose threshold frequency is compared with the smallest one, by claim."""
CONTRASTS = {"B-adam": "adam"}
"""Learner whose threshold frequency is subtracted from that of the paper's, by claim."""


def measure_claims(
    tables: Mapping[str, pd.DataFrame], data: Data, eps_min: list[float], pairs: list[str]
) -> Iterator[Measurement]:
    """Yield the measurement of every claim for each kind of pairs, as far as its learners ran."""
    (readouts,) = tables.values()
    values = thresholds(outcomes(readouts, len(data.minority)))
    picks = [(claim, kind, (name, kind), None) for kind in pairs for claim, name in LOCKS.items()]
    picks += [
        (claim, kind, (PAPER, kind), (name, kind))
        for kind in pairs
        for claim, name in CONTRASTS.items()
    ]
    picks += [("B-fresh", "both", (PAPER, "fresh"), (PAPER, "returning"))]
    for claim, regime, one, other in picks:
        if {one, other} <= {*values, None}:
            less = values[other] if other else min(eps_min)
            yield measurement(claim, "which_learners", {"pairs": regime}, values[one] - less)
