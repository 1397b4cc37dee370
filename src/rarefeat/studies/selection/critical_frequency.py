"""Critical frequency of a rare feature: the eps_min at which half the replicas learn it.

It is the centre of a logistic fit of the column `learned`, a cosine of at least 0.5 at T.
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy.special import stdtrit

from rarefeat.model.logistic_fit import fit_logistic
from rarefeat.studies.selection.tables import SELECTION_STEPS
from rarefeat.workflow.files.schema import validate_sorted
from rarefeat.workflow.run.job import Job

BELOW, AMONG, ABOVE = "below", "among", "above"


class CriticalFrequency(NamedTuple):
    """An estimate of a critical frequency, and its jackknife over seeds."""

    place: str
    """Whether it lies among the eps_min, or below or above all of them."""
    value: float
    """eps_min; NaN unless among."""
    pseudo: np.ndarray
    """Jackknife pseudo-values, (n_seeds,); their mean estimates the critical frequency.

    NaN unless among.
    """
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


def learned_matrix(table: pd.DataFrame) -> pd.DataFrame:
    """Return the quantity `learned` of one point and arm as a table of eps_min by seed."""
    return (
        table[table["quantity"] == "learned"]
        .pivot(index="eps_min", columns="seed", values="value")
        .sort_index()
    )


def estimate_critical_frequency(eps_min: np.ndarray, learned: np.ndarray) -> CriticalFrequency:
    """Estimate the eps_min at which half of the replicas learn the feature, by a logistic fit.

    eps_min (n,), learned (n, n_seeds).
    """
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
    first = int((fraction > 0).argmax())
    gap = None
    if fraction[first:].min() == 1:
        gap = (float(eps_min[first - 1]), float(eps_min[first]))
    left_out = np.array([centre(np.delete(learned, s, axis=1)) for s in range(n_seeds)])
    return CriticalFrequency(AMONG, value, n_seeds * value - (n_seeds - 1) * left_out, gap)


def critical_frequencies(study: str, table: pd.DataFrame) -> pd.DataFrame:
    """Return the critical frequency of every point and arm of a study.

    Those with a single eps_min are left out.
    """
    rows = []
    for (point, arm), group in table.groupby(["point", "arm"], sort=False):
        learned = learned_matrix(group)
        if len(learned) < 2:
            continue
        estimate = estimate_critical_frequency(learned.index.to_numpy(), learned.to_numpy())
        low, high = estimate.interval()
        rows.append(
            {
                "study": study,
                "point": point,
                "arm": arm,
                "place": estimate.place,
                "step": estimate.value,
                "ci_low": low,
                "ci_high": high,
                "n": learned.shape[1],
            }
        )
    return pd.DataFrame(rows, columns=list(SELECTION_STEPS.columns))


def selection_steps(tables: Mapping[str, pd.DataFrame], job: Job) -> pd.DataFrame:
    """Return the critical frequencies of every sweep.

    Inputs: `STUDY_selection` of the sweeps with the roles `help`, `law_fit` and `law_test`.
    Config: none.
    """
    rows = [
        critical_frequencies(name.removesuffix("_selection"), table)
        for name, table in tables.items()
    ]
    return validate_sorted(SELECTION_STEPS, pd.concat(rows, ignore_index=True))
