"""The sets of Definition B.1: at initialisation by Monte Carlo, and in encoders that are trained.

Axes: S replicas, m neurons, p coordinates of a weight, d features, n drawn neurons.
"""

import math

import numpy as np
import pandas as pd
import torch
from jaxtyping import Bool, Float
from scipy.special import betaincinv, ndtri
from torch import Tensor

from rarefeat.errors import RarefeatError
from rarefeat.model import stream_names
from rarefeat.model.neurons import absolute_cosines, lucky_neurons, ordinary_neurons
from rarefeat.model.randomness import generator, make_generators
from rarefeat.model.simulators import make_simulator
from rarefeat.model.thresholds import GAMMA, PURE_COSINE
from rarefeat.studies.scaling import SCALING, Scaling
from rarefeat.workflow.config.study import Study
from rarefeat.workflow.files.schema import validate
from rarefeat.workflow.run.cli_helpers import progress
from rarefeat.workflow.run.job_inputs import JobInputs

CHUNK = 1 << 18
"""Numbers drawn at a time: a chunk and its intermediate tensors stay in the cache."""
C_M = 2.5
"""Exponent of the number of neurons, m = d^C_m, that the largest |N_i| is for."""


def sets_of(
    share: Float[Tensor, "d n"], ratio: float
) -> tuple[Bool[Tensor, " n"], Float[Tensor, " n"]]:
    """Return which neurons are lucky for some feature, and the sizes of their N_i.

    imbalance_and_pruning, eq. (26)-(28) and (245). As c1 > c2, eq. (27) says: ordinary for one
    feature alone, and above c1 log d / d in it, which is then the largest.
    """
    log_d_over_d = math.log(len(share)) / len(share)
    c1, c2 = 2 / ratio**2 * (1 + GAMMA), 2 * ratio**2 * (1 - GAMMA)
    # Booleans are summed as floats, which is several times as fast as integers, and exact.
    sizes = (share >= c2 * log_d_over_d).sum(0, dtype=torch.float32)
    return (sizes == 1) & (share.amax(0) >= c1 * log_d_over_d), sizes


def count(d: int, ratios: list[float], neurons: int) -> Float[Tensor, "ratios d+2"]:
    """Count lucky neurons, and neurons by the size of their N_i, over initial neurons.

    The sets depend neither on sigma_0 nor on d1 or m: the features of w_i(0) are N(0, sigma_0^2)
    in any orthonormal dictionary, and only their shares matter. One draw serves every ratio.
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


def lucky_sets_table(d: int, ratios: list[float], n: int) -> pd.DataFrame:
    """Return the counts with intervals, a row per ratio.

    At initialisation the features are exchangeable, and a neuron is lucky for one at most: of n
    neurons, the number lucky for any is binomial with d times the probability for one, and has
    the exact interval of Clopper and Pearson. |N_i| is independent from neuron to neuron, and its
    mean has the normal interval.
    """
    m, size, rows = round(d**C_M), np.arange(d + 1), []
    for ratio, (lucky, *of_size) in zip(ratios, count(d, ratios, n).tolist(), strict=True):
        low = betaincinv(lucky, n - lucky + 1, 0.025) if lucky else 0.0
        high = betaincinv(lucky + 1, n - lucky, 0.975) if lucky < n else 1.0
        mean = size @ of_size / n
        variance = max(size**2 @ of_size / n - mean**2, 0)
        # The largest of m sizes is at most a size where all m are.
        chances = np.diff((np.cumsum(of_size) / np.sum(of_size)) ** m, prepend=0.0)
        largest = size @ chances
        largest_variance = max(size**2 @ chances - largest**2, 0)
        rows.append(
            {
                "d": d, "ratio": ratio, "neurons": n, "lucky_neurons": int(lucky),
                "lucky_probability": lucky / n / d, "lucky_ci_low": low / d,
                "lucky_ci_high": high / d,
                **interval("ordinary", mean, math.sqrt(variance / n)),
                **interval("largest", largest, math.sqrt(largest_variance * m / n)),
            }
        )  # fmt: skip
    return pd.DataFrame(rows)


def interval(name: str, mean: float, error: float) -> dict[str, float]:
    """Return a mean size of N_i with its normal 95 % interval, as columns."""
    half = ndtri(0.975) * error
    return {f"{name}_features": mean, f"{name}_ci_low": mean - half, f"{name}_ci_high": mean + half}


def lucky_sets(d: list[int], ratio: list[float], neurons: int) -> pd.DataFrame:
    """Return the table `lucky_sets`: the counts for every number of features."""
    return pd.concat([lucky_sets_table(each, ratio, neurons) for each in d], ignore_index=True)


def replicas(
    study: Study, ratio: float, weights: Float[Tensor, "S m p"], seeds: list[int]
) -> pd.DataFrame:
    """Return the rows of one trained point and block of seeds.

    Each has the sets of a replica at its own W(0), and what became of them. After training j
    belongs to N_i where |cos(w_i, M_j)| >= 1 / sqrt(d): by eq. (13) it is o(1 / sqrt(d)) for any
    other j. The minority feature is the last one.
    """
    data, training = study.data, study.training
    space = make_simulator(study.simulator, study.draws, data.d, data.d1, training.m, seeds)
    generators = make_generators(study.draws, seeds, stream_names.WEIGHTS)
    initial = space.initial_weights(training.sigma_0, generators)
    lucky = lucky_neurons(initial, space.dictionary, ratio, GAMMA)[..., -1]
    ordinary = ordinary_neurons(initial, space.dictionary, ratio, GAMMA)
    cosines = absolute_cosines(weights, space.dictionary)
    pure = cosines[..., -1] > PURE_COSINE
    learned = cosines >= data.d**-0.5
    columns = {
        "lucky_minority_neurons": lucky.sum(-1),
        "pure_minority_neurons": pure.sum(-1),
        "single_minority_neurons": (learned[..., -1] & (learned.sum(-1) == 1)).sum(-1),
        "ordinary_features": ordinary.sum(-1).double().mean(-1),
        "learned_features": learned.sum(-1).double().mean(-1),
        "lucky_pure_share": (lucky & pure).sum(-1).double() / lucky.sum(-1),
    }
    sizes = {"d": data.d, "m": training.m, "d1": data.d1, "ratio": ratio, "seed": seeds}
    return pd.DataFrame(sizes | {name: values.numpy() for name, values in columns.items()})


def trained_sizes(inputs: JobInputs, scaling: Scaling) -> pd.DataFrame:
    """Return the table `scaling`: a row per trained point and seed."""
    tables, studies = [], scaling.studies()
    for name, cells in scaling.trained_cells(inputs["lucky_sets"]).items():
        for encoders in inputs.files("encoders", name, study := studies[name]):
            if encoders.cell in cells:
                (weights,) = encoders.tensors("dense/weights")
                rows = replicas(study, encoders.cell["eps_min"], weights, encoders.seeds)
                # The exponents that this size was made from.
                d, m, d1 = study.data.d, study.training.m, study.data.d1
                C_m = next(power for power in scaling.C_m if round(d**power) == m)
                d1_power = next(power for power in scaling.d1_power if round(d**power) == d1)
                tables.append(rows.assign(C_m=C_m, d1_power=d1_power))
    if not tables:
        raise RarefeatError(
            "config: scaling: no size is expected to have least_lucky lucky neurons; lower it, or"
            " raise most_neurons"
        )
    table = validate(SCALING.schema, pd.concat(tables, ignore_index=True))
    return table.sort_values(["d1_power", "ratio", "d", "m", "seed"], ignore_index=True)
