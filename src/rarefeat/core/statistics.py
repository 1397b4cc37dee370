"""Means over seeds with their intervals."""

import numpy as np
from scipy.special import stdtrit


def student_interval(values: np.ndarray, level: float = 0.95) -> tuple[float, float, float, float, int]:
    """Mean, standard deviation, both ends of the interval of the mean, and n, of the values that are not NaN.

    The interval needs two values, and the mean one; what cannot be had is NaN.
    """
    values = np.asarray(values, dtype=float)
    values = values[~np.isnan(values)]
    n = len(values)
    mean = values.mean() if n else np.nan
    sd = values.std(ddof=1) if n > 1 else np.nan
    half = stdtrit(n - 1, (1 + level) / 2) * sd / np.sqrt(n) if n > 1 else np.nan
    return mean, sd, mean - half, mean + half, n
