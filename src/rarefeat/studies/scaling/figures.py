"""The figure of the scaling study: every fitted exponent beside its bound."""

from collections.abc import Mapping

import pandas as pd
from matplotlib.figure import Figure

from rarefeat.figures.panels import add_legend, draw_zero_line, panels, plot_points
from rarefeat.figures.style import STYLES
from rarefeat.workflow.run.job import Job

QUANTITIES = {
    "lucky_probability": "lucky neurons",
    "ordinary_features": "ordinary features, mean",
    "largest_features": "ordinary features, most",
    "pure_minority_share": "pure neurons",
    "single_minority_share": "neurons with it alone",
    "learned_features": "learned features",
}
"""Names of the quantities of `scaling_exponents`: the first three before training."""
SERIES = {"every d": STYLES[0].without_line, "upper half of d": STYLES[2].without_line}


def scaling(tables: Mapping[str, pd.DataFrame], job: Job) -> Figure:
    """Plot how far each fitted exponent is on the side that its bound allows.

    Inputs: `scaling_exponents`. Right, without the factor 1 / sqrt(log d) that the paper drops.
    """
    (fits,) = tables.values()
    sign = fits["bound_side"].map({"at least": 1, "at most": -1})
    ends = {
        name: sign * (fits[column] - fits["bound"])
        for name, column in (("mean", "exponent"), ("low", "ci_low"), ("high", "ci_high"))
    }
    fits = fits.assign(
        mean=ends["mean"],
        ci_low=ends["low"].where(sign > 0, ends["high"]),
        ci_high=ends["high"].where(sign > 0, ends["low"]),
        place=[name_fit(row) for row in fits.to_dict("records")],
    )
    fits["series"] = name_ranges(fits)
    order = list(dict.fromkeys(fits["place"]))
    figure, axes = panels(1, 2, 1.3 + 0.19 * len(order), sharey=True)
    for ax, power, title in zip(
        axes[0], (0.0, -0.5), ("as printed", "with the logarithm"), strict=True
    ):
        # A bound from above has no logarithm: it is the same on both sides.
        rows = fits[(fits["log_power"] == power) | (fits["bound_side"] == "at most")]
        plot_points(ax, rows, "distance", "place", SERIES, order=order, horizontal=True, dodge=0.4)
        draw_zero_line(ax, vertical=True)
        ax.set_title(title)
        ax.set_xlabel("exponent in $d$ minus its bound;\n$\\rightarrow$ on the allowed side")
        ax.grid(axis="y", lw=0.3)
    figure.suptitle("Fitted exponents and their bounds")
    add_legend(figure, SERIES, "fitted exponent and 95 % interval")
    return figure


def name_fit(row: dict) -> str:
    """Return the name of a quantity at its ratio of frequencies, and at its power of d1."""
    power = "" if pd.isna(row["d1_power"]) else f", $d_1 = d^{{{row['d1_power']:g}}}$"
    return f"{QUANTITIES[row['quantity']]}, ratio {row['ratio']:g}{power}"


def name_ranges(fits: pd.DataFrame) -> pd.Series:
    """Return the series of each fit: over every d, or over the upper half alone."""
    lowest = fits.groupby("place")["d_low"].transform("min")
    return (fits["d_low"] == lowest).map({True: "every d", False: "upper half of d"})
