"""What the claims of the theory have in common: how values are read off the tables, and where the paper's own regime is."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np
import pandas as pd

from rarefeat.claims.claim import VARIED, Claim, Measured, Regime
from rarefeat.claims.estimate import Estimate, exponent, of_seeds
from rarefeat.studies.theory.config import Theory, TheoryStudy

CORE = "imbalance_and_pruning"
PRIMARY = "stages_theory"
"""The study with the bias of Lemma D.1 (e), enough neurons for lucky ones, small initial weights, and seeds of its own."""
POINT = f"{PRIMARY}: eps_min 0.9, sigma 0.05"
"""A ratio at which Definition B.1 allows lucky neurons, and the noise of A.2."""
RANGE = f"{PRIMARY}: eps_min 0.7 to 1, sigma 0.05"
LEARNED_RANGE = "stages_learned: eps_min 0.85 to 1, sigma 0.05"
"""Above the step, where exponents in eps_min are fitted, on draws of its own."""
LEARNED = 0.9
"""An exponent in eps_min is fitted over the points at which this share of the replicas has learned the feature."""
LEAST_REPLICAS = 5
NO_LUCKY = "fewer than five replicas have a lucky neuron (Definition B.1)"
NO_T2 = "stage 2 ends in fewer than five replicas: no neuron grows d-fold in norm^2, eq. (61)"
NO_MINORITY = "fewer than five replicas have a neuron of the minority feature"
BY_HAND = "the rule `follow` sets the bias by hand: true or false by construction"

declare = partial(Claim, paper=CORE, primary=POINT, effect=1.0, seeds=30)
"""A claim whose primary row is a mean over the 30 seeds of the paper's own regime."""
EXACT_CONSTANT = "the constant is open: read as 1, a factor of two allowed"


@dataclass(frozen=True)
class Reader:
    """The tables of the theory's studies by name, with the grid of the study `confirmation` and the exponents of scaling."""

    tables: Mapping[str, pd.DataFrame]
    theory: Theory

    def studies(self, *roles: str, table: str = "milestones") -> dict[str, TheoryStudy]:
        """Those of a role whose table is there, the varied ones included."""
        found = self.theory.of_role(*roles)
        return {name: study for name, study in found.items() if f"{name}_{table}" in self.tables}

    def by_seed(self, study: str, metric: str, table: str = "milestones", **where: float | str) -> pd.Series:
        """A metric at one point of a study, by seed: some tables have no row for a replica without such a thing."""
        rows = self.tables[f"{study}_{table}"]
        chosen = rows["metric"] == metric
        for key, value in where.items():
            chosen &= rows[key] == value
        return rows[chosen].set_index("seed")["value"].sort_index()

    def values(self, study: str, metric: str, table: str = "milestones", **where: float | str) -> np.ndarray:
        """The same without the seeds, (seeds,)."""
        return self.by_seed(study, metric, table, **where).to_numpy()

    def points(self, study: str) -> list[tuple[float, float]]:
        """(eps_min, sigma) of a study."""
        return sorted(set(self.tables[f"{study}_milestones"][["eps_min", "sigma"]].itertuples(index=False, name=None)))

    def row(
        self, claim: Claim, study: str, point: str, values: np.ndarray | Estimate, few: str = "", untestable: str = "",
        diverged: int = 0, remark: str = "",
    ) -> Measured:  # fmt: skip
        """A row of a claim: a mean over seeds unless `values` is an estimate; `few` says why fewer than five have a value."""
        estimate = values if isinstance(values, Estimate) else of_seeds(values)
        if few and not untestable and estimate.n < LEAST_REPLICAS:
            untestable = few
        own, varied = self.theory.varied(study)
        regime = Regime(own, f"{varied}{VARIED}{point}") if varied else Regime(own, point)
        return Measured(claim, regime, estimate, untestable, diverged, remark, "varied" if varied else "regime")

    def curves(self, study: str, metric: str, eps_mins: np.ndarray, sigma: float) -> np.ndarray:
        """A metric over eps_min, seed by seed, (n, seeds)."""
        return np.array([self.values(study, metric, eps_min=eps_min, sigma=sigma) for eps_min in eps_mins])

    def power_law(self, claim: Claim, study: str, x: np.ndarray, sigma: float, curves: np.ndarray, few: str) -> Measured:
        """A row about an exponent in eps_min, where the feature is learned: below, a line would run through the step.

        Args:
            x: (n,) eps_min. curves: (n, seeds). few: as in row().
        """
        learned = self.curves(study, "learned", x, sigma).mean(1) >= LEARNED
        x_learned, curves = x[learned], curves[learned]
        untestable = (
            "learned in nine of ten replicas at fewer than three eps_min" if learned.sum() < 3
            else "the curve bends: no power law" if bends(x_learned, curves) else ""
        )  # fmt: skip
        values = exponent(x_learned, curves) if learned.sum() > 2 else np.array([])
        return self.row(claim, study, points_of(x, sigma), values, few, untestable)

    def ranges(self, study: str) -> list[tuple[np.ndarray, float, str]]:
        """Each sigma of a study with its eps_min, where there are three or more, and how to say it."""
        found = []
        points = self.points(study)
        for sigma in sorted({sigma for _, sigma in points}):
            x = np.array([eps_min for eps_min, at in points if at == sigma])
            if len(x) > 2:
                found.append((x, sigma, points_of(x, sigma)))
        return found


def point_of(eps_min: float, sigma: float) -> str:
    """A point, for people."""
    return f"eps_min {eps_min:g}, sigma {sigma:g}"


def points_of(x: np.ndarray, sigma: float) -> str:
    """A range of eps_min, for people."""
    return f"eps_min {x[0]:g} to {x[-1]:g}, sigma {sigma:g}"


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
    quadratic = of_seeds(np.polyfit(log_x, log_y[:, usable], 2)[0])
    low, high = quadratic.interval()
    return not low <= 0 <= high


def log2(values: np.ndarray) -> np.ndarray:
    """NaN where a value is not positive."""
    with np.errstate(divide="ignore", invalid="ignore"):
        found = np.log2(np.asarray(values, dtype=float))
    return np.where(np.isfinite(found), found, np.nan)


def by_seed(table: pd.DataFrame, metric: str, step: int | None = None) -> pd.Series:
    """A metric of a trajectory at one step, the last if none is given, by seed."""
    step = table["step"].max() if step is None else step
    chosen = table[(table["metric"] == metric) & (table["step"] == step)]
    return chosen.set_index("seed")["value"].sort_index()
