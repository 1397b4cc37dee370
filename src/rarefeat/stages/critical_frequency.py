"""Model for the critical frequency, at which half of the replicas learn a rare feature.

A feature counts as learned from a cosine of 0.5. The model is a closed form with two fitted
constants; derivation: docs/method/selection.md. Call `critical_frequency` for a regime, and
`learning_probability` for given initial weights.
Axes: S replicas, m neurons, d features, the rare one last.
"""

import math
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from numpy import ndarray
from torch import Tensor

from rarefeat.model import stream_names
from rarefeat.model.logistic_fit import LogisticFit
from rarefeat.model.randomness import generator
from rarefeat.model.simulators import ReducedSimulator
from rarefeat.model.theory import activation_probability, attended_count, stage1_growth
from rarefeat.workflow.config.model import Data, Training

MAX_EXPONENT = 40.0
"""Bound of all exponents: e^40 is far above any ratio of sizes in float32."""
GRID = np.linspace(0.02, 1.0, 99)
"""eps_min at which the model is evaluated to find the critical frequency."""


VALIDATED_RANGES = {
    "decay": (0.03, 0.2), "share": (0.1, 0.9), "C": (0.5, 2.0), "L": (1, 8), "tau": (0.5, 2.0),
    "d": (6, 20), "d1": (60, 5000), "m": (20, 60), "sigma_0": (5e-4, 1e-2),
    "sigma": (0.05, 0.05), "K": (128, 128), "attention_scale": (1.0, 1.0),
}  # fmt: skip
"""Ranges in which the model was validated; a test compares them with config/studies/selection.yaml.

There they are the ranges of `law_test`, and the values that it does not vary. sigma and sigma_0 are
those at d1 = REFERENCE_D1; both scale as d1^(-1/2).
"""
REFERENCE_D1 = 500
"""The d1 to which sigma and sigma_0 refer in the ranges."""
ROUNDING = 1e-9
"""Relative distance from the end of a range that is rounding."""
NORMAL_95 = 1.959964 * math.sqrt(math.pi / 2)
"""Half a 95 % interval of a normal distribution, in units of its mean absolute value."""
MINORITY, MAJORITY = 0.1, 0.9
"""Fractions of replicas between which the spread over initial weights is told."""


class TrainingPoint(NamedTuple):
    """Hyper-parameters at which replicas are trained."""

    data: Data
    """Hyper-parameters of the data."""
    training: Training
    """Hyper-parameters of the training."""
    sigma: float
    """Standard deviation of the noise per coordinate."""
    eps_min: float
    """Frequency of the rare feature."""

    @property
    def threshold(self) -> float:
        """Bias over the norm of a neuron, share * sqrt(2 log d / d)."""
        return self.training.bias.share * math.sqrt(2 * math.log(self.data.d) / self.data.d)

    @property
    def nsr(self) -> float:
        """Noise-to-signal ratio of a token, sigma^2 d1."""
        return self.sigma**2 * self.data.d1

    @property
    def growth_rate(self) -> float:
        """Growth of a frequent feature in stage 1, per unit of eta and without decay.

        From `stage1_growth` (model/theory.py).
        """
        data, training = self.data, self.training
        equal = torch.ones(data.d, dtype=torch.float64)
        rates = training.K, training.tau, 1.0, 0.0
        growth = stage1_growth(equal, data.C, data.L, self.nsr, *rates, self.scale)
        return float(growth[0] - 1)

    @property
    def scale(self) -> float:
        """Scale of the attention's logits."""
        return self.training.logit_scale(self.data.d1)


class InitialProjections(NamedTuple):
    """Quantities of the initial weights of S replicas that the model needs."""

    projections: Float[Tensor, "S m d"]
    """<w_i, M_j>, the rare feature last."""
    outside: Float[Tensor, "S m"]
    """||w_i||^2 minus their squares."""


def explain_out_of_range(point: TrainingPoint) -> str:
    """Describe the first hyper-parameter outside the validated ranges; empty if all are inside."""
    data, training, size = point.data, point.training, math.sqrt(point.data.d1 / REFERENCE_D1)
    values = {
        "decay": training.lambda_ / point.growth_rate, "share": training.bias.share, "C": data.C,
        "L": data.L, "tau": training.tau, "d": data.d, "d1": data.d1, "m": training.m,
        "sigma_0": training.sigma_0 * size, "sigma": point.sigma * size, "K": training.K,
        "attention_scale": point.scale,
    }  # fmt: skip
    for name, (low, high) in VALIDATED_RANGES.items():
        if not low * (1 - ROUNDING) <= values[name] <= high * (1 + ROUNDING):
            tested = f"outside of {low:g} to {high:g}" if low < high else f"and not {low:g}"
            return f"{name} is {values[name]:g}, {tested}"
    return ""


def draw_initial_projections(
    namespace: str, point: TrainingPoint, seeds: list[int]
) -> InitialProjections:
    """Draw the initial weights of the replicas of a sweep, which are not stored.

    Random stream: "weights".
    """
    simulator = ReducedSimulator(point.data.d, point.data.d1, point.training.m, len(seeds))
    weights = simulator.initial_weights(
        point.training.sigma_0,
        [generator(namespace, seed, stream_names.WEIGHTS) for seed in seeds],
    ).double()
    projections = weights[..., : point.data.d]
    return InitialProjections(projections, weights[..., point.data.d :].square().sum(-1))


def saturated_strength(point: TrainingPoint) -> float:
    """Compute sum_i <w_i, M_j>^2 at which a frequent feature neither grows nor decays.

    The growth that remains is the residual lambda / growth rate. With the c = (K - 1) p / 2
    negatives that hold the feature with the same sign, which attract as the positive does, the
    residual is R / (R + (1 + c) exp(s)), R being the number of the other negatives and s the logit
    of the positive, strength times the square of the mean response over tau.
    """
    data, training = point.data, point.training
    p = float(activation_probability(torch.ones(data.d, dtype=torch.float64), data.C)[0])
    residual = training.lambda_ / point.growth_rate
    same = (training.K - 1) * p / 2
    ratio = (
        (1 - residual) / residual * (training.K - 1 - same) / (1 + same)
        if 0 < residual < 1
        else 1.0
    )
    response = attended_count(data.L, point.nsr, point.scale, point.threshold)
    return max(math.log(ratio), 1e-3) * training.tau / response**2 if response else math.inf


def exponents(
    initial: InitialProjections, point: TrainingPoint
) -> tuple[Float[Tensor, " S"], Float[Tensor, " S"]]:
    """Compute log growth of common and rare features, without decay, to the later of T1 and G_s.

    Stage 1 is linear: <w_i, M_j> grows as exp(eps_j G), the component outside the features does
    not grow, and the decay of all is the same. T1 is when the slowest neuron has half of its square
    in the features, eq. (34). Frequent features stop at G_s, when their strength has saturated. If
    that is before T1, the decay of the outside component brings T1, and the rare feature grows on
    by 1 / residual of it.
    """
    squares = initial.projections[..., :-1].square()
    low, high = (
        torch.zeros(len(squares), dtype=torch.float64),
        torch.full((len(squares),), MAX_EXPONENT, dtype=torch.float64),
    )
    # The rare feature's own term in eq. (34) is left out: T1 is then the same at every eps_min.
    slowest = (squares.sum(-1) / initial.outside.clamp_min(1e-300)).amin(-1).clamp_min(1e-300)
    to_T1 = (-slowest.log() / 2).clamp(low, high)
    residual = min(point.training.lambda_ / point.growth_rate, 1 - 1e-6)
    strength = squares.sum(1).mean(-1).clamp_min(1e-300)
    saturated = (
        (math.log(min(saturated_strength(point), 1e30)) - strength.log()).clamp_min(0)
        / 2
        / (1 - residual)
    )
    common = torch.maximum(to_T1, saturated)
    rare = saturated + (common - saturated) / max(residual, 1e-6)
    return common.clamp(max=MAX_EXPONENT), rare.clamp(max=MAX_EXPONENT)


def log_margin(
    initial: InitialProjections, point: TrainingPoint, eps_min: float | None = None
) -> Float[Tensor, " S"]:
    """Compute the log of the largest cosine to the rare feature over the threshold.

    The cosine is that of the best neuron when growth has ended. A gate that is open then stays
    open, and one that is closed stays closed: the feature is learned where this exceeds log kappa.
    """
    eps = point.eps_min if eps_min is None else eps_min
    if not point.threshold:
        return torch.full((len(initial.outside),), torch.inf, dtype=torch.float64)
    common, rare = exponents(initial, point)
    squares = initial.projections[..., :-1].square().sum(-1)
    rare_square = (
        initial.projections[..., -1].square().clamp_min(1e-300).log() + 2 * eps * rare[:, None]
    )
    others = torch.logaddexp(
        squares.clamp_min(1e-300).log() + 2 * common[:, None],
        initial.outside.clamp_min(1e-300).log(),
    )
    cosine = (rare_square - torch.logaddexp(rare_square, others)) / 2
    return cosine.amax(-1) - math.log(point.threshold)


def learning_probability(margins: Float[Tensor, " S"], fit: LogisticFit) -> Float[Tensor, " S"]:
    """Compute the probability of learning the feature, logistic in the log margin."""
    return torch.sigmoid(fit.steepness * (margins - fit.centre))


class CriticalFrequency(NamedTuple):
    """A predicted critical frequency: the eps_min at which half of the replicas learn."""

    eps_min: float
    """Interpolated; 0 if half or more learn at every eps_min, 1 if fewer than half do at each."""
    low: float
    """Lower end of its 95 % interval."""
    high: float
    """Upper end."""
    first: float
    """The eps_min at which a tenth of the replicas learn: the luckiest initial weights."""
    last: float
    """That at which nine tenths do."""


def learned_fractions(
    point: TrainingPoint, fit: LogisticFit, initial: InitialProjections
) -> Float[ndarray, " eps"]:
    """Predict the fraction of replicas that learn the rare feature, at every eps_min of GRID."""
    margins = (log_margin(initial, point, float(eps)) for eps in GRID)
    return np.array([float(learning_probability(margin, fit).mean()) for margin in margins])


def critical_frequency(
    point: TrainingPoint, fit: LogisticFit, initial: InitialProjections
) -> float:
    """Predict the eps_min at which half of the replicas learn the rare feature."""
    return crossing(learned_fractions(point, fit, initial), 0.5)


def estimate_critical_frequency(
    point: TrainingPoint, fit: LogisticFit, error: float, replicas: int
) -> CriticalFrequency:
    """Predict the critical frequency with its interval and the spread over initial weights."""
    initial = draw_initial_projections("selection/law", point, list(range(replicas)))
    learned = learned_fractions(point, fit, initial)
    half, first, last = (crossing(learned, share) for share in (0.5, MINORITY, MAJORITY))
    low, high = (min(max(half + sign * NORMAL_95 * error, 0.0), 1.0) for sign in (-1, 1))
    return CriticalFrequency(half, low, high, first, last)


def crossing(learned: Float[ndarray, " eps"], share: float) -> float:
    """Return the eps_min of GRID, interpolated, from which on `learned` is at least a share.

    It is 0 where the first value already is, and 1 where none is.
    """
    if learned[0] >= share:
        return 0.0
    if learned.max() < share:
        return 1.0
    i = int(np.argmax(learned >= share))
    rise = (share - learned[i - 1]) / (learned[i] - learned[i - 1])
    return float(GRID[i - 1] + rise * (GRID[i] - GRID[i - 1]))
