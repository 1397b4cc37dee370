"""Critical frequency of a rare feature: the eps_min at which half the replicas learn it.

It is the centre of a logistic fit of the column `learned`, a cosine of at least 0.5 at T.
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy.special import stdtrit

from rarefeat.model.logistic_fit import fit_logistic

BELOW, AMONG, ABOVE = "below", "among", "above"
COLUMNS = ["study", "point", "arm", "place", "step", "ci_low", "ci_high", "n"]


class CriticalFrequency(NamedTuple):
    """An estimate of a critical frequency, and its jackknife over seeds."""

    place: str
    """Whether it lies among the eps_min, or below or above all of them."""
    value: float
    """eps_min; NaN unless among."""
    pseudo: np.ndarray
    """Jackknife pseudo-values by seed, whose mean estimates the value; NaN unless among."""
    gap: tuple[float, float] | None = None
    """Neighbouring eps_min between which the outcome of every replica changes, if there are."""

    def interval(self) -> tuple[float, float]:
        """Return the 95 % interval by the jackknife over seeds.

        Seeds share their random streams over eps_min, hence the jackknife. Where all seeds agree,
        the interval is the gap. NaN with a single seed.
        """
        if self.gap:
            return self.gap
        n = len(self.pseudo)
        half = stdtrit(n - 1, 0.975) * self.pseudo.std(ddof=1) / np.sqrt(n) if n > 1 else np.nan
        return self.value - half, self.value + half

    def columns(self) -> dict[str, str | float]:
        """Return its place, value and interval as columns of tables."""
        low, high = self.interval()
        return {"place": self.place, "step": self.value, "ci_low": low, "ci_high": high}


def learned_matrix(table: pd.DataFrame) -> pd.DataFrame:
    """Return the quantity `learned` of one point and arm, a row for each eps_min, by seed."""
    rows = table[table["quantity"] == "learned"]
    return rows.pivot(index="eps_min", columns="seed", values="value").sort_index()


def estimate_critical_frequency(learned: pd.DataFrame) -> CriticalFrequency:
    """Estimate the eps_min at which half of the replicas learn the feature, by a logistic fit.

    `learned` is 0 or 1, with a row for each eps_min in rising order and a column for each seed.
    """
    eps_min, learned = learned.index.to_numpy(), learned.to_numpy()
    n_seeds, fraction = learned.shape[1], learned.mean(1)
    undefined = np.full(n_seeds, np.nan)
    if fraction[0] >= 0.5:
        return CriticalFrequency(BELOW, np.nan, undefined)
    if fraction.max() < 0.5:
        return CriticalFrequency(ABOVE, np.nan, undefined)

    def centre(columns: np.ndarray) -> float:
        return fit_logistic(np.repeat(eps_min, columns.shape[1]), columns.ravel()).centre

    value = centre(learned)
    if n_seeds < 2:
        return CriticalFrequency(AMONG, value, undefined)
    first, gap = int((fraction > 0).argmax()), None
    if fraction[first:].min() == 1:
        gap = (float(eps_min[first - 1]), float(eps_min[first]))
    left_out = np.array([centre(np.delete(learned, s, axis=1)) for s in range(n_seeds)])
    return CriticalFrequency(AMONG, value, n_seeds * value - (n_seeds - 1) * left_out, gap)


def selection_steps(tables: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Return the critical frequency of every point and arm that has several eps_min."""
    rows = []
    for name, table in tables.items():
        for (point, arm), group in table.groupby(["point", "arm"], sort=False):
            learned = learned_matrix(group)
            if len(learned) > 1:
                keys = {"study": name.removesuffix("_selection"), "point": point, "arm": arm}
                found = estimate_critical_frequency(learned).columns()
                rows.append(keys | found | {"n": learned.shape[1]})
    return pd.DataFrame(rows, columns=COLUMNS).sort_values(COLUMNS[:3], ignore_index=True)
