"""The law for the step, judged so that it can fail: what its errors depend on, and whether its probabilities are true."""

import numpy as np
import pandas as pd
from scipy.optimize import minimize
from scipy.special import logit

from rarefeat.claims.estimate import Estimate

COORDINATES = ("decay", "share", "C", "L", "tau", "d", "d1", "m", "sigma_0")
"""What is drawn of a regime."""
LOGARITHMS = ("decay", "C", "tau", "d1", "sigma_0")
BOUNDED = 0.005
"""No probability is taken to be nearer to 0 or 1: one replica of 200."""
PENALTY = 1.0
"""Of ridge, on standardised coordinates: a prior of one standard deviation for each."""


def jackknife(statistic, parts: list) -> Estimate:
    """A statistic of a list of regimes, with the jackknife's error over them; NaN where it is not defined for one left out."""
    n = len(parts)
    value = statistic(parts)
    others = np.array([statistic(parts[:i] + parts[i + 1 :]) for i in range(n)])
    return Estimate(
        value, float(np.sqrt((n - 1) / n * ((others - others.mean()) ** 2).sum())), n - 1, n
    )


def coordinates(table: pd.DataFrame, like: pd.DataFrame) -> np.ndarray:
    """The nine coordinates of each regime, standardised as those of `like` are, (n, 9)."""

    def plain(of: pd.DataFrame) -> np.ndarray:
        return np.column_stack(
            [
                np.log(of[name]) if name in LOGARITHMS else of[name].astype(float)
                for name in COORDINATES
            ]
        )

    spread = plain(like).std(0)
    return (plain(table) - plain(like).mean(0)) / np.where(spread > 0, spread, 1.0)


def explained(table: pd.DataFrame) -> Estimate:
    """Adjusted R^2 of predicted less measured step on the nine coordinates: 0 where the error does not depend on the regime."""
    table = table[table["step"].notna()]

    def adjusted(indices: list[int]) -> float:
        part = table.iloc[indices]
        x, y = coordinates(part, part), (part["predicted"] - part["step"]).to_numpy()
        design = np.column_stack([np.ones(len(x)), x])
        left = y - design @ np.linalg.lstsq(design, y, rcond=None)[0]
        freedom = len(y) - design.shape[1]
        return 1 - left @ left / freedom / y.var(ddof=1) if freedom > 0 and np.ptp(y) else np.nan

    return jackknife(adjusted, list(range(len(table))))


def ridge(fit: pd.DataFrame, test: pd.DataFrame) -> np.ndarray:
    """Steps of the regimes of `test` by ridge regression on the nine coordinates of those of `fit`, (n,)."""
    fit = fit[fit["step"].notna()]
    x, mean = coordinates(fit, fit), fit["step"].mean()
    slopes = np.linalg.solve(
        x.T @ x + PENALTY * np.eye(x.shape[1]), x.T @ (fit["step"] - mean).to_numpy()
    )
    return np.clip(mean + coordinates(test, fit) @ slopes, 0.0, 1.0)


def replicas(fate: pd.DataFrame) -> list[tuple[np.ndarray, np.ndarray]]:
    """By regime the law's probabilities, none of them 0 or 1, and who learned."""
    return [
        (part["probability"].clip(BOUNDED, 1 - BOUNDED).to_numpy(), part["learned"].to_numpy())
        for _, part in fate.groupby("point", sort=False)
    ]


def calibration_slope(fate: pd.DataFrame) -> Estimate:
    """Slope of a logistic regression of who learned on the logit of the law's probability: 1 where that is true."""

    def slope(parts: list) -> float:
        x, y = (
            logit(np.concatenate([p for p, _ in parts])),
            np.concatenate([true for _, true in parts]),
        )

        def loss(at: np.ndarray) -> tuple[float, np.ndarray]:
            z = at[0] + at[1] * x
            off = 1 / (1 + np.exp(-z)) - y
            return float((np.logaddexp(0, z) - y * z).mean()), np.array(
                [off.mean(), (off * x).mean()]
            )

        return float(minimize(loss, np.array([0.0, 1.0]), jac=True, method="BFGS").x[1])

    return jackknife(slope, replicas(fate))


def excess_loss(fate: pd.DataFrame) -> np.ndarray:
    """Mean log-loss of each regime less what it would be were the law's probabilities true, (regimes,)."""
    found = []
    for p, true in replicas(fate):
        found.append(
            -(true * np.log(p) + (1 - true) * np.log(1 - p)).mean()
            + (p * np.log(p) + (1 - p) * np.log(1 - p)).mean()
        )
    return np.array(found)


def auc_within(fate: pd.DataFrame) -> np.ndarray:
    """Of each regime the AUC of the law's margin over pairs of replicas at one eps_min, (regimes,); NaN without such a pair."""
    found = []
    for _, regime in fate.groupby("point", sort=False):
        above, pairs = 0.0, 0
        for _, part in regime.groupby("eps_min"):
            margin, true = part["margin"].to_numpy(), part["learned"].to_numpy() > 0.5
            difference = margin[true][:, None] - margin[~true]
            above += (difference > 0).sum() + (difference == 0).sum() / 2
            pairs += difference.size
        found.append(above / pairs if pairs else np.nan)
    return np.array(found)
