"""Tables of the study of learners: who has learned the rare feature, and from which frequency on.

A replica has learned the rare features where its readout of them has at least half of the R^2 of
the frequent ones: before training, both are read alike.
"""

from collections.abc import Iterator

import numpy as np
import pandas as pd

from rarefeat.model.thresholds import HALF_LEARNED
from rarefeat.statistics import fraction_interval
from rarefeat.studies.learners.tables import FREQUENCIES, LEARNERS
from rarefeat.workflow.config.model import Data
from rarefeat.workflow.files.schema import validate_sorted
from rarefeat.workflow.run.job import Job
from rarefeat.workflow.run.job_inputs import JobInputs

LEARNED_SHARE = 0.5
"""R^2 of the rare features in units of the frequent ones' from which they count as learned."""
RESAMPLES = 2000
CELL = ["learner", "pairs", "eps_min"]
MEASURES = {"readout": "learned", "cosine": "aligned"}
"""Columns of the outcomes by measure."""


def outcomes(readouts: pd.DataFrame, n_rare: int) -> pd.DataFrame:
    """Return a row for each replica of each cell: what it has learned."""
    # A replica that the chain has stopped keeps its last weights, and has an R^2.
    is_sound = readouts["diverged"] == 0
    readouts = readouts.assign(r2=readouts["r2"].where(is_sound))
    is_rare = readouts["feature"] > readouts["feature"].max() - n_rare
    keys = [*CELL, "eta", "seed", "diverged"]
    rare = (
        readouts[is_rare]
        .groupby(keys)
        .agg(r2_rare=("r2", "mean"), cosine=("cosine", lambda values: values.min(skipna=False)))
    )
    table = rare.join(readouts[~is_rare].groupby(keys).agg(r2_frequent=("r2", "mean")))
    table = table.join(readouts.groupby(keys).agg(r2_shuffled=("r2_shuffled", "mean")))
    learned = table["r2_rare"] >= LEARNED_SHARE * table["r2_frequent"].clip(lower=0)
    # A readout that is worse than the mean has learned nothing.
    learned &= table["r2_rare"] > 0
    table["learned"] = learned.astype(float).where(table["r2_rare"].notna())
    aligned = (table["cosine"] >= HALF_LEARNED).astype(float)
    table["aligned"] = aligned.where(table["cosine"].notna() & table["r2_rare"].notna())
    return table.drop(columns="cosine").reset_index()


def learners(inputs: JobInputs, job: Job) -> pd.DataFrame:
    """Return the share of replicas that have learned, for each cell.

    Inputs: the table of readouts. Config: `data`. Output: the table of learners.
    """
    (readouts,) = inputs.values()
    rows = []
    for cell, group in outcomes(readouts, n_rare(job)).groupby([*CELL, "eta"]):
        row = dict(zip([*CELL, "eta"], cell, strict=True))
        row["n"] = int(group["learned"].notna().sum())
        for column in MEASURES.values():
            row[column] = group[column].mean()
            row[f"{column}_low"], row[f"{column}_high"] = fraction_interval(group[column])
        for column in ("r2_rare", "r2_frequent", "r2_shuffled", "diverged"):
            row[column] = group[column].mean()
        rows.append(row)
    return validate_sorted(LEARNERS, pd.DataFrame(rows))


def n_rare(job: Job) -> int:
    """Return the number of rare features of a job's data."""
    return len(job.config_section("data", Data).minority)


def half_frequency(fractions: np.ndarray, eps_min: np.ndarray) -> np.ndarray:
    """Compute the frequency from which half learn, for several courses over frequency.

    fractions (B, F), eps_min (F,) -> (B,).
    """
    rising = np.maximum.accumulate(np.asarray(fractions, dtype=float), axis=1)
    reached = rising >= 0.5
    index = reached.argmax(1)
    before, row = np.maximum(index - 1, 0), np.arange(len(rising))
    rise = rising[row, index] - rising[row, before]
    share = np.where(rise > 0, (0.5 - rising[row, before]) / np.where(rise > 0, rise, 1), 1.0)
    crossing = eps_min[before] + share * (eps_min[index] - eps_min[before])
    return np.where(reached.any(1), np.where(index == 0, eps_min[0], crossing), np.inf)


def frequencies(inputs: JobInputs, job: Job) -> pd.DataFrame:
    """Return the frequency from which half of the replicas learn, for each learner.

    Inputs: the table of readouts. Config: `data`. Output: the table of frequencies.
    """
    (readouts,) = inputs.values()
    rows = list(frequency_rows(outcomes(readouts, n_rare(job))))
    return validate_sorted(FREQUENCIES, pd.DataFrame(rows))


def frequency_rows(table: pd.DataFrame) -> Iterator[dict]:
    """Yield a row for each learner, kind of pairs and measure.

    A seed that diverged at one frequency is left out. The interval is a percentile bootstrap over
    seeds, which are the same at all frequencies; ends beyond the grid are cut to it.
    """
    for (learner, pairs), group in table.groupby(["learner", "pairs"]):
        for measure, column in MEASURES.items():
            wide = group.pivot(index="seed", columns="eps_min", values=column)
            values = wide.dropna().to_numpy()
            eps_min = wide.columns.to_numpy(dtype=float)
            row = {"learner": learner, "pairs": pairs, "measure": measure, "n": len(values)}
            if not len(values):
                yield (
                    row | dict.fromkeys(("frequency", "ci_low", "ci_high"), np.nan) | {"bound": ""}
                )
                continue
            draws = np.random.default_rng(0).integers(len(values), size=(RESAMPLES, len(values)))
            resampled = half_frequency(values[draws].mean(1), eps_min)
            (middle,) = half_frequency(values.mean(0)[None], eps_min)
            bound = "above" if middle == np.inf else "at most" * bool(middle == eps_min[0])
            low, high = np.quantile(np.minimum(resampled, eps_min[-1]), [0.025, 0.975])
            yield row | {
                "frequency": min(middle, eps_min[-1]), "ci_low": low, "ci_high": high,
                "bound": bound,
            }  # fmt: skip


def thresholds(table: pd.DataFrame, column: str = "learned") -> pd.DataFrame:
    """Compute for each seed the mean frequency from which it learns, for the claims.

    It is the largest frequency minus the integral of the outcome over frequency (Spearman and
    Kärber's estimate, seed by seed): a seed that has learned everywhere has the smallest frequency.
    """
    wide = table.pivot(index=["learner", "pairs", "seed"], columns="eps_min", values=column)
    eps_min, values = wide.columns.to_numpy(dtype=float), wide.to_numpy()
    area = ((values[:, 1:] + values[:, :-1]) / 2 * np.diff(eps_min)).sum(1)
    return pd.Series(eps_min[-1] - area, wide.index).unstack(["learner", "pairs"])
