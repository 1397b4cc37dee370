"""What claims share when they are measured: names of regimes, and exponents seed by seed."""

import numpy as np


def named(study: str, eps_min: float, sigma: float) -> str:
    """A regime for people."""
    return f"{study}: eps_min {eps_min:g}, sigma {sigma:g}"


def exponent(x: np.ndarray, curves: np.ndarray) -> np.ndarray:
    """Slope of log y in log x, seed by seed, (n,), (n, seeds) -> (seeds,); NaN where a value is not positive."""
    with np.errstate(divide="ignore", invalid="ignore"):
        log_x, log_y = np.log(x) - np.log(x).mean(), np.log(curves)
    slopes = log_x @ log_y / (log_x @ log_x)
    return np.where(np.isfinite(slopes), slopes, np.nan)
