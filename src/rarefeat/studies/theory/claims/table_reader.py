"""The reader of the tables that the claims of the theory share."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from rarefeat.claims.estimate import Estimate, estimate_mean, exponent
from rarefeat.claims.measurements import Measurement, measurement
from rarefeat.studies.theory.config import Theory, TheoryStudy
from rarefeat.workflow.config.model import Data, Training

LEARNED = 0.9
"""Share of replicas that must have learned the feature at a point of a fit over eps_min."""
LEAST_REPLICAS = 5
NO_LUCKY = "fewer than five replicas have a lucky neuron (Definition B.1)"
NO_T2 = "stage 2 ends in fewer than five replicas: no neuron grows d-fold in norm^2, eq. (61)"
NO_MINORITY = "fewer than five replicas have a neuron of the minority feature"
BY_HAND = "the rule `follow` sets the bias by hand: true or false by construction"


@dataclass(frozen=True)
class ClaimTableReader:
    """A reader of the tables of the theory's studies, by name.

    They include the grid of the study `confirmation` and the exponents of scaling.
    """

    tables: Mapping[str, pd.DataFrame]
    theory: Theory

    def studies(self, *roles: str, table: str = "milestones") -> dict[str, TheoryStudy]:
        """Return the studies of some roles whose table exists, the varied ones included."""
        studies = self.theory.studies_with_role(*roles)
        return {name: study for name, study in studies.items() if f"{name}_{table}" in self.tables}

    def values(
        self, study: str, metric: str, table: str = "milestones", **where: float | str
    ) -> pd.Series:
        """Return a metric at one point of a study, by seed.

        Some tables have no row for a replica without the measured object.
        """
        rows = self.tables[f"{study}_{table}"]
        chosen = rows["metric"] == metric
        for key, value in where.items():
            chosen &= rows[key] == value
        return rows[chosen].set_index("seed")["value"].sort_index()

    def law(
        self, role: str, size: Callable[[Data, Training], float]
    ) -> tuple[dict[str, TheoryStudy], np.ndarray]:
        """Return the studies of a role that varies one setting, and its sizes, (studies,)."""
        studies = self.studies(role)
        return studies, np.array(
            [size(study.data, study.training) for study in studies.values()], dtype=float
        )

    def points(self, study: str) -> list[tuple[float, float]]:
        """Return (eps_min, sigma) of each point of a study."""
        return sorted(
            set(
                self.tables[f"{study}_milestones"][["eps_min", "sigma"]].itertuples(
                    index=False, name=None
                )
            )
        )

    def row(
        self, claim: str, study: str, place: Mapping[str, Any], values: pd.Series | Estimate,
        few: str = "", untestable: str = "", diverged: int = 0, remark: str = "",
        premise: pd.Series | None = None,
    ) -> Measurement:  # fmt: skip
        """Return a measurement of a claim."""
        n_finite = (
            values.n if isinstance(values, Estimate) else int(np.isfinite(np.asarray(values)).sum())
        )
        if few and not untestable and n_finite < LEAST_REPLICAS:
            untestable = few
        base, varied = self.theory.varied(study)
        return measurement(
            claim,
            base,
            place,
            values,
            untestable=untestable,
            diverged=diverged,
            remark=remark,
            premise=premise,
            varied=varied,
        )

    def curves(
        self, study: str, metric: str, eps_mins: np.ndarray, sigma: float, table: str = "milestones"
    ) -> pd.DataFrame:
        """Return a metric over eps_min, a row for each, and a column for each seed.

        eps_mins (n,).
        """
        return pd.DataFrame(
            [
                self.values(study, metric, table, eps_min=eps_min, sigma=sigma)
                for eps_min in eps_mins
            ]
        )

    def power_law(
        self, claim: str, study: str, x: np.ndarray, sigma: float, curves: pd.DataFrame, few: str
    ) -> Measurement:
        """Return a measurement of an exponent in eps_min, where the feature is learned: below, a
        line would run over the step.

        x (n,).
        """
        learned = self.curves(study, "learned", x, sigma).mean(axis=1) >= LEARNED
        x_learned, curves = x[learned], curves[learned.to_numpy()]
        untestable = (
            "learned in nine of ten replicas at fewer than three eps_min" if learned.sum() < 3
            else "the curve bends: no power"
                 " law" if bends(x_learned, np.ascontiguousarray(curves)) else ""
        )  # fmt: skip
        values = (
            by_seed_of(exponent, x_learned, curves) if learned.sum() > 2 else pd.Series(dtype=float)
        )
        return self.row(claim, study, range_of(x, sigma), values, few, untestable)

    def ranges(self, study: str) -> list[tuple[np.ndarray, float]]:
        """Return each sigma of a study with its eps_min, where there are three or more."""
        points = self.points(study)
        eps_mins = {
            sigma: np.array([eps_min for eps_min, point_sigma in points if point_sigma == sigma])
            for _, sigma in sorted(points)
        }
        return [(eps_mins[sigma], sigma) for sigma in sorted(eps_mins) if len(eps_mins[sigma]) > 2]


def by_seed_of(
    slope: Callable[[np.ndarray, np.ndarray], np.ndarray], x: np.ndarray, curves: pd.DataFrame
) -> pd.Series:
    """Compute a slope over some points, seed by seed.

    x (n,).
    """
    # In the order of rows: sums in another order have other last bits.
    return pd.Series(slope(x, np.ascontiguousarray(curves)), curves.columns)


def range_of(x: np.ndarray, sigma: float) -> dict[str, Any]:
    """Return a range of eps_min in the form of a regime."""
    return {"eps_min": (x[0], x[-1]), "sigma": sigma}


def slope(x: np.ndarray, curves: np.ndarray) -> np.ndarray:
    """Compute the least-squares slope in x by seed, (n,), (n, seeds) -> (seeds,)."""
    centred = x - x.mean()
    return centred @ curves / (centred @ centred)


def bends(x: np.ndarray, curves: np.ndarray) -> bool:
    """Return whether log y is shown to be no line in log x.

    The test is two-sided at 5 %, of the mean over seeds of the quadratic term of each curve.
    """
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
    """Return log2 of values; NaN where a value is not positive."""
    return np.log2(values.where(values > 0)).where(np.isfinite)


def unchanged(values: pd.Series) -> pd.Series:
    """Return values in their own units."""
    return values


def values_by_seed(table: pd.DataFrame, metric: str, step: int | None = None) -> pd.Series:
    """Return a metric of a trajectory at one step, by seed."""
    step = table["step"].max() if step is None else step
    chosen = table[(table["metric"] == metric) & (table["step"] == step)]
    return chosen.set_index("seed")["value"].sort_index()
