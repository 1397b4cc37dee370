"""The sets of Definition B.1 at initialisation, by Monte Carlo.

These are how often a neuron is lucky for a feature, and |N_i|.
"""

import math
from collections.abc import Mapping

import numpy as np
import pandas as pd
import torch
from scipy.special import betaincinv, ndtri
from torch import Tensor

from rarefeat.model.randomness import generator
from rarefeat.model.thresholds import GAMMA
from rarefeat.studies.scaling.config import Scaling
from rarefeat.studies.scaling.tables import LUCKY_SETS
from rarefeat.workflow.files.schema import validate
from rarefeat.workflow.run.cli_helpers import progress
from rarefeat.workflow.run.job import Job

# Numbers drawn at a time: a chunk and its intermediate tensors stay in the cache.
CHUNK = 1 << 18
C_M = 2.5
"""Exponent of the number of neurons, m = d^C_m, that the largest |N_i| is for."""


def sets_of(share: Tensor, ratio: float) -> tuple[Tensor, Tensor]:
    """Return which neurons are lucky for some feature, and the sizes of their N_i.

    imbalance_and_pruning, eq. (26)-(28) and (245). As c1 > c2, eq. (27) says: ordinary for one
    feature alone, and above c1 log d / d in it, which is then the largest.

    share (d, n) -> lucky (n,), sizes (n,).
    """
    log_d_over_d = math.log(len(share)) / len(share)
    c1, c2 = 2 / ratio**2 * (1 + GAMMA), 2 * ratio**2 * (1 - GAMMA)
    # Booleans are summed as floats, which is several times as fast as integers, and exact.
    sizes = (share >= c2 * log_d_over_d).sum(0, dtype=torch.float32)
    return (sizes == 1) & (share.amax(0) >= c1 * log_d_over_d), sizes


def count(d: int, ratios: list[float], neurons: int) -> Tensor:
    """Count lucky neurons and ordinary features over initial neurons.

    The sets depend neither on sigma_0 nor on d1 or m: the features of w_i(0) are N(0, sigma_0^2)
    in any orthonormal dictionary, and only their shares matter. One draw serves every ratio.

    -> (ratios, d + 2).
    """
    g = generator("scaling", d, "lucky sets")
    at_once = max(CHUNK // d, 1)
    totals = torch.zeros(len(ratios), d + 2, dtype=torch.float64)
    starts = range(0, neurons, at_once)
    for start in progress(starts, len(starts), f"lucky sets d={d}"):
        squared = torch.empty(d, min(at_once, neurons - start)).normal_(generator=g).square_()
        share = squared / squared.sum(0)
        for total, ratio in zip(totals, ratios, strict=True):
            lucky, sizes = sets_of(share, ratio)
            total[0] += lucky.sum()
            total[1:] += torch.bincount(sizes.long(), minlength=d + 1)
    return totals


def lucky_sets_table(d: int, ratios: list[float], neurons: int) -> pd.DataFrame:
    """Return the counts with intervals, a row per ratio.

    At initialisation the features are exchangeable, and a neuron is lucky for one at most: of n
    neurons, the number lucky for any is binomial with d times the probability for one, and has
    the exact interval of Clopper and Pearson. |N_i| is independent from neuron to neuron, and its
    mean has the normal interval.
    """
    n = neurons
    rows, size = [], np.arange(d + 1)
    for ratio, (lucky, *of_size) in zip(ratios, count(d, ratios, n).tolist(), strict=True):
        total, squares = size @ of_size, size**2 @ of_size
        low = betaincinv(lucky, n - lucky + 1, 0.025) if lucky else 0.0
        high = betaincinv(lucky + 1, n - lucky, 0.975) if lucky < n else 1.0
        mean = total / n
        half = ndtri(0.975) * math.sqrt(max(squares / n - mean**2, 0) / n)
        rows.append(
            (
                d,
                ratio,
                n,
                int(lucky),
                lucky / n / d,
                low / d,
                high / d,
                mean,
                mean - half,
                mean + half,
                *largest_of(np.array(of_size), round(d**C_M)),
            )
        )
    columns = [
        "d",
        "ratio",
        "neurons",
        "lucky_neurons",
        "lucky_probability",
        "lucky_ci_low",
        "lucky_ci_high",
    ]
    sizes = ["ordinary_features", "ordinary_ci_low", "ordinary_ci_high"]
    largest = ["largest_features", "largest_ci_low", "largest_ci_high"]
    return pd.DataFrame(rows, columns=[*columns, *sizes, *largest])


def largest_of(of_size: np.ndarray, m: int) -> tuple[float, float, float]:
    """Return the mean largest size of m neurons with its 95 % interval, from counts by size.

    of_size (d + 1,).
    """
    n = of_size.sum()
    below = (of_size.cumsum() / n) ** m
    chances = np.diff(below, prepend=0.0)
    sizes = np.arange(len(of_size))
    mean = sizes @ chances
    half = ndtri(0.975) * math.sqrt(max(sizes**2 @ chances - mean**2, 0) * m / n)
    return float(mean), float(mean - half), float(mean + half)


def lucky_sets(tables: Mapping[str, pd.DataFrame], job: Job) -> pd.DataFrame:
    """Return the counts for every number of features.

    Config is the section `scaling`; the output is the table `lucky_sets`.
    """
    scaling = job.config_section("scaling", Scaling)
    numbers = sorted({*scaling.d, *scaling.trained_d})
    rows = [lucky_sets_table(d, sorted(scaling.ratio), scaling.neurons) for d in numbers]
    return validate(LUCKY_SETS, pd.concat(rows, ignore_index=True))
