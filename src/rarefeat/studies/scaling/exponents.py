"""Exponents in d, fitted and compared with the bounds of Theorem 3.1."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import Float
from scipy.optimize import brentq
from scipy.special import ndtri, stdtrit

from rarefeat.model.thresholds import GAMMA

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class ExponentBound(NamedTuple):
    """A one-sided bound on the exponent of a quantity in d."""

    side: Literal["at least", "at most"]
    exponent: float


def bounds(ratio: float) -> dict[str, ExponentBound]:
    """Return the bounds of imbalance_and_pruning by quantity at ratio = eps_min / eps_max.

    At initialisation, with gamma: lucky_probability is |M_j^*| / m of Lemma B.2(c), eq. (31),
    (32) and (239), and ordinary_features the mean |N_i| of eq. (247), largest_features the largest
    of Lemma B.2(d). After training, by Theorem 3.1 without gamma: at least m d^(-1/ratio^2) neurons
    with N_i = {j}, counted by purity or by eq. (12) and (13), and |N_i| of eq. (14), which is
    learned_features.
    """
    ordinary = ExponentBound("at most", 1 - ratio**2 * (1 - GAMMA))
    return {
        "lucky_probability": ExponentBound("at least", -(1 + GAMMA) / ratio**2),
        "ordinary_features": ordinary,
        "largest_features": ordinary,
        "pure_minority_share": ExponentBound("at least", -1 / ratio**2),
        "single_minority_share": ExponentBound("at least", -1 / ratio**2),
        "learned_features": ExponentBound("at most", 1 - ratio**2),
    }


def power_law(
    d: Float[np.ndarray, " n"], estimate: Float[np.ndarray, " n"], error: Float[np.ndarray, " n"]
) -> tuple[float, float, float]:
    """Fit the exponent of estimate ~ d^exponent with its 95 % interval.

    A random-effects regression, log estimate = a + b log d + u + e: e has the known standard
    error of the logarithm; u, of a variance tau^2 common to all points, is what a power law
    misses. tau^2 is 0, or where the weighted squares of the residuals equal their n - 2 degrees
    of freedom (Paule & Mandel 1982). The interval is Student's with n - 2, as few points say
    little about tau^2: precise estimates that lie on no power law give a wide interval, not a
    precise exponent.
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
    quantity: str, ratio: float, points: pd.DataFrame, d1_power: float = np.nan
) -> list[dict]:
    """Fit the exponent of a quantity from its points.

    Where the bound is from below, it is fitted also without the factor 1 / sqrt(log d) that eq.
    (238) has and eq. (239) drops. A quantity of which nothing was seen has no logarithm: such
    points are left out, and counted.
    """
    positive = points[points["estimate"] > 0]
    if positive["d"].nunique() < 3:
        return []
    side, bound = bounds(ratio)[quantity]
    d, estimate, error = positive[["d", "estimate", "error"]].to_numpy(dtype=float).T
    rows = []
    for log_power in (0.0, -0.5) if side == "at least" else (0.0,):
        factor = np.log(d) ** log_power
        exponent, low, high = power_law(d, estimate / factor, error / factor)
        rows.append(
            {
                "quantity": quantity, "ratio": ratio, "d1_power": d1_power,
                "d_low": int(d.min()), "d_high": int(d.max()), "log_power": log_power,
                "exponent": exponent, "ci_low": low, "ci_high": high, "n": len(d),
                "left_out": len(points) - len(positive), "bound": bound, "bound_side": side,
                "consistent": bool(high >= bound if side == "at least" else low <= bound),
            }
        )  # fmt: skip
    return rows


def scaling_exponents(tables: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Fit the exponents in d that the paper bounds.

    The test is whether the fitted exponent over the measured range of d contradicts the bound,
    with its whole interval on the wrong side. The bounds are one-sided, for d to infinity and up
    to powers of log d, so that neither answer proves or refutes them. The sets at initialisation
    are fitted over every d, and over the upper half, which is closer to the limit. After training
    a point is a size (d, m), its mean over seeds with the standard error; sizes of every C_m
    share a fit, as the bounds are on shares of m.
    """
    lucky_sets, trained = tables["lucky_sets"].sort_values("d"), tables["scaling"]
    rows = []
    for kind, quantity in (
        ("lucky", "lucky_probability"),
        ("ordinary", "ordinary_features"),
        ("largest", "largest_features"),
    ):
        for ratio, group in lucky_sets.groupby("ratio"):
            error = (group[f"{kind}_ci_high"] - group[f"{kind}_ci_low"]) / (2 * ndtri(0.975))
            points = pd.DataFrame({"d": group["d"], "estimate": group[quantity], "error": error})
            rows += exponent_rows(quantity, ratio, points)
            rows += exponent_rows(quantity, ratio, points.iloc[len(points) // 2 :])
    for quantity, values in (
        ("pure_minority_share", trained["pure_minority_neurons"] / trained["m"]),
        ("single_minority_share", trained["single_minority_neurons"] / trained["m"]),
        ("learned_features", trained["learned_features"]),
    ):
        for (ratio, power), group in trained.assign(value=values).groupby(["ratio", "d1_power"]):
            points = group.groupby(["d", "m"])["value"].agg(estimate="mean", error="sem")
            rows += exponent_rows(quantity, ratio, points.reset_index(), power)
    return pd.DataFrame(rows)


QUANTITIES = {
    "lucky_probability": "lucky neurons",
    "ordinary_features": "ordinary features, mean",
    "largest_features": "ordinary features, most",
    "pure_minority_share": "pure neurons",
    "single_minority_share": "neurons with it alone",
    "learned_features": "learned features",
}
"""Words for the quantities: the first three before training."""


def draw_exponents(tables: Mapping[str, pd.DataFrame]) -> "Figure":
    """Plot how far each fitted exponent is on the side that its bound allows.

    Right, without the factor 1 / sqrt(log d) that the paper drops.
    """
    from rarefeat.figures.panels import add_legend, draw_zero_line, panels, plot_points
    from rarefeat.figures.style import STYLES

    series = {"every d": STYLES[0].without_line, "upper half of d": STYLES[2].without_line}
    (fits,) = tables.values()
    fits = fits.assign(place=[name_fit(row) for row in fits.to_dict("records")])
    sign = fits["bound_side"].map({"at least": 1, "at most": -1})
    distances = [sign * (fits[name] - fits["bound"]) for name in ("ci_low", "exponent", "ci_high")]
    fits["ci_low"], fits["mean"], fits["ci_high"] = np.sort(distances, axis=0)
    lowest = fits.groupby("place")["d_low"].transform("min")
    fits["series"] = (fits["d_low"] == lowest).map({True: "every d", False: "upper half of d"})
    order = list(dict.fromkeys(fits["place"]))
    figure, axes = panels(1, 2, 1.3 + 0.19 * len(order), sharey=True)
    titles = {0.0: "as printed", -0.5: "with the logarithm"}
    for ax, (power, title) in zip(axes[0], titles.items(), strict=True):
        # A bound from above has no logarithm: it is the same on both sides.
        rows = fits[(fits["log_power"] == power) | (fits["bound_side"] == "at most")]
        plot_points(ax, rows, "distance", "place", series, order=order, horizontal=True, dodge=0.4)
        draw_zero_line(ax, vertical=True)
        ax.set_title(title)
        ax.set_xlabel("exponent in $d$ minus its bound;\n$\\rightarrow$ on the allowed side")
        ax.grid(axis="y", lw=0.3)
    figure.suptitle("Fitted exponents and their bounds")
    add_legend(figure, series, "fitted exponent and 95 % interval")
    return figure


def name_fit(row: dict) -> str:
    """Return the name of a quantity at its ratio of frequencies, and at its power of d1."""
    power = "" if pd.isna(row["d1_power"]) else f", $d_1 = d^{{{row['d1_power']:g}}}$"
    return f"{QUANTITIES[row['quantity']]}, ratio {row['ratio']:g}{power}"
