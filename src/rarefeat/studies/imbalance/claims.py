"""The trends of Figures 1 to 4: in the imbalance at each noise level, and in the noise at each imbalance."""

from collections.abc import Mapping

import numpy as np
import pandas as pd
from scipy.stats import rankdata

from rarefeat.claims.claim import CORRELATION, Claim, Measured, Regime
from rarefeat.claims.estimate import of_seeds
from rarefeat.config.study import Study
from rarefeat.run.job import Job

CORE, GROUP = "imbalance_and_pruning", "figures 1-4"
# Figure, metric of the grid table, block of the study `confirmation`, direction with eps_min, and what it is.
FIGURES = (
    ("1", "aligned_neurons", "figures_1_and_2", 1, "the number of neurons aligned with the minority feature"),
    ("2", "max_alignment", "figures_1_and_2", 1, "the largest alignment with the minority feature"),
    ("3-balanced", "cosine_similarity_balanced", "figure_3", 1, "the cosine similarity of positive pairs, balanced test set"),
    ("3-matched", "cosine_similarity_matched", "figure_3", 1, "the same at the frequencies of training"),
    ("4-balanced", "regression_mse_balanced", "figure_4", -1, "the test MSE of the regression, balanced test set"),
    ("4-matched", "regression_mse_matched", "figure_4", -1, "the same at the frequencies of training"),
)
LEVELS = {"figures_1_and_2": ("0.1 to 1", "0.01 to 0.05"), "figure_3": ("0.05 to 0.5", "0.05 to 0.1")}
LEVELS["figure_4"] = ("0.05 to 0.5", "0.03 to 0.075")


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


def claim(figure: str, metric: str, block: str, direction: int, what: str, along: str) -> Claim:
    """The trend of one figure in eps_min, or in the noise-to-signal ratio, of which the paper's text says nothing."""
    in_eps, in_sigma = LEVELS[block]
    point = f"sigma 0.05, eps_min {in_eps}" if along == "eps_min" else f"eps_min 0.5, sigma {in_sigma}"
    return Claim(
        id=f"Fig{figure}-{along}",
        group=GROUP,
        paper=CORE if along == "eps_min" else f"beyond {CORE}",
        source=f"Figure {figure[0]}, A.2" if along == "eps_min" else "beyond the paper's text",
        statement=f"{what} {'rises' if direction > 0 else 'falls'} with {along}",
        quantity=f"mean rank correlation of {metric} with {along}, seed by seed (Page's trend test)",
        test="superiority",
        side="above" if direction > 0 else "below",
        threshold=0.0,
        reason="an ordered alternative",
        primary=f"confirmation: {point}",
        effect=1.0,
        seeds=30,
        tolerance=0.1,
        control="the other test set, where there are two" if "-" in figure else "0 where nothing is ordered",
        bounds=CORRELATION,
    )


TRENDS = {
    (figure, along): claim(figure, metric, block, sign * direction, what, along)
    for figure, metric, block, direction, what in FIGURES
    for along, sign in (("eps_min", 1), ("NSR", -1))
}
"""Noise makes everything harder: the opposite direction."""
CLAIMS = list(TRENDS.values())


def measure(tables: Mapping[str, pd.DataFrame], job: Job) -> list[Measured]:
    """The trends over each block of the study `confirmation`, whose seeds nothing else has used."""
    rows, dense, study = [], tables["confirmation_grid"], job.part("confirmation", Study)
    for figure, metric, block, *_ in FIGURES:
        eps_mins, sigmas = study.grid[block].eps_min, study.grid[block].sigma
        inside = dense[dense["eps_min"].isin(eps_mins) & dense["sigma"].isin(sigmas)]
        for held, along, name, levels in (("sigma", "eps_min", "eps_min", eps_mins), ("eps_min", "sigma", "NSR", sigmas)):
            for value, level in inside.groupby(held):
                point = f"{held} {value:g}, {along} {min(levels):g} to {max(levels):g}"
                trend = of_seeds(page_statistic(pivot(level, along, metric)))
                rows.append(Measured(TRENDS[figure, name], Regime("confirmation", point), trend))
    return rows


def pivot(table: pd.DataFrame, along: str, metric: str) -> np.ndarray:
    """Curves by seed, (n, seeds)."""
    return table.pivot(index=along, columns="seed", values=metric).sort_index().to_numpy()
