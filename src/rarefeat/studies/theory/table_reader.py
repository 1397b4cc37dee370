"""What the claims of the theory read of its tables, and how a measurement of one is made."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from rarefeat.claims.estimate import Estimate, estimate_mean, exponent
from rarefeat.claims.measurements import Measurement, measurement
from rarefeat.studies.theory import Theory, TheoryStudy
from rarefeat.workflow.config.model import Data, Training

LEARNED = 0.9
"""Share of replicas that must have learned the feature at a point of a fit over eps_min."""
LEAST_REPLICAS = 5
Units = Callable[[pd.Series], pd.Series]


@dataclass(frozen=True)
class ClaimTableReader:
    """The tables of the theory's studies, with the grid of `confirmation` and the exponents."""

    tables: Mapping[str, pd.DataFrame]
    theory: Theory

    def studies(self, *roles: str, table: str = "milestones") -> dict[str, TheoryStudy]:
        """Return the studies of some roles whose table exists, the varied ones included."""
        studies = self.theory.studies_with_role(*roles)
        return {name: study for name, study in studies.items() if f"{name}_{table}" in self.tables}

    def values(
        self, study: str, metric: str, table: str = "milestones", **where: float | str
    ) -> pd.Series:
        """Return a metric at one point of a study by seed; a replica may have no row."""
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
        sizes = [size(study.data, study.training) for study in studies.values()]
        return studies, np.array(sizes, dtype=float)

    def points(self, study: str) -> list[dict[str, float]]:
        """Return each point of a study."""
        axes = ["eps_min", "sigma"]
        points = self.tables[f"{study}_milestones"][axes].itertuples(index=False, name=None)
        return [dict(zip(axes, point, strict=True)) for point in sorted(set(points))]

    def ranges(self, study: str) -> Iterator[tuple[np.ndarray, float]]:
        """Yield the eps_min of each sigma of a study that has three or more."""
        points = self.points(study)
        for sigma in sorted({point["sigma"] for point in points}):
            x = np.array([point["eps_min"] for point in points if point["sigma"] == sigma])
            if len(x) > 2:
                yield x, sigma

    def curves(
        self, study: str, metric: str, x: np.ndarray, sigma: float, table: str = "milestones"
    ) -> pd.DataFrame:
        """Return a metric over eps_min x (n,): a row for each, and a column for each seed."""
        return pd.DataFrame(
            [self.values(study, metric, table, eps_min=eps_min, sigma=sigma) for eps_min in x]
        )

    def row(
        self, claim: str, study: str, place: Mapping[str, Any], values: pd.Series | Estimate,
        few: str = "", untestable: str = "", **fields: Any,
    ) -> Measurement:  # fmt: skip
        """Return a measurement of a claim; `few` says why fewer than five values do not test it."""
        is_fit = isinstance(values, Estimate)
        n_finite = values.n if is_fit else int(np.isfinite(np.asarray(values)).sum())
        if few and n_finite < LEAST_REPLICAS:
            untestable = untestable or few
        base, varied = self.theory.varied(study)
        return measurement(
            claim, base, place, values, untestable=untestable, varied=varied, **fields
        )

    def at_point(
        self, study: str, point: dict[str, float], claims: Iterable[tuple[str, str, Units, str]]
    ) -> Iterator[Measurement]:
        """Yield each claim about a metric at one point, in units, with the reason of too few."""
        for claim, metric, units, few in claims:
            yield self.row(claim, study, point, units(self.values(study, metric, **point)), few)

    def power_law(
        self, claim: str, study: str, x: np.ndarray, sigma: float, curves: pd.DataFrame, few: str
    ) -> Measurement:
        """Return a measurement of an exponent in eps_min where the feature is learned."""
        learned = self.curves(study, "learned", x, sigma).mean(axis=1) >= LEARNED
        x_learned, curves = x[learned], curves[learned.to_numpy()]
        untestable, values = "", pd.Series(dtype=float)
        if learned.sum() < 3:
            untestable = "learned in nine of ten replicas at fewer than three eps_min"
        else:
            values = by_seed_of(exponent, x_learned, curves)
            if bends(x_learned, np.ascontiguousarray(curves)):
                untestable = "the curve bends: no power law"
        return self.row(claim, study, range_of(x, sigma), values, few, untestable)


def by_seed_of(
    slope: Callable[[np.ndarray, np.ndarray], np.ndarray], x: np.ndarray, curves: pd.DataFrame
) -> pd.Series:
    """Return a slope over some points x (n,), seed by seed."""
    # In the order of rows: sums in another order have other last bits.
    return pd.Series(slope(x, np.ascontiguousarray(curves)), curves.columns)


def range_of(x: np.ndarray, sigma: float) -> dict[str, Any]:
    """Return a range of eps_min in the form of a regime."""
    return {"eps_min": (x[0], x[-1]), "sigma": sigma}


def slope(x: np.ndarray, curves: np.ndarray) -> np.ndarray:
    """Return the least-squares slope in x by seed, (n,), (n, seeds) -> (seeds,)."""
    centred = x - x.mean()
    return centred @ curves / (centred @ centred)


def bends(x: np.ndarray, curves: np.ndarray) -> bool:
    """Return whether log y is no line in log x, at 5 %, by the quadratic terms of all seeds."""
    if len(x) < 3:
        return False
    log_x = np.log(x) - np.log(x).mean()
    with np.errstate(divide="ignore", invalid="ignore"):
        log_y = np.log(curves)
    usable = np.isfinite(log_y).all(0)
    if usable.sum() < LEAST_REPLICAS:
        return False
    low, high = estimate_mean(np.polyfit(log_x, log_y[:, usable], 2)[0]).interval()
    return not low <= 0 <= high


def log2(values: pd.Series) -> pd.Series:
    """Return log2 of values; NaN where a value is not positive."""
    return np.log2(values.where(values > 0)).where(np.isfinite)


def unchanged(values: pd.Series) -> pd.Series:
    """Return values in their own units."""
    return values
