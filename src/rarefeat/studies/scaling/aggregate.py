"""Stage 4 of the scaling study: the trained sizes, replica by replica, and exponents in d against the bounds of Theorem 3.1."""

from collections.abc import Mapping

import numpy as np
import pandas as pd
from scipy.optimize import brentq
from scipy.special import ndtri, stdtrit
from torch import Tensor

from rarefeat.config.cells import Cell
from rarefeat.config.study import Study
from rarefeat.core.definitions import GAMMA, PURE
from rarefeat.core.errors import RarefeatError
from rarefeat.core.neurons import absolute_cosines, lucky_neurons, ordinary_neurons
from rarefeat.core.randomness import generator
from rarefeat.core.simulators import make_simulator
from rarefeat.run.job import Job
from rarefeat.run.read import Read
from rarefeat.storage.schema import checked
from rarefeat.studies.scaling.bounds import bounds, trained_cells
from rarefeat.studies.scaling.config import Scaling
from rarefeat.studies.scaling.tables import SCALING, SCALING_EXPONENTS


def replicas(study: Study, cell: Cell, weights: Tensor, seeds: list[int]) -> pd.DataFrame:
    """One trained point and block of seeds: the sets of every replica at its own W(0), and what became of them.

    After training j belongs to N_i where |cos(w_i, M_j)| >= 1 / sqrt(d): by eq. (13) it is o(1 / sqrt(d)) for any other j.

    Args:
        weights: (S, m, p) after training.
    """
    data, training, ratio = study.data, study.training, cell["eps_min"]
    space = make_simulator(study.simulator, study.draws, data.d, data.d1, training.m, seeds)
    initial = space.weights(training.sigma_0, [generator(study.draws, seed, "weights") for seed in seeds])

    # The minority feature is the last one.
    lucky = lucky_neurons(initial, space.dictionary, ratio, GAMMA)[..., -1]
    ordinary = ordinary_neurons(initial, space.dictionary, ratio, GAMMA)
    cosines = absolute_cosines(weights, space.dictionary)
    pure = cosines[..., -1] > PURE
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


def trained_sizes(read: Read, job: Job) -> pd.DataFrame:
    """A row per trained point and seed."""
    scaling, parts = job.part("scaling", Scaling), []
    studies = scaling.studies()
    for name, cells in trained_cells(scaling, read["lucky_sets"]).items():
        for encoders in read.files("encoders", name, studies[name]):
            if encoders.cell in cells:
                (weights,) = encoders.tensors("dense/weights")
                parts.append(replicas(studies[name], encoders.cell, weights, encoders.seeds))
    if not parts:
        raise RarefeatError(
            "config: scaling: no size is expected to have least_lucky lucky neurons; lower it, or raise most_neurons"
        )
    table = pd.concat(parts, ignore_index=True)
    # The exponents that these sizes were made from.
    table["C_m"] = [next(C_m for C_m in scaling.C_m if round(d**C_m) == m) for d, m in zip(table["d"], table["m"], strict=True)]
    table["d1_power"] = [
        next(power for power in scaling.d1_power if round(d**power) == d1)
        for d, d1 in zip(table["d"], table["d1"], strict=True)
    ]
    return checked(SCALING, table.sort_values(["d1_power", "ratio", "d", "m", "seed"], ignore_index=True))


def power_law(d: np.ndarray, estimate: np.ndarray, error: np.ndarray) -> tuple[float, float, float]:
    """The exponent of estimate ~ d^exponent with its 95 % interval, for at least three positive estimates, each (n,).

    A random-effects regression, log estimate = a + b log d + u + e: e has the known standard error of the logarithm; u, of a
    variance tau^2 common to all points, is what a power law misses. tau^2 is 0, or where the weighted squares of the residuals
    equal their n - 2 degrees of freedom (Paule & Mandel 1982). The interval is Student's with n - 2, as few points say little
    about tau^2: precise estimates that lie on no power law give a wide interval, not a precise exponent.
    """
    x, y, variance = np.log(d), np.log(estimate), np.maximum((error / estimate) ** 2, 1e-12)

    def fit(tau2: float) -> tuple[float, float, float]:
        """Slope, its variance, and the weighted squares of the residuals."""
        weight = 1 / (variance + tau2)
        x0, y0 = np.average(x, weights=weight), np.average(y, weights=weight)
        spread = weight @ (x - x0) ** 2
        slope = weight @ ((x - x0) * (y - y0)) / spread
        return slope, 1 / spread, weight @ (y - y0 - slope * (x - x0)) ** 2

    freedom = len(x) - 2
    # At this tau^2 the weighted squares are at most their degrees of freedom.
    largest = np.polyfit(x, y, 1, full=True)[1].sum() / freedom
    misfit = fit(0.0)[2] > freedom
    tau2 = brentq(lambda value: fit(value)[2] - freedom, 0.0, largest, xtol=1e-15) if misfit else 0.0
    slope, squared_error, _ = fit(tau2)
    half = stdtrit(freedom, 0.975) * np.sqrt(squared_error)
    return slope, slope - half, slope + half


def exponent_rows(quantity: str, ratio: float, d1_power: float | None, points: pd.DataFrame) -> list[dict]:
    """The exponent of a quantity from points (d, estimate, error), as it stands, and where the bound is from below also without
    the factor 1 / sqrt(log d) that eq. (238) has and eq. (239) drops; nothing for fewer than three distinct d.

    A quantity of which nothing was seen has no logarithm: such points are left out, and counted.
    """
    seen = points[points["estimate"] > 0]
    if seen["d"].nunique() < 3:
        return []
    bound = bounds(ratio)[quantity]
    d, estimate, error = (seen[name].to_numpy(dtype=float) for name in ("d", "estimate", "error"))
    rows = []
    for log_power in (0.0, -0.5) if bound.side == "at least" else (0.0,):
        exponent, low, high = power_law(d, estimate / np.log(d) ** log_power, error / np.log(d) ** log_power)
        rows.append(
            {
                "quantity": quantity, "ratio": ratio, "d1_power": d1_power, "d_low": int(d.min()), "d_high": int(d.max()),
                "log_power": log_power, "exponent": exponent, "ci_low": low, "ci_high": high, "n": len(d),
                "left_out": len(points) - len(seen), "bound": bound.exponent, "bound_side": bound.side,
                "consistent": bool(high >= bound.exponent if bound.side == "at least" else low <= bound.exponent),
            }
        )  # fmt: skip
    return rows


def exponents_table(lucky_sets: pd.DataFrame, trained: pd.DataFrame) -> pd.DataFrame:
    """Fitted exponents in d against the paper's.

    What is tested: whether the fitted exponent over the measured range of d contradicts the bound, with its whole interval on
    the wrong side. The bounds are one-sided, for d to infinity and up to powers of log d, so that neither answer proves or
    refutes them. The sets at initialisation are fitted over every d, and over the upper half, which is closer to the limit.
    After training a point is a size (d, m), its mean over seeds with the standard error; sizes of every C_m share a fit, as the
    bounds are on shares of m.
    """
    rows = []
    for quantity, low, high in (
        ("lucky_probability", "lucky_ci_low", "lucky_ci_high"),
        ("ordinary_features", "ordinary_ci_low", "ordinary_ci_high"),
    ):
        for ratio, group in lucky_sets.sort_values("d").groupby("ratio"):
            error = (group[high] - group[low]) / (2 * ndtri(0.975))
            points = pd.DataFrame({"d": group["d"], "estimate": group[quantity], "error": error})
            for part in (points, points.iloc[len(points) // 2 :]):
                rows += exponent_rows(quantity, ratio, None, part)
    per_neuron = {
        "pure_minority_share": trained["pure_minority_neurons"] / trained["m"],
        "single_minority_share": trained["single_minority_neurons"] / trained["m"],
        "learned_features": trained["learned_features"],
    }
    for quantity, values in per_neuron.items():
        for (ratio, d1_power), group in trained.assign(value=values).groupby(["ratio", "d1_power"]):
            sizes = group.groupby(["d", "m"])["value"].agg(estimate="mean", error="sem").reset_index()
            rows += exponent_rows(quantity, ratio, d1_power, sizes)
    table = pd.DataFrame(rows, columns=list(SCALING_EXPONENTS.columns)).astype({"d1_power": float})
    return checked(SCALING_EXPONENTS, table)


def scaling_exponents(tables: Mapping[str, pd.DataFrame], job: Job) -> pd.DataFrame:
    """The exponents of the sets at initialisation, and of what training made of them."""
    return exponents_table(tables["lucky_sets"], tables["scaling"])
