"""Critical frequency of a rare feature, and diagnostics of its model that can fail.

It is the eps_min at which half of the replicas learn the feature: the centre of a logistic fit of
the column `learned`, a cosine of at least 0.5 at T. The diagnostics say whether the model's errors
depend on the regime, and whether its probabilities are calibrated. A ridge regression on the
coordinates of the regime is the baseline.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy.optimize import minimize
from scipy.special import logit, stdtrit

from rarefeat.claims.estimate import Estimate
from rarefeat.model.logistic_fit import fit_logistic

BELOW, AMONG, ABOVE = "below", "among", "above"
COLUMNS = ["study", "point", "arm", "place", "step", "ci_low", "ci_high", "n"]


COORDINATES = ("decay", "share", "C", "L", "tau", "d", "d1", "m", "sigma_0")
"""Parameters that are drawn for a regime."""
LOGARITHMS = ("decay", "C", "tau", "d1", "sigma_0")
"""Coordinates that enter the regressions as logarithms."""
MIN_PROBABILITY = 0.005
"""Probabilities are clipped to this distance from 0 and 1: one replica of 200."""
PENALTY = 1.0
"""Ridge penalty on standardised coordinates: a prior of one standard deviation for each."""


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
        """Return the 95 % interval by the jackknife over seeds, whose streams all eps_min share.

        Where all seeds agree, it is the gap. NaN with a single seed.
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
    """Estimate the eps_min at which half have learned, of a row for each and a column by seed."""
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


def jackknife(statistic: Callable[[list], float], items: list) -> Estimate:
    """Estimate a statistic of regimes with its jackknife error; NaN if one left out has none."""
    n = len(items)
    others = np.array([statistic(items[:i] + items[i + 1 :]) for i in range(n)])
    error = np.sqrt((n - 1) / n * ((others - others.mean()) ** 2).sum())
    return Estimate(statistic(items), float(error), n - 1, n)


def coordinates(table: pd.DataFrame, reference: pd.DataFrame) -> np.ndarray:
    """Return the coordinates of each regime, (n, 9), standardised by those of a reference."""

    def raw(regimes: pd.DataFrame) -> np.ndarray:
        return np.column_stack(
            [
                np.log(regimes[name]) if name in LOGARITHMS else regimes[name].astype(float)
                for name in COORDINATES
            ]
        )

    spread = raw(reference).std(0)
    return (raw(table) - raw(reference).mean(0)) / np.where(spread > 0, spread, 1.0)


def explained(table: pd.DataFrame) -> Estimate:
    """Compute the adjusted R^2 of predicted minus measured frequencies on the coordinates."""
    table = table[table["step"].notna()]

    def adjusted(indices: list[int]) -> float:
        regimes = table.iloc[indices]
        x = coordinates(regimes, regimes)
        y = (regimes["predicted"] - regimes["step"]).to_numpy()
        design = np.column_stack([np.ones(len(x)), x])
        left = y - design @ np.linalg.lstsq(design, y, rcond=None)[0]
        freedom = len(y) - design.shape[1]
        return 1 - left @ left / freedom / y.var(ddof=1) if freedom > 0 and np.ptp(y) else np.nan

    return jackknife(adjusted, list(range(len(table))))


def ridge(fit: pd.DataFrame, test: pd.DataFrame) -> np.ndarray:
    """Predict critical frequencies of a test by ridge regression on the nine coordinates."""
    fit = fit[fit["step"].notna()]
    x, mean = coordinates(fit, fit), fit["step"].mean()
    slopes = np.linalg.solve(
        x.T @ x + PENALTY * np.eye(x.shape[1]), x.T @ (fit["step"] - mean).to_numpy()
    )
    return np.clip(mean + coordinates(test, fit) @ slopes, 0.0, 1.0)


def constant(fit: pd.DataFrame, test: pd.DataFrame) -> np.ndarray:
    """Predict the mean critical frequency of the fitted regimes everywhere."""
    return np.full(len(test), fit["step"].mean())


def replicas(outcomes: pd.DataFrame) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return clipped probabilities and learning outcomes of the replicas, by regime."""
    clipped = outcomes["probability"].clip(MIN_PROBABILITY, 1 - MIN_PROBABILITY)
    groups = outcomes.assign(probability=clipped).groupby("point", sort=False)
    return [(group["probability"].to_numpy(), group["learned"].to_numpy()) for _, group in groups]


def calibration_slope(outcomes: pd.DataFrame) -> Estimate:
    """Fit the slope of outcomes on the probability's logit: 1 where probabilities are true."""

    def slope(regimes: list) -> float:
        x, y = (np.concatenate(columns) for columns in zip(*regimes, strict=True))
        x = logit(x)

        def loss(line: np.ndarray) -> tuple[float, np.ndarray]:
            z = line[0] + line[1] * x
            residual = 1 / (1 + np.exp(-z)) - y
            gradient = np.array([residual.mean(), (residual * x).mean()])
            return float((np.logaddexp(0, z) - y * z).mean()), gradient

        return float(minimize(loss, np.array([0.0, 1.0]), jac=True, method="BFGS").x[1])

    return jackknife(slope, replicas(outcomes))


def excess_loss(outcomes: pd.DataFrame) -> np.ndarray:
    """Compute the mean log-loss of each regime beyond that if calibrated."""
    return np.array(
        [
            -(true * np.log(p) + (1 - true) * np.log(1 - p)).mean()
            + (p * np.log(p) + (1 - p) * np.log(1 - p)).mean()
            for p, true in replicas(outcomes)
        ]
    )


def auc_within(outcomes: pd.DataFrame) -> np.ndarray:
    """Compute the AUC of the margin within an eps_min, by regime; NaN for equal outcomes."""
    aucs = []
    for _, regime in outcomes.groupby("point", sort=False):
        above, pairs = 0.0, 0
        for _, group in regime.groupby("eps_min"):
            margin, true = group["margin"].to_numpy(), group["learned"].to_numpy() > 0.5
            difference = margin[true][:, None] - margin[~true]
            above += (difference > 0).sum() + (difference == 0).sum() / 2
            pairs += difference.size
        aucs.append(above / pairs if pairs else np.nan)
    return np.array(aucs)
