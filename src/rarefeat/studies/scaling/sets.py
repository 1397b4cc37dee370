"""The sets of Definition B.1 at initialisation, by Monte Carlo, and in trained encoders; exponents
in d, fitted and compared with the bounds of Theorem 3.1.

Axes: S replicas, m neurons, p coordinates of a weight, d features, n drawn neurons.
"""

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np
import pandas as pd
import torch
from jaxtyping import Bool, Float
from scipy.optimize import brentq
from scipy.special import betaincinv, ndtri, stdtrit
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

if TYPE_CHECKING:
    pass

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

    The sets depend on neither sigma_0, d1 nor m; one draw serves every ratio.
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

    A neuron is lucky for one feature at most, so that the number lucky for any is binomial with d
    times the probability for one (Clopper and Pearson). The mean |N_i| has the normal interval.
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


class ExponentBound(NamedTuple):
    """A one-sided bound on the exponent of a quantity in d."""

    side: Literal["at least", "at most"]
    exponent: float


def bounds(ratio: float) -> dict[str, ExponentBound]:
    """Return the bounds of imbalance_and_pruning by quantity at ratio = eps_min / eps_max.

    At initialisation, with gamma: lucky_probability is |M_j^*| / m of Lemma B.2(c), eq. (31),
    (32) and (239), and ordinary_features the mean |N_i| of eq. (247), largest_features the largest
    of Lemma B.2(d). After training, by Theorem 3.1 without gamma: at least m d^(-1/ratio^2) neurons
    with N_i = {j}, counted by purity or by eq. (12) and (13), and |N_i| of eq. (14), which is
    learned_features.
    """
    ordinary = ExponentBound("at most", 1 - ratio**2 * (1 - GAMMA))
    return {
        "lucky_probability": ExponentBound("at least", -(1 + GAMMA) / ratio**2),
        "ordinary_features": ordinary,
        "largest_features": ordinary,
        "pure_minority_share": ExponentBound("at least", -1 / ratio**2),
        "single_minority_share": ExponentBound("at least", -1 / ratio**2),
        "learned_features": ExponentBound("at most", 1 - ratio**2),
    }


def power_law(
    d: Float[np.ndarray, " n"], estimate: Float[np.ndarray, " n"], error: Float[np.ndarray, " n"]
) -> tuple[float, float, float]:
    """Fit the exponent of estimate ~ d^exponent with its 95 % interval.

    A random-effects regression (Paule & Mandel 1982), log estimate = a + b log d + u + e: e has the
    known standard error, u is what a power law misses. Student's interval with n - 2 degrees of
    freedom, as few points say little about the variance of u.
    """
    x, y, variance = np.log(d), np.log(estimate), np.maximum((error / estimate) ** 2, 1e-12)

    def fit(tau2: float) -> tuple[float, float, float]:
        """Return the slope, its variance, and the weighted squares of the residuals."""
        weight = 1 / (variance + tau2)
        x0, y0 = np.average(x, weights=weight), np.average(y, weights=weight)
        spread = weight @ (x - x0) ** 2
        slope = weight @ ((x - x0) * (y - y0)) / spread
        return slope, 1 / spread, weight @ (y - y0 - slope * (x - x0)) ** 2

    freedom = len(x) - 2
    # At this tau^2 the weighted squares are at most their degrees of freedom.
    largest = np.polyfit(x, y, 1, full=True)[1].sum() / freedom
    misfit = fit(0.0)[2] > freedom
    tau2 = (
        brentq(lambda value: fit(value)[2] - freedom, 0.0, largest, xtol=1e-15) if misfit else 0.0
    )
    slope, squared_error, _ = fit(tau2)
    half = stdtrit(freedom, 0.975) * np.sqrt(squared_error)
    return slope, slope - half, slope + half


def exponent_rows(
    quantity: str, ratio: float, points: pd.DataFrame, d1_power: float = np.nan
) -> list[dict]:
    """Fit the exponent of a quantity from its points; zeros are left out, and counted.

    A bound from below is fitted also without the factor 1 / sqrt(log d) that eq. (239) drops.
    """
    positive = points[points["estimate"] > 0]
    if positive["d"].nunique() < 3:
        return []
    side, bound = bounds(ratio)[quantity]
    d, estimate, error = positive[["d", "estimate", "error"]].to_numpy(dtype=float).T
    rows = []
    for log_power in (0.0, -0.5) if side == "at least" else (0.0,):
        factor = np.log(d) ** log_power
        exponent, low, high = power_law(d, estimate / factor, error / factor)
        rows.append(
            {
                "quantity": quantity, "ratio": ratio, "d1_power": d1_power,
                "d_low": int(d.min()), "d_high": int(d.max()), "log_power": log_power,
                "exponent": exponent, "ci_low": low, "ci_high": high, "n": len(d),
                "left_out": len(points) - len(positive), "bound": bound, "bound_side": side,
                "consistent": bool(high >= bound if side == "at least" else low <= bound),
            }
        )  # fmt: skip
    return rows


def scaling_exponents(tables: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Fit the exponents in d that the paper bounds, over every d, and over the upper half.

    The test is whether the whole interval lies on the wrong side of a bound. After training a point
    is a size (d, m); sizes of every C_m share a fit, as the bounds are on shares of m.
    """
    lucky_sets, trained = tables["lucky_sets"].sort_values("d"), tables["scaling"]
    rows = []
    for kind, quantity in (
        ("lucky", "lucky_probability"),
        ("ordinary", "ordinary_features"),
        ("largest", "largest_features"),
    ):
        for ratio, group in lucky_sets.groupby("ratio"):
            error = (group[f"{kind}_ci_high"] - group[f"{kind}_ci_low"]) / (2 * ndtri(0.975))
            points = pd.DataFrame({"d": group["d"], "estimate": group[quantity], "error": error})
            rows += exponent_rows(quantity, ratio, points)
            rows += exponent_rows(quantity, ratio, points.iloc[len(points) // 2 :])
    for quantity, values in (
        ("pure_minority_share", trained["pure_minority_neurons"] / trained["m"]),
        ("single_minority_share", trained["single_minority_neurons"] / trained["m"]),
        ("learned_features", trained["learned_features"]),
    ):
        for (ratio, power), group in trained.assign(value=values).groupby(["ratio", "d1_power"]):
            points = group.groupby(["d", "m"])["value"].agg(estimate="mean", error="sem")
            rows += exponent_rows(quantity, ratio, points.reset_index(), power)
    return pd.DataFrame(rows)
