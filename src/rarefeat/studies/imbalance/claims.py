"""The trends of Figures 1 to 4, over the imbalance at each noise level and over the noise."""

from collections.abc import Mapping

import numpy as np
import pandas as pd
from scipy.stats import rankdata

from rarefeat.claims.measurements import Measurement, measurement
from rarefeat.workflow.config.study import Study
from rarefeat.workflow.run.job import Job

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
    """Compute the rank correlation of each seed's curve with the order of its points.

    This is Page's trend seed by seed, (n, seeds) -> (seeds,). Page's L is the sum over seeds of a
    linear function of it; its mean over seeds is 0 where there is no trend.
    """
    ranks = np.apply_along_axis(rankdata, 0, curves)
    order = np.arange(1, len(curves) + 1) - (len(curves) + 1) / 2
    centred = ranks - ranks.mean(0)
    with np.errstate(invalid="ignore"):
        rho = order @ centred / (np.sqrt((order**2).sum()) * np.sqrt((centred**2).sum(0)))
    # A curve without any change has no trend.
    return np.where(np.isfinite(rho), rho, 0.0)


def measure(tables: Mapping[str, pd.DataFrame], job: Job) -> list[Measurement]:
    """Measure the trends over each block of the study `confirmation`.

    Nothing else has used the seeds of this study. The input is its grid table.
    """
    rows, study = [], job.config_section("confirmation", Study)
    grid = tables["confirmation_grid"]
    keys, mse = ["eps_min", "sigma", "seed"], "regression_mse_matched"
    dense = grid[grid["arm"] == "dense"].set_index(keys)
    ideal = grid[grid["arm"] == "ideal"].set_index(keys)
    dense = dense.assign(**{BEYOND_IDEAL: dense[mse] - ideal[mse]}).reset_index()
    for figure, (metric, block) in FIGURES.items():
        eps_mins, sigmas = study.grid[block].eps_min, study.grid[block].sigma
        metrics = {"eps_min": metric, "NSR": metric}
        if figure == "4-matched":
            metrics["eps_min"] = BEYOND_IDEAL
        inside = dense[dense["eps_min"].isin(eps_mins) & dense["sigma"].isin(sigmas)]
        for fixed, along, name, levels in (
            ("sigma", "eps_min", "eps_min", eps_mins),
            ("eps_min", "sigma", "NSR", sigmas),
        ):
            for value, level in inside.groupby(fixed):
                place = {fixed: value, along: (min(levels), max(levels))}
                rows.append(
                    measurement(
                        f"Fig{figure}-{name}",
                        "confirmation",
                        place,
                        page_statistic(pivot(level, along, metrics[name])),
                    )
                )
    return rows


def pivot(table: pd.DataFrame, along: str, metric: str) -> np.ndarray:
    """Return a metric as curves by seed.

    -> (n, seeds).
    """
    return table.pivot(index=along, columns="seed", values=metric).sort_index().to_numpy()
