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
"""Metric of the grid table, and block of the study `confirmation`, whose range is the figure's."""
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


def measure(
    tables: Mapping[str, pd.DataFrame], regimes: Mapping[str, Study]
) -> Iterator[Measurement]:
    """Yield the trends of each study over what it has of the blocks of the first, `confirmation`.

    A study without the ideal encoder has no trend beside it, and one of a single noise level none
    over the noise.
    """
    blocks, mse = next(iter(regimes.values())).grid, "regression_mse_matched"
    for study in regimes:
        grid = tables[f"{study}_grid"].set_index(["eps_min", "sigma", "seed"])
        dense, ideal = (grid[grid["arm"] == arm] for arm in ("dense", "ideal"))
        dense = dense.assign(**{BEYOND_IDEAL: dense[mse] - ideal[mse]}).reset_index()
        for figure, (metric, block) in FIGURES.items():
            inside = dense[
                np.all([dense[axis].isin(getattr(blocks[block], axis)) for axis in AXES], 0)
            ]
            beside = BEYOND_IDEAL if figure == "4-matched" else metric
            for name, fixed, along, plotted in (
                ("eps_min", "sigma", "eps_min", beside),
                ("NSR", "eps_min", "sigma", metric),
            ):
                for value, level in inside.dropna(subset=plotted).groupby(fixed):
                    curves = level.pivot(index=along, columns="seed", values=plotted).sort_index()
                    if len(curves) > 1:
                        place = {fixed: value, along: (curves.index[0], curves.index[-1])}
                        trend = page_statistic(curves.to_numpy())
                        yield measurement(f"Fig{figure}-{name}", study, place, trend)
