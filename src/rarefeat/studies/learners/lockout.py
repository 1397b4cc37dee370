"""Who has learned the rare feature, from which frequency on, and what a run without it keeps.

Random weights hold every feature, and a training may keep or erase what it never sees. A replica
has learned the rare features where its readout of them is at least half-way from that of the same
seed's run in which they never occur to that of the frequent ones.
"""

from collections.abc import Iterator, Mapping

import numpy as np
import pandas as pd
from jaxtyping import Float

from rarefeat.claims.measurements import Measurement, measurement
from rarefeat.model.thresholds import HALF_LEARNED
from rarefeat.statistics import fraction_interval, student_interval
from rarefeat.workflow.config.model import Data

HALF_WAY = 0.5
"""Of the way from a run without the rare features to the frequent ones: learned from there on."""
RESAMPLES = 2000
MEASURES = {"cosine": "aligned", "readout": "learned"}
"""Columns of the outcomes by measure."""
RUN = ["learner", "pairs", "seed"]
CELL = ["learner", "pairs", "eps_min", "eta"]
MEANS = ("r2_rare", "r2_never", "r2_untrained", "r2_frequent", "r2_shuffled", "diverged")


def outcomes(readouts: pd.DataFrame, n_rare: int) -> pd.DataFrame:
    """Return a row for each trained replica of each cell: what it has learned."""
    # A replica that the chain has stopped keeps its last weights, and has an R^2.
    readouts = readouts.assign(r2=readouts["r2"].where(readouts["diverged"] == 0))
    is_rare = readouts["feature"] > readouts["feature"].max() - n_rare
    rare, frequent, every = (
        rows.groupby([*CELL, "seed", "diverged"])
        for rows in (readouts[is_rare], readouts[~is_rare], readouts)
    )
    means = {
        "r2_rare": rare["r2"].mean(),
        "r2_frequent": frequent["r2"].mean(),
        "r2_shuffled": every["r2_shuffled"].mean(),
        "cosine": rare["cosine"].agg(lambda values: values.min(skipna=False)),
    }
    table = pd.DataFrame(means).reset_index()
    trained, runs = table["eta"] > 0, pd.MultiIndex.from_frame(table[RUN])
    for name, chosen in (("r2_untrained", ~trained), ("r2_never", trained)):
        base = table[chosen & (table["eps_min"] == 0)].set_index(RUN)["r2_rare"]
        table[name] = base.reindex(runs).to_numpy()
    table["learned"] = is_learned(table["r2_rare"], table["r2_never"], table["r2_frequent"])
    aligned = (table["cosine"] >= HALF_LEARNED).astype(float)
    table["aligned"] = aligned.where(table["r2_rare"].notna() & table["cosine"].notna())
    return table[trained].reset_index(drop=True)


def is_learned(rare: pd.Series, never: pd.Series, frequent: pd.Series) -> pd.Series:
    """Return 1 where R^2 is half-way from that of a run that never sees the feature, NaN without.

    That is R^2 of the rare features, and `frequent` that of the frequent ones.
    """
    beyond, reach = rare - never, frequent - never
    # Where a training reads the frequent features no better, there is nothing to learn.
    learned = (beyond >= HALF_WAY * reach) & (beyond > 0) & (reach > 0)
    return learned.astype(float).where(beyond.notna() & reach.notna())


def learners(tables: Mapping[str, pd.DataFrame], data: Data) -> pd.DataFrame:
    """Return the share of replicas that have learned, for each cell."""
    (readouts,) = tables.values()
    rows = []
    for cell, group in outcomes(readouts, len(data.minority)).groupby(CELL):
        row = dict(zip(CELL, cell, strict=True)) | {"n": int(group["r2_rare"].notna().sum())}
        for name in MEASURES.values():
            row[f"{name}_low"], row[f"{name}_high"] = fraction_interval(group[name])
        for name in (*MEASURES.values(), *MEANS):
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


def kept(outcome: pd.DataFrame) -> pd.Series:
    """Return what a training without the rare features keeps of their readout, by learner and seed.

    It is the R^2 after it over that of the untrained encoder.
    """
    runs = outcome.drop_duplicates(RUN).set_index(RUN)
    return (runs["r2_never"] / runs["r2_untrained"]).sort_index()


def locate_frequency(outcomes: pd.DataFrame) -> dict[str, int | float | str]:
    """Return the frequency from which half learn, from outcomes of seeds (rows) by frequency.

    A seed that diverged at one frequency is left out. The interval is a percentile bootstrap over
    seeds, which are the same at all frequencies. Between two points of the grid nothing is known:
    each end moves out to the next one. What lies beyond the grid is cut to it. One seed has none.
    """
    values, eps_min = outcomes.dropna().to_numpy(), outcomes.columns.to_numpy(dtype=float)
    n, middle, low, high, bound = len(values), np.nan, np.nan, np.nan, ""
    if n:
        (middle,) = half_frequency(values.mean(0)[None], eps_min)
        bound = "above" if middle == np.inf else "at most" * bool(middle == eps_min[0])
    if n > 1:
        draws = np.random.default_rng(0).integers(n, size=(RESAMPLES, n))
        resampled = half_frequency(values[draws].mean(1), eps_min)
        ends = np.quantile(np.minimum(resampled, eps_min[-1]), [0.025, 0.975])
        low, high = eps_min[eps_min <= ends[0]].max(), eps_min[eps_min >= ends[1]].min()
    middle = np.minimum(middle, eps_min[-1])
    return {"n": n, "frequency": middle, "ci_low": low, "ci_high": high, "bound": bound}


def frequencies(tables: Mapping[str, pd.DataFrame], data: Data) -> pd.DataFrame:
    """Return the frequency from which half learn, for each learner, kind of pairs and measure.

    What lies beyond the grid is cut to it.
    """
    (readouts,) = tables.values()
    replicas, rows = outcomes(readouts, len(data.minority)), []
    remains = kept(replicas)
    for (learner, pairs), group in replicas[replicas["eps_min"] > 0].groupby(["learner", "pairs"]):
        keeps, _, *ends, _ = student_interval(remains[learner, pairs].to_numpy())
        for measure, column in MEASURES.items():
            wide = group.pivot(index="seed", columns="eps_min", values=column)
            row = {"learner": learner, "pairs": pairs, "measure": measure}
            row |= locate_frequency(wide)
            row |= {"eta": group["eta"].iloc[0], "kept": keeps}
            rows.append(row | dict(zip(("kept_low", "kept_high"), ends, strict=True)))
    return pd.DataFrame(rows)


def thresholds(table: pd.DataFrame) -> pd.DataFrame:
    """Return the mean frequency from which each seed learns, for the claims.

    It is the largest frequency minus the integral of the outcome over frequency (Spearman and
    Kärber's estimate, seed by seed): a seed that has learned everywhere has the smallest frequency.
    """
    table = table[table["eps_min"] > 0]
    wide = table.pivot(index=RUN, columns="eps_min", values="learned")
    eps_min, values = wide.columns.to_numpy(dtype=float), wide.to_numpy()
    area = ((values[:, 1:] + values[:, :-1]) / 2 * np.diff(eps_min)).sum(1)
    return pd.Series(eps_min[-1] - area, wide.index).unstack(["learner", "pairs"])


PAPER = "infonce"
"""The paper's learner."""
KEEPS = {
    "B-infonce-erases": PAPER,
    "B-barlow-erases": "barlow_twins",
    "B-spectral-erases": "spectral",
    "B-linear-keeps": "linear",
    "B-supervised-keeps": "supervised",
    "B-cosine-keeps": "nt_xent",
}
"""Learner of which a claim says what it keeps of a feature that it never sees."""
CONTRASTS = {
    "B-threshold": "linear",
    "B-supervised": "supervised",
    "B-cosine": "nt_xent",
    "B-barlow": "barlow_twins",
    "B-adam": "adam",
}
"""Learner whose threshold frequency is subtracted from that of the paper's, by claim."""


def measure_claims(
    tables: Mapping[str, pd.DataFrame], data: Data, eps_min: list[float], pairs: list[str]
) -> Iterator[Measurement]:
    """Yield the measurement of every claim for each kind of pairs, as far as its learners ran."""
    (readouts,) = tables.values()
    found = outcomes(readouts, len(data.minority))
    values, remains = thresholds(found), kept(found)
    for kind in pairs:
        place = {"pairs": kind}
        for claim, name in KEEPS.items():
            if (name, kind) in values:
                yield measurement(claim, "which_learners", place, remains[name, kind])
        for claim, name in CONTRASTS.items():
            if {(PAPER, kind), (name, kind)} <= {*values}:
                less = values[PAPER, kind] - values[name, kind]
                yield measurement(claim, "which_learners", place, less)
