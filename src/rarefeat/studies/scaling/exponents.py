"""Exponents in d, fitted and compared with the bounds of Theorem 3.1."""

from collections.abc import Mapping

import numpy as np
import pandas as pd
from scipy.optimize import brentq
from scipy.special import ndtri, stdtrit

from rarefeat.studies.scaling.exponent_bounds import bounds
from rarefeat.studies.scaling.tables import SCALING_EXPONENTS
from rarefeat.workflow.files.schema import validate
from rarefeat.workflow.run.job import Job


def power_law(d: np.ndarray, estimate: np.ndarray, error: np.ndarray) -> tuple[float, float, float]:
    """Fit the exponent of estimate ~ d^exponent with its 95 % interval.

    A random-effects regression, log estimate = a + b log d + u + e: e has the known standard
    error of the logarithm; u, of a variance tau^2 common to all points, is what a power law
    misses. tau^2 is 0, or where the weighted squares of the residuals equal their n - 2 degrees
    of freedom (Paule & Mandel 1982). The interval is Student's with n - 2, as few points say
    little about tau^2: precise estimates that lie on no power law give a wide interval, not a
    precise exponent.

    d (n,), estimate, error (n,).
    """
    x, y, variance = np.log(d), np.log(estimate), np.maximum((error / estimate) ** 2, 1e-12)

    def fit(tau2: float) -> tuple[float, float, float]:
        """Return the slope, its variance, and the weighted squares of the residuals."""
        weight = 1 / (variance + tau2)
        x0, y0 = np.average(x, weights=weight), np.average(y, weights=weight)
        spread = weight @ (x - x0) ** 2
        slope = weight @ ((x - x0) * (y - y0)) / spread
        return slope, 1 / spread, weight @ (y - y0 - slope * (x - x0)) ** 2

    freedom = len(x) - 2
    # At this tau^2 the weighted squares are at most their degrees of freedom.
    largest = np.polyfit(x, y, 1, full=True)[1].sum() / freedom
    misfit = fit(0.0)[2] > freedom
    tau2 = (
        brentq(lambda value: fit(value)[2] - freedom, 0.0, largest, xtol=1e-15) if misfit else 0.0
    )
    slope, squared_error, _ = fit(tau2)
    half = stdtrit(freedom, 0.975) * np.sqrt(squared_error)
    return slope, slope - half, slope + half


def exponent_rows(
    quantity: str, ratio: float, d1_power: float | None, points: pd.DataFrame
) -> list[dict]:
    """Fit the exponent of a quantity from its points.

    Where the bound is from below, it is fitted also without the factor 1 / sqrt(log d) that eq.
    (238) has and eq. (239) drops. A quantity of which nothing was seen has no logarithm: such
    points are left out, and counted.
    """
    positive = points[points["estimate"] > 0]
    if positive["d"].nunique() < 3:
        return []
    bound = bounds(ratio)[quantity]
    d, estimate, error = (
        positive[name].to_numpy(dtype=float) for name in ("d", "estimate", "error")
    )
    rows = []
    for log_power in (0.0, -0.5) if bound.side == "at least" else (0.0,):
        exponent, low, high = power_law(
            d, estimate / np.log(d) ** log_power, error / np.log(d) ** log_power
        )
        rows.append(
            {
                "quantity": quantity, "ratio": ratio, "d1_power": d1_power,
                "d_low": int(d.min()), "d_high": int(d.max()), "log_power": log_power,
                "exponent": exponent, "ci_low": low, "ci_high": high, "n": len(d),
                "left_out": len(points) - len(positive),
                "bound": bound.exponent, "bound_side": bound.side,
                "consistent": bool(
                    high >= bound.exponent if bound.side == "at least" else low <= bound.exponent
                ),
            }
        )  # fmt: skip
    return rows


def exponents_table(lucky_sets: pd.DataFrame, trained: pd.DataFrame) -> pd.DataFrame:
    """Fit the exponents in d that the paper bounds.

    The test is whether the fitted exponent over the measured range of d contradicts the bound,
    with its whole interval on the wrong side. The bounds are one-sided, for d to infinity and up
    to powers of log d, so that neither answer proves or refutes them. The sets at initialisation
    are fitted over every d, and over the upper half, which is closer to the limit. After training
    a point is a size (d, m), its mean over seeds with the standard error; sizes of every C_m
    share a fit, as the bounds are on shares of m.
    """
    rows = []
    for quantity, low, high in (
        ("lucky_probability", "lucky_ci_low", "lucky_ci_high"),
        ("ordinary_features", "ordinary_ci_low", "ordinary_ci_high"),
        ("largest_features", "largest_ci_low", "largest_ci_high"),
    ):
        for ratio, group in lucky_sets.sort_values("d").groupby("ratio"):
            error = (group[high] - group[low]) / (2 * ndtri(0.975))
            points = pd.DataFrame({"d": group["d"], "estimate": group[quantity], "error": error})
            for fitted in (points, points.iloc[len(points) // 2 :]):
                rows += exponent_rows(quantity, ratio, None, fitted)
    per_neuron = {
        "pure_minority_share": trained["pure_minority_neurons"] / trained["m"],
        "single_minority_share": trained["single_minority_neurons"] / trained["m"],
        "learned_features": trained["learned_features"],
    }
    for quantity, values in per_neuron.items():
        for (ratio, d1_power), group in trained.assign(value=values).groupby(["ratio", "d1_power"]):
            sizes = (
                group.groupby(["d", "m"])["value"].agg(estimate="mean", error="sem").reset_index()
            )
            rows += exponent_rows(quantity, ratio, d1_power, sizes)
    table = pd.DataFrame(rows, columns=list(SCALING_EXPONENTS.columns)).astype({"d1_power": float})
    return validate(SCALING_EXPONENTS, table)


def scaling_exponents(tables: Mapping[str, pd.DataFrame], job: Job) -> pd.DataFrame:
    """Return the exponents of the sets at initialisation and after training.

    Inputs are the tables `lucky_sets` and `scaling`; the output is the table `scaling_exponents`.
    """
    return exponents_table(tables["lucky_sets"], tables["scaling"])
