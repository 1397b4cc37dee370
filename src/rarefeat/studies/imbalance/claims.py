"""The trends of Figures 1 to 4: in the imbalance at each noise level, and in the noise at each imbalance."""

from collections.abc import Mapping

import numpy as np
import pandas as pd
from scipy.stats import rankdata

from rarefeat.claims.claim import Claim, Measured, of_seeds
from rarefeat.config.study import Study
from rarefeat.run.job import Job

CORE, GROUP = "imbalance_and_pruning", "figures 1-4"
# Figure, metric of the grid table, block of the study `paper`, direction with eps_min.
FIGURES = (
    ("1", "aligned_neurons", "figures_1_and_2", 1),
    ("2", "max_alignment", "figures_1_and_2", 1),
    ("3", "cosine_similarity_balanced", "figure_3", 1),
    ("4", "regression_mse_balanced", "figure_4", -1),
)
NAMES = {
    "aligned_neurons": "the number of neurons aligned with the minority feature",
    "max_alignment": "the largest alignment with the minority feature",
    "cosine_similarity_balanced": "the cosine similarity of positive test pairs",
    "regression_mse_balanced": "the test MSE of the regression",
}


def page_statistic(curves: np.ndarray) -> np.ndarray:
    """Rank correlation of a seed's curve with the order of its points, (n, seeds) -> (seeds,): Page's trend, seed by seed.

    Page's L is the sum over seeds of a linear function of it; its mean over seeds is 0 where there is no trend.
    """
    ranks = np.apply_along_axis(rankdata, 0, curves)
    order = np.arange(1, len(curves) + 1) - (len(curves) + 1) / 2
    centred = ranks - ranks.mean(0)
    with np.errstate(invalid="ignore"):
        rho = order @ centred / (np.sqrt((order**2).sum()) * np.sqrt((centred**2).sum(0)))
    # A curve without any change has no trend.
    return np.where(np.isfinite(rho), rho, 0.0)


def claim(figure: str, metric: str, along: str, direction: int) -> Claim:
    """The trend of one figure in eps_min or in the noise-to-signal ratio."""
    better = "rises" if direction > 0 else "falls"
    return Claim(
        id=f"Fig{figure}-{along}",
        group=GROUP,
        source=f"{CORE}, Figure {figure}, A.2",
        statement=f"{NAMES[metric]} {better} with {along}",
        quantity=f"mean rank correlation of {metric} with {along}, seed by seed (Page's trend test)",
        side="above" if direction > 0 else "below",
        threshold=(0.0,),
        reason="an ordered alternative",
    )


CLAIMS = [
    claim(figure, metric, along, sign * direction)
    for figure, metric, _, direction in FIGURES
    for along, sign in (("eps_min", 1), ("NSR", -1))
]


def measure(tables: Mapping[str, pd.DataFrame], job: Job) -> list[Measured]:
    """The trends over each block of the study `paper`."""
    rows, grid, paper = [], tables["paper_grid"], job.part("paper", Study)
    dense = grid[grid["arm"] == "dense"]
    for figure, metric, block, direction in FIGURES:
        eps_mins, sigmas = paper.grid[block].eps_min, paper.grid[block].sigma
        inside = dense[dense["eps_min"].isin(eps_mins) & dense["sigma"].isin(sigmas)]
        for sigma, level in inside.groupby("sigma"):
            curves = pivot(level, "eps_min", metric)
            regime = f"paper: sigma {sigma:g}, eps_min {min(eps_mins):g} to {max(eps_mins):g}"
            rows.append(Measured(claim(figure, metric, "eps_min", direction), regime, of_seeds(page_statistic(curves))))
        # Noise makes everything harder: the opposite direction.
        for eps_min, level in inside.groupby("eps_min"):
            curves = pivot(level, "sigma", metric)
            regime = f"paper: eps_min {eps_min:g}, sigma {min(sigmas):g} to {max(sigmas):g}"
            rows.append(Measured(claim(figure, metric, "NSR", -direction), regime, of_seeds(page_statistic(curves))))
    return rows


def pivot(table: pd.DataFrame, along: str, metric: str) -> np.ndarray:
    """Curves by seed, (n, seeds)."""
    return table.pivot(index=along, columns="seed", values=metric).sort_index().to_numpy()
