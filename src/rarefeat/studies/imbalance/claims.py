"""The trends of Figures 1 to 4, over the imbalance at each noise level and over the noise."""

from collections.abc import Iterator, Mapping

import numpy as np
import pandas as pd
from scipy.stats import rankdata

from rarefeat.claims.measurements import Measurement, measurement
from rarefeat.workflow.config.study import AXES, Study

FIGURES = {
    "1": ("aligned_neurons", "figures_1_and_2"),
    "2": ("max_alignment", "figures_1_and_2"),
    "3-balanced": ("cosine_similarity_balanced", "figure_3"),
    "3-matched": ("cosine_similarity_matched", "figure_3"),
    "4-balanced": ("regression_mse_balanced", "figure_4"),
    "4-matched": ("regression_mse_matched", "figure_4"),
}
"""Metric of the grid table, and block of the study `confirmation`."""
BEYOND_IDEAL = "regression_mse_matched beyond the dictionary's"


def page_statistic(curves: np.ndarray) -> np.ndarray:
    """Return the rank correlation of each seed's curve with the order of its points.

    This is Page's trend seed by seed, (n, seeds) -> (seeds,): Page's L is the sum over seeds of a
    linear function of it.
    """
    ranks = np.apply_along_axis(rankdata, 0, curves)
    order = np.arange(1, len(curves) + 1) - (len(curves) + 1) / 2
    centred = ranks - ranks.mean(0)
    with np.errstate(invalid="ignore"):
        rho = order @ centred / (np.sqrt((order**2).sum()) * np.sqrt((centred**2).sum(0)))
    # A curve without any change has no trend.
    return np.where(np.isfinite(rho), rho, 0.0)


def measure(tables: Mapping[str, pd.DataFrame], confirmation: Study) -> Iterator[Measurement]:
    """Yield the trends over each block of the study `confirmation`, whose seeds are its own."""
    grid = tables["confirmation_grid"]
    keys, mse = ["eps_min", "sigma", "seed"], "regression_mse_matched"
    dense, ideal = (grid[grid["arm"] == arm].set_index(keys) for arm in ("dense", "ideal"))
    dense = dense.assign(**{BEYOND_IDEAL: dense[mse] - ideal[mse]}).reset_index()
    for figure, (metric, block) in FIGURES.items():
        axes = {axis: getattr(confirmation.grid[block], axis) for axis in AXES}
        inside = dense[dense["eps_min"].isin(axes["eps_min"]) & dense["sigma"].isin(axes["sigma"])]
        over = {
            "eps_min": ("sigma", "eps_min", BEYOND_IDEAL if figure == "4-matched" else metric),
            "NSR": ("eps_min", "sigma", metric),
        }
        for name, (fixed, along, plotted) in over.items():
            for value, level in inside.groupby(fixed):
                place = {fixed: value, along: (min(axes[along]), max(axes[along]))}
                curves = level.pivot(index=along, columns="seed", values=plotted).sort_index()
                trend = page_statistic(curves.to_numpy())
                yield measurement(f"Fig{figure}-{name}", "confirmation", place, trend)
