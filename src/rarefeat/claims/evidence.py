"""The tables that claims are read from."""

from dataclasses import dataclass, field

import numpy as np
import pandas as pd


@dataclass(frozen=True)
class Evidence:
    """Tables by study, the paper's grid, the scaling study's exponents, and the replicas of images and of augmentation."""

    milestones: dict[str, pd.DataFrame] = field(default_factory=dict)
    trajectories: dict[str, pd.DataFrame] = field(default_factory=dict)
    one_step: dict[str, pd.DataFrame] = field(default_factory=dict)
    grid: pd.DataFrame | None = None
    exponents: pd.DataFrame | None = None
    longtail: pd.DataFrame | None = None
    augmentation: pd.DataFrame | None = None

    def at(self, study: str, metric: str, **where: float) -> np.ndarray:
        """A milestone's values by seed, at one point of a study."""
        table = self.milestones[study]
        chosen = table[table["metric"] == metric]
        for key, value in where.items():
            chosen = chosen[chosen[key] == value]
        return chosen.sort_values("seed")["value"].to_numpy()

    def points(self, study: str) -> list[tuple[float, float]]:
        """(eps_min, sigma) of a study with milestones."""
        return sorted(set(self.milestones[study][["eps_min", "sigma"]].itertuples(index=False, name=None)))


def named(study: str, eps_min: float, sigma: float) -> str:
    """A regime for people."""
    return f"{study}: eps_min {eps_min:g}, sigma {sigma:g}"


def exponent(x: np.ndarray, curves: np.ndarray) -> np.ndarray:
    """Slope of log y in log x, seed by seed, (n,), (n, seeds) -> (seeds,); NaN where a value is not positive."""
    with np.errstate(divide="ignore", invalid="ignore"):
        log_x, log_y = np.log(x) - np.log(x).mean(), np.log(curves)
    slopes = log_x @ log_y / (log_x @ log_x)
    return np.where(np.isfinite(slopes), slopes, np.nan)
