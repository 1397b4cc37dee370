"""What the claims of the theory have in common: how values are read off the tables, and where the paper's own regime is."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from rarefeat.claims.estimate import Estimate, estimate_mean, exponent
from rarefeat.claims.measurements import Measurement, measurement
from rarefeat.config.model import Data, Training
from rarefeat.studies.theory.config import Theory, TheoryStudy

LEARNED = 0.9
"""An exponent in eps_min is fitted over the points at which this share of the replicas has learned the feature."""
LEAST_REPLICAS = 5
NO_LUCKY = "fewer than five replicas have a lucky neuron (Definition B.1)"
NO_T2 = "stage 2 ends in fewer than five replicas: no neuron grows d-fold in norm^2, eq. (61)"
NO_MINORITY = "fewer than five replicas have a neuron of the minority feature"
BY_HAND = "the rule `follow` sets the bias by hand: true or false by construction"


@dataclass(frozen=True)
class ClaimTableReader:
    """The tables of the theory's studies by name, with the grid of the study `confirmation` and the exponents of scaling."""

    tables: Mapping[str, pd.DataFrame]
    theory: Theory

    def studies(self, *roles: str, table: str = "milestones") -> dict[str, TheoryStudy]:
        """Those of a role whose table is there, the varied ones included."""
        found = self.theory.studies_with_role(*roles)
        return {name: study for name, study in found.items() if f"{name}_{table}" in self.tables}

    def values(
        self, study: str, metric: str, table: str = "milestones", **where: float | str
    ) -> pd.Series:
        """A metric at one point of a study, by seed: some tables have no row for a replica without such a thing."""
        rows = self.tables[f"{study}_{table}"]
        chosen = rows["metric"] == metric
        for key, value in where.items():
            chosen &= rows[key] == value
        return rows[chosen].set_index("seed")["value"].sort_index()

    def law(
        self, role: str, size: Callable[[Data, Training], float]
    ) -> tuple[dict[str, TheoryStudy], np.ndarray]:
        """The studies of a role that varies one setting, and what a law is in, (studies,)."""
        studies = self.studies(role)
        return studies, np.array(
            [size(study.data, study.training) for study in studies.values()], dtype=float
        )

    def points(self, study: str) -> list[tuple[float, float]]:
        """(eps_min, sigma) of a study."""
        return sorted(
            set(
                self.tables[f"{study}_milestones"][["eps_min", "sigma"]].itertuples(
                    index=False, name=None
                )
            )
        )

    def row(
        self, claim: str, study: str, place: Mapping[str, Any], values: pd.Series | Estimate, few: str = "",
        untestable: str = "", diverged: int = 0, remark: str = "",
    ) -> Measurement:  # fmt: skip
        """A row of a claim: a mean over seeds unless `values` is an estimate; `few` says why fewer than five have a value."""
        known = (
            values.n if isinstance(values, Estimate) else int(np.isfinite(np.asarray(values)).sum())
        )
        if few and not untestable and known < LEAST_REPLICAS:
            untestable = few
        own, varied = self.theory.varied(study)
        return measurement(
            claim,
            own,
            place,
            values,
            untestable=untestable,
            diverged=diverged,
            remark=remark,
            varied=varied,
        )

    def curves(
        self, study: str, metric: str, eps_mins: np.ndarray, sigma: float, table: str = "milestones"
    ) -> pd.DataFrame:
        """A metric over eps_min, a row for each, and a column for each seed."""
        return pd.DataFrame(
            [
                self.values(study, metric, table, eps_min=eps_min, sigma=sigma)
                for eps_min in eps_mins
            ]
        )

    def power_law(
        self, claim: str, study: str, x: np.ndarray, sigma: float, curves: pd.DataFrame, few: str
    ) -> Measurement:
        """A row about an exponent in eps_min, where the feature is learned: below, a line would run through the step.

        Args:
            x: (n,) eps_min. curves: a row for each, a column for each seed. few: as in row().
        """
        learned = self.curves(study, "learned", x, sigma).mean(axis=1) >= LEARNED
        x_learned, curves = x[learned], curves[learned.to_numpy()]
        untestable = (
            "learned in nine of ten replicas at fewer than three eps_min" if learned.sum() < 3
            else "the curve bends: no power law" if bends(x_learned, np.ascontiguousarray(curves)) else ""
        )  # fmt: skip
        values = (
            by_seed_of(exponent, x_learned, curves) if learned.sum() > 2 else pd.Series(dtype=float)
        )
        return self.row(claim, study, range_of(x, sigma), values, few, untestable)

    def ranges(self, study: str) -> list[tuple[np.ndarray, float]]:
        """Each sigma of a study with its eps_min, where there are three or more."""
        points = self.points(study)
        found = {
            sigma: np.array([eps_min for eps_min, at in points if at == sigma])
            for _, sigma in sorted(points)
        }
        return [(found[sigma], sigma) for sigma in sorted(found) if len(found[sigma]) > 2]


def by_seed_of(
    slope: Callable[[np.ndarray, np.ndarray], np.ndarray], x: np.ndarray, curves: pd.DataFrame
) -> pd.Series:
    """A slope over some points, (n,), of curves with a row for each and a column for each seed."""
    # In the order of rows: sums in another order have other last bits.
    return pd.Series(slope(x, np.ascontiguousarray(curves)), curves.columns)


def range_of(x: np.ndarray, sigma: float) -> dict[str, Any]:
    """A range of eps_min, as a regime has it."""
    return {"eps_min": (x[0], x[-1]), "sigma": sigma}


def slope(x: np.ndarray, curves: np.ndarray) -> np.ndarray:
    """Least-squares slope in x, seed by seed, (n,), (n, seeds) -> (seeds,)."""
    centred = x - x.mean()
    return centred @ curves / (centred @ centred)


def bends(x: np.ndarray, curves: np.ndarray) -> bool:
    """Whether log y is shown to be no line in log x: the mean over seeds of a line's own quadratic term, two-sided at 5 %."""
    if len(x) < 3:
        return False
    log_x = np.log(x) - np.log(x).mean()
    with np.errstate(divide="ignore", invalid="ignore"):
        log_y = np.log(curves)
    usable = np.isfinite(log_y).all(0)
    if usable.sum() < LEAST_REPLICAS:
        return False
    quadratic = estimate_mean(np.polyfit(log_x, log_y[:, usable], 2)[0])
    low, high = quadratic.interval()
    return not low <= 0 <= high


def log2(values: pd.Series) -> pd.Series:
    """NaN where a value is not positive."""
    return np.log2(values.where(values > 0)).where(np.isfinite)


def unchanged(values: pd.Series) -> pd.Series:
    """Values in their own units."""
    return values


def values_by_seed(table: pd.DataFrame, metric: str, step: int | None = None) -> pd.Series:
    """A metric of a trajectory at one step, the last if none is given, by seed."""
    step = table["step"].max() if step is None else step
    chosen = table[(table["metric"] == metric) & (table["step"] == step)]
    return chosen.set_index("seed")["value"].sort_index()
