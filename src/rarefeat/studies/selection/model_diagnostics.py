"""Diagnostics of the critical-frequency model that can fail.

They say whether its errors depend on the regime, and whether its probabilities are calibrated. A
ridge regression on the coordinates of the regime is the baseline.
"""

from collections.abc import Callable

import numpy as np
import pandas as pd
from scipy.optimize import minimize
from scipy.special import logit

from rarefeat.claims.estimate import Estimate

COORDINATES = ("decay", "share", "C", "L", "tau", "d", "d1", "m", "sigma_0")
"""Parameters that are drawn for a regime."""
LOGARITHMS = ("decay", "C", "tau", "d1", "sigma_0")
"""Coordinates that enter the regressions as logarithms."""
MIN_PROBABILITY = 0.005
"""Probabilities are clipped to this distance from 0 and 1: one replica of 200."""
PENALTY = 1.0
"""Ridge penalty on standardised coordinates: a prior of one standard deviation for each."""


def jackknife(statistic: Callable[[list], float], items: list) -> Estimate:
    """Estimate a statistic of a list of regimes, with its jackknife error over them.

    NaN where the statistic is not defined for one regime left out.
    """
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
    """Compute the adjusted R^2 of the model's error on the nine coordinates.

    The error is the predicted minus the measured critical frequency. R^2 is 0 where it does not
    depend on the regime.
    """
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


def gaussian_process(fit: pd.DataFrame, test: pd.DataFrame) -> np.ndarray:
    """Predict critical frequencies of a test by a Gaussian process on the nine coordinates.

    One length scale, the variance and the noise are those of the largest marginal likelihood.
    """
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

    fit = fit[fit["step"].notna()]
    kernel = ConstantKernel() * RBF(3.0) + WhiteKernel()
    model = GaussianProcessRegressor(kernel, normalize_y=True, random_state=0)
    model.fit(coordinates(fit, fit), fit["step"])
    return np.clip(model.predict(coordinates(test, fit)), 0.0, 1.0)


def constant(fit: pd.DataFrame, test: pd.DataFrame) -> np.ndarray:
    """Predict the mean critical frequency of the fitted regimes everywhere."""
    return np.full(len(test), fit["step"].mean())


BASELINES = {"constant": constant, "ridge": ridge, "Gaussian process": gaussian_process}
"""Predictions from regimes alone, without the model."""


def replicas(outcomes: pd.DataFrame) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return clipped probabilities and learning outcomes of the replicas, by regime."""
    clipped = outcomes["probability"].clip(MIN_PROBABILITY, 1 - MIN_PROBABILITY)
    groups = outcomes.assign(probability=clipped).groupby("point", sort=False)
    return [(group["probability"].to_numpy(), group["learned"].to_numpy()) for _, group in groups]


def calibration_slope(outcomes: pd.DataFrame) -> Estimate:
    """Fit the slope of a logistic regression of outcomes on the logit of the probability.

    It is 1 where the probabilities are true.
    """

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
    """Compute the AUC of the margin over pairs of replicas at one eps_min, by regime.

    Ties count half; NaN for a regime without a pair of different outcomes.
    """
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
