"""Where a rare feature reaches a cosine of 0.5 and where it does not: a closed form with two constants.

Derivation: docs/method/selection.md. A user calls `critical_frequency` for a regime, and `learning_probability` for given initial weights.
"""

import math
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from rarefeat.config.model import Data, Training
from rarefeat.core.logistic_fit import LogisticFit
from rarefeat.core.randomness import generator
from rarefeat.core.simulators import ReducedSimulator
from rarefeat.core.theory import activation_probability, attended_count, stage1_growth

MAX_EXPONENT = 40.0
"""No exponent is beyond this: e^40 is far above any ratio of sizes in float32."""
GRID = np.linspace(0.02, 1.0, 99)
"""eps_min at which the law is asked for its step."""


VALIDATED_RANGES = {
    "decay": (0.03, 0.2), "share": (0.1, 0.9), "C": (0.5, 2.0), "L": (1, 8), "tau": (0.5, 2.0), "d": (6, 20), "d1": (60, 5000),
    "m": (20, 60), "sigma_0": (5e-4, 1e-2),
}  # fmt: skip
"""Where the law was tested: the ranges of law_test in config/studies/selection.yaml, to which a test holds them."""
REFERENCE_TIME = 50.0
"""eta T of the trainings that the law's two constants are of: 500 steps."""
REFERENCE_D1 = 500
"""The d1 at which sigma_0 is drawn; scaled by d1^(-1/2)."""


class TrainingPoint(NamedTuple):
    """Where replicas are trained."""

    data: Data
    training: Training
    sigma: float
    eps_min: float

    @property
    def threshold(self) -> float:
        """The bias over the norm, share sqrt(2 log d / d)."""
        return self.training.bias.share * math.sqrt(2 * math.log(self.data.d) / self.data.d)

    @property
    def nsr(self) -> float:
        """sigma^2 d1, the noise-to-signal ratio of a token."""
        return self.sigma**2 * self.data.d1

    @property
    def growth_rate(self) -> float:
        """Growth of a frequent feature in stage 1 per unit of eta and without decay: core/theory.py, stage1_growth."""
        data, training, equal = (
            self.data,
            self.training,
            torch.ones(self.data.d, dtype=torch.float64),
        )
        return float(
            stage1_growth(equal, data.C, data.L, self.nsr, training.K, training.tau, 1.0, 0.0)[0]
            - 1
        )


class LateLearningFit(NamedTuple):
    """What is fitted of late learning: how far, and how fast, the law's centre falls after its own time."""

    drop: float
    """log of how far it falls in the end, at lambda / pull = 1 and one training pair."""
    by_decay: float
    """And its exponents in these."""
    by_pairs: float
    rate: float


class InitialProjections(NamedTuple):
    """What the law reads of the initial weights of S replicas."""

    projections: Tensor
    """<w_i, M_j>, float64 (S, m, d), the rare feature last."""
    outside: Tensor
    """||w_i||^2 less their squares, (S, m)."""


VALIDATED_RANGES_LATE = {
    "N": (2048, 65536), "T": (500, 4000), "decay": (0.015, 0.0911), "share": (0.1, 0.4), "C": (1, 1), "L": (4, 4),
    "tau": (1, 1), "d": (9, 9), "d1": (500, 500), "m": (30, 30), "sigma_0": (5e-3, 5e-3),
}  # fmt: skip
"""And with T: the ranges of time_test in config/studies/fate.yaml, at the size of the paper's study."""


def explain_out_of_range(at: TrainingPoint, T: float | None = None) -> str:
    """The first value of a regime that is outside of TESTED, in words; empty where none is. T: where it is asked for too."""
    data, training = at.data, at.training
    values = {
        "decay": training.lambda_ / at.growth_rate, "share": training.bias.share, "C": data.C, "L": data.L, "tau": training.tau,
        "d": data.d, "d1": data.d1, "m": training.m, "sigma_0": training.sigma_0 * math.sqrt(data.d1 / REFERENCE_D1),
    }  # fmt: skip
    ranges = VALIDATED_RANGES
    if T is not None:
        values, ranges = values | {"N": data.N, "T": T}, VALIDATED_RANGES_LATE
    for name, (low, high) in ranges.items():
        if not low <= values[name] <= high:
            return f"{name} is {values[name]:g}, outside of {low:g} to {high:g}"
    return ""


def draw_initial_projections(draws: str, at: TrainingPoint, seeds: list[int]) -> InitialProjections:
    """The initial weights of a sweep's replicas, which are keyed and not stored."""
    space = ReducedSimulator(at.data.d, at.data.d1, at.training.m, len(seeds))
    weights = space.initial_weights(
        at.training.sigma_0, [generator(draws, seed, "weights") for seed in seeds]
    ).double()
    projections = weights[..., : at.data.d]
    return InitialProjections(projections, weights[..., at.data.d :].square().sum(-1))


def mean_response(L: int, nsr: float, threshold: float) -> float:
    """E[sum_r (a_r - threshold)_+] of the attended coordinate a_r of one active feature, the other features being silent.

    core/theory.py, attended_count, whose terms these are, has it at threshold 0.
    """
    if not threshold:
        return attended_count(L, nsr)
    total = 0.0
    for c in range(1, L + 1):
        own, other = math.exp(1 + nsr), (c - 1) * math.e
        kept = (own + other) / (own + other + L - c)
        left = c / (c + L - c - 1 + math.exp(nsr)) if c < L else 0.0
        total += (
            math.comb(L - 1, c - 1)
            / 2 ** (L - 1)
            * (c * max(kept - threshold, 0) + (L - c) * max(left - threshold, 0))
        )
    return total


def saturated_strength(at: TrainingPoint) -> float:
    """sum_i <w_i, M_j>^2 at which a frequent feature neither grows nor decays.

    What it still pulls is the residual lambda / pull. With the c = (K - 1) p / 2 negatives that hold the feature with the same
    sign, which pull as the positive does, the residual is R / (R + (1 + c) exp(s)), R being the number of the others and s the
    positive's logit, strength times the square of the mean response over tau. Infinite where the bias leaves no response.
    """
    data, training = at.data, at.training
    p = float(activation_probability(torch.ones(data.d, dtype=torch.float64), data.C)[0])
    residual = training.lambda_ / at.growth_rate
    same = (training.K - 1) * p / 2
    ratio = (
        (1 - residual) / residual * (training.K - 1 - same) / (1 + same)
        if 0 < residual < 1
        else 1.0
    )
    response = mean_response(data.L, at.nsr, at.threshold)
    return max(math.log(ratio), 1e-3) * training.tau / response**2 if response else math.inf


def exponents(start: InitialProjections, at: TrainingPoint) -> tuple[Tensor, Tensor]:
    """Logarithmic growth, without decay, until the later of T1 and saturation: of frequent features, and of one at eps = 1.

    Stage 1 is linear: <w_i, M_j> grows as exp(eps_j G), what is outside of the features does not, and the decay of all is the
    same. T1 is when the slowest neuron has half of its square in the features, eq. (34). Frequent features stop at G_s, when
    their strength has saturated; if that is before T1, the decay of what is outside brings T1, and the rare feature goes on
    growing by 1 / residual of it. (S,) each.
    """
    squares = start.projections[..., :-1].square()
    low, high = (
        torch.zeros(len(squares), dtype=torch.float64),
        torch.full((len(squares),), MAX_EXPONENT, dtype=torch.float64),
    )
    # The rare feature's own part in eq. (34) is left out: T1 is then the same at every eps_min.
    slowest = (squares.sum(-1) / start.outside.clamp_min(1e-300)).amin(-1).clamp_min(1e-300)
    to_T1 = (-slowest.log() / 2).clamp(low, high)
    residual = min(at.training.lambda_ / at.growth_rate, 1 - 1e-6)
    now = squares.sum(1).mean(-1).clamp_min(1e-300)
    saturated = (
        (math.log(min(saturated_strength(at), 1e30)) - now.log()).clamp_min(0) / 2 / (1 - residual)
    )
    common = torch.maximum(to_T1, saturated)
    rare = saturated + (common - saturated) / max(residual, 1e-6)
    return common.clamp(max=MAX_EXPONENT), rare.clamp(max=MAX_EXPONENT)


def log_margin(
    start: InitialProjections, at: TrainingPoint, eps_min: float | None = None
) -> Tensor:
    """log of the largest cosine of a neuron to the rare feature when growth has ended, over the threshold, (S,).

    A gate that is open then stays open, and one that is shut stays shut: the feature is learned where this exceeds log kappa.
    Infinite without a bias.
    """
    eps = at.eps_min if eps_min is None else eps_min
    if not at.threshold:
        return torch.full((len(start.outside),), torch.inf, dtype=torch.float64)
    common, rare = exponents(start, at)
    squares = start.projections[..., :-1].square().sum(-1)
    own = start.projections[..., -1].square().clamp_min(1e-300).log() + 2 * eps * rare[:, None]
    others = torch.logaddexp(
        squares.clamp_min(1e-300).log() + 2 * common[:, None], start.outside.clamp_min(1e-300).log()
    )
    cosine = (own - torch.logaddexp(own, others)) / 2
    return cosine.amax(-1) - math.log(at.threshold)


def learning_probability(margins: Tensor, constants: LogisticFit) -> Tensor:
    """Of learning the feature, from `log_margin`, any shape."""
    return torch.sigmoid(constants.steepness * (margins - constants.centre))


def fit_at_step(
    at: TrainingPoint, T: float, constants: LogisticFit, late: LateLearningFit
) -> LogisticFit:
    """The constants for what is learned by step T, of which those of OWN_TIME are given; T may be infinite.

    The centre falls by drop (lambda / pull)^by_decay N^by_pairs (1 - (OWN_TIME / (eta T))^rate): docs/method/fate.md.
    """
    left = (REFERENCE_TIME / max(at.training.eta * T, REFERENCE_TIME)) ** late.rate
    log_drop = (
        late.drop
        + late.by_decay * math.log(at.training.lambda_ / at.growth_rate)
        + late.by_pairs * math.log(at.data.N)
    )
    return constants._replace(
        centre=constants.centre - math.exp(min(log_drop, MAX_EXPONENT)) * (1 - left)
    )


def critical_frequency(
    at: TrainingPoint,
    constants: LogisticFit,
    begun: InitialProjections | None = None,
    replicas: int = 200,
    seed: int = 0,
) -> float:
    """The eps_min at which half of the replicas learn the feature: at `at`, whose own eps_min does not matter.

    Args:
        constants: of OWN_TIME, or of another (`fit_at_step`).
        begun: initial weights; drawn for so many `replicas` if not given.

    Returns:
        eps_min, interpolated; 0 where more than half learn at any eps_min, and 1 where less than half do at every one.
    """
    begun = (
        draw_initial_projections("selection/law", at, list(range(seed, seed + replicas)))
        if begun is None
        else begun
    )
    share = np.array(
        [
            float(learning_probability(log_margin(begun, at, float(eps)), constants).mean())
            for eps in GRID
        ]
    )
    if share[0] >= 0.5:
        return 0.0
    if share.max() < 0.5:
        return 1.0
    first = int(np.argmax(share >= 0.5))
    rise = (0.5 - share[first - 1]) / (share[first] - share[first - 1])
    return float(GRID[first - 1] + rise * (GRID[first] - GRID[first - 1]))
