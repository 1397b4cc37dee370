"""Where a rare feature's step lies: the eps_min at which half of the replicas have learned it, a logistic fit."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy.special import stdtrit

from rarefeat.core.logistic_fit import fit_logistic
from rarefeat.run.job import Job
from rarefeat.storage.schema import validate_sorted
from rarefeat.studies.selection.tables import SELECTION_STEPS

BELOW, AMONG, ABOVE = "below", "among", "above"


class CriticalFrequency(NamedTuple):
    """A step, and what each seed says of it."""

    place: str
    """Whether it lies among the eps_min, or below or above all of them."""
    value: float
    """eps_min; NaN unless among."""
    pseudo: np.ndarray
    """Jackknife pseudo-values, (seeds,), whose mean and spread are those of the step; NaN unless among."""
    gap: tuple[float, float] | None = None
    """The neighbouring eps_min of which no replica has learned at the one and every one at the other; None without such."""

    def interval(self) -> tuple[float, float]:
        """95 %, by the jackknife over seeds, which share their draws over eps_min; where all seeds agree, the gap."""
        if self.gap:
            return self.gap
        n = len(self.pseudo)
        half = stdtrit(n - 1, 0.975) * self.pseudo.std(ddof=1) / np.sqrt(n) if n > 1 else np.nan
        return self.value - half, self.value + half


def learned_matrix(numbers: pd.DataFrame) -> pd.DataFrame:
    """Rows of one point and arm with the quantity `learned`, as a table of eps_min by seed."""
    return (
        numbers[numbers["quantity"] == "learned"]
        .pivot(index="eps_min", columns="seed", values="value")
        .sort_index()
    )


def estimate_critical_frequency(eps: np.ndarray, learned: np.ndarray) -> CriticalFrequency:
    """The step of replicas that have learned, 1, or not, 0: (n,), (n, seeds).

    Below all eps_min where half or more learn at the smallest, above all where less than half do at every one.
    """
    seeds, share = learned.shape[1], learned.mean(1)
    nowhere = np.full(seeds, np.nan)
    if share[0] >= 0.5:
        return CriticalFrequency(BELOW, np.nan, nowhere)
    if share.max() < 0.5:
        return CriticalFrequency(ABOVE, np.nan, nowhere)

    def centre(kept: np.ndarray) -> float:
        return fit_logistic(np.repeat(eps, kept.shape[1]), kept.ravel()).centre

    value = centre(learned)
    if seeds < 2:
        return CriticalFrequency(AMONG, value, nowhere)
    first = int((share > 0).argmax())
    gap = (float(eps[first - 1]), float(eps[first])) if share[first:].min() == 1 else None
    others = np.array([centre(np.delete(learned, s, axis=1)) for s in range(seeds)])
    return CriticalFrequency(AMONG, value, seeds * value - (seeds - 1) * others, gap)


def critical_frequencies(study: str, table: pd.DataFrame) -> pd.DataFrame:
    """The step of every point and arm of a study."""
    rows = []
    for (point, arm), part in table.groupby(["point", "arm"], sort=False):
        wide = learned_matrix(part)
        if len(wide) < 2:
            continue
        found = estimate_critical_frequency(wide.index.to_numpy(), wide.to_numpy())
        low, high = found.interval()
        rows.append(
            {"study": study, "point": point, "arm": arm, "place": found.place, "step": found.value, "ci_low": low,
             "ci_high": high, "n": wide.shape[1]}
        )  # fmt: skip
    return pd.DataFrame(rows, columns=list(SELECTION_STEPS.columns))


def selection_steps(tables: Mapping[str, pd.DataFrame], job: Job) -> pd.DataFrame:
    """The steps of every sweep."""
    found = [
        critical_frequencies(name.removesuffix("_selection"), table)
        for name, table in tables.items()
    ]
    return validate_sorted(SELECTION_STEPS, pd.concat(found, ignore_index=True))
