"""Result 6-T (section 6.4): spurious features under weight decay and a bound on the rank.

Weight decay keeps them and fails where they turn, a bound on the rank drops them.
"""

import math
from typing import NamedTuple

import numpy as np
import pandas as pd
import torch
from scipy.optimize import brentq, minimize, minimize_scalar
from scipy.signal import fftconvolve
from scipy.special import expit

from rarefeat.model.randomness import generator
from rarefeat.studies.exact_results.config import SpuriousProblem
from rarefeat.studies.exact_results.result_rows import ResultRow, rows_to_table
from rarefeat.workflow.config.cells import Cell
from rarefeat.workflow.run.job import Job
from rarefeat.workflow.run.job_inputs import JobInputs

CELLS = 64
"""Cells of [0, 1] in the law of a feature: means are exact, variances a part 1 / CELLS^2 too
small."""
NODES = 24
"""Nodes of a quadrature: exact for polynomials up to degree 47 of the sum of all features."""


class Instance(NamedTuple):
    """A problem of Proposition 6.3."""

    r: int
    """Invariant features."""
    d: int
    """All features."""
    gamma: float
    """Probability that a spurious feature agrees with the label, less 1/2."""
    penalty: float
    """lambda of eq. (6.4)."""


def draw_instance(problem: SpuriousProblem, factor: float, stream: torch.Generator) -> Instance:
    """Draw a problem that the proposition allows.

    r and gamma are uniform in their ranges, d - r log-uniform above r / gamma^2.
    """
    low, high = problem.r
    first, second, third = torch.rand(3, generator=stream, dtype=torch.double).tolist()
    r = low + math.floor(first * (high - low + 1))
    gamma = 3 / math.sqrt(r) + (0.5 - 3 / math.sqrt(r)) * second
    d = r + math.floor(r / gamma**2 * problem.more**third) + 1
    return Instance(r, d, gamma, factor * math.sqrt(r) / math.exp(math.sqrt(r) / 5))


class SumDistribution(NamedTuple):
    """The distribution of a sum of independent features on a lattice."""

    values: np.ndarray
    """(n,), ascending."""
    probability: np.ndarray
    """(n,)."""


def feature(gamma: float) -> SumDistribution:
    """Return D_gamma of Lemma E.3: uniform on [0, 1] with probability 1/2 + gamma, else on [-1, 0].

    At gamma = 1/2 the feature is invariant.
    """
    middles = (np.arange(-CELLS, CELLS) + 0.5) / CELLS
    return SumDistribution(middles, np.where(middles > 0, 0.5 + gamma, 0.5 - gamma) / CELLS)


def summed(law: SumDistribution, n: int) -> SumDistribution:
    """Return the distribution of the sum of n independent copies, by repeated squaring; the sum of
    none is 0.
    """
    total, power = SumDistribution(np.zeros(1), np.ones(1)), law
    while n:
        total = _plus(total, power) if n % 2 else total
        n //= 2
        power = _plus(power, power) if n else power
    return total


def _plus(one: SumDistribution, other: SumDistribution) -> SumDistribution:
    probability = np.clip(fftconvolve(one.probability, other.probability), 0, None)
    low = one.values[0] + other.values[0]
    return SumDistribution(
        low + np.arange(len(probability)) / CELLS, probability / probability.sum()
    )


def quadrature(law: SumDistribution) -> SumDistribution:
    """Return Gauss's quadrature of a distribution, NODES values with weights.

    They come from Lanczos and the eigenvalues of the Jacobi matrix.
    """
    support = law.probability > 1e-30
    x, weight = law.values[support], law.probability[support]
    n = min(NODES, len(x))
    basis, diagonal, beside = [np.sqrt(weight / weight.sum())], [], []
    for i in range(n):
        following = x * basis[i]
        diagonal.append(following @ basis[i])
        for _ in range(2):
            following = following - np.array(basis).T @ (np.array(basis) @ following)
        beside.append(np.linalg.norm(following))
        if i + 1 < n:
            basis.append(following / beside[-1])
    values, vectors = np.linalg.eigh(
        np.diag(diagonal) + np.diag(beside[:-1], 1) + np.diag(beside[:-1], -1)
    )
    return SumDistribution(values, vectors[0] ** 2)


def logistic(margin: np.ndarray) -> np.ndarray:
    """Return log(1 + exp(-margin))."""
    return np.logaddexp(0, -margin)


class Ridge(NamedTuple):
    """The minimum of eq. (6.4).

    By symmetry alpha on every invariant and beta on every spurious feature (Lemma E.5).
    """

    alpha: float
    beta: float


def ridge(instance: Instance) -> Ridge:
    """Minimise the exact objective over both weights by L-BFGS with its gradient."""
    invariant = quadrature(summed(feature(0.5), instance.r))
    spurious = quadrature(summed(feature(instance.gamma), instance.d - instance.r))
    weight = np.outer(invariant.probability, spurious.probability)
    counts = np.array([instance.r, instance.d - instance.r])

    def objective(pair: np.ndarray) -> tuple[float, np.ndarray]:
        margin = pair[0] * invariant.values[:, None] + pair[1] * spurious.values
        slope = -weight * expit(-margin)
        by_pair = np.array(
            [(slope * invariant.values[:, None]).sum(), (slope * spurious.values).sum()]
        )
        value = (weight * logistic(margin)).sum() + instance.penalty / 2 * (counts * pair**2).sum()
        return value, by_pair + instance.penalty * counts * pair

    start = np.full(2, 0.5 / math.sqrt(instance.d))
    minimum = minimize(
        objective,
        start,
        jac=True,
        method="L-BFGS-B",
        options={"ftol": 1e-15, "gtol": 1e-12, "maxiter": 2000},
    )
    return Ridge(*map(float, minimum.x))


def tilted(law: SumDistribution, slope: float) -> tuple[SumDistribution, float]:
    """Return the distribution with probabilities in proportion to p exp(slope x), and the logarithm
    of their sum.
    """
    weight = law.probability * np.exp(slope * law.values)
    return SumDistribution(law.values, weight / weight.sum()), math.log(weight.sum())


def accuracy(instance: Instance, weights: Ridge, gamma: float) -> float:
    """Return the probability that alpha S_R + beta S_U >= 0.

    If the sum's mean is negative, both distributions are tilted until it is 0: a small probability
    is then no rounding of a large one.
    """
    laws, counts = (
        (feature(0.5), feature(gamma)),
        (instance.r, instance.d - instance.r),
    )

    def cumulant(slope: float) -> float:
        return sum(
            n * tilted(law, slope * weight)[1]
            for law, weight, n in zip(laws, weights, counts, strict=True)
        )

    slope, most = 0.0, 1.0
    if weights.alpha * instance.r / 2 + weights.beta * counts[1] * gamma < 0:
        while cumulant(2 * most) < cumulant(most):
            most *= 2
        slope = float(
            minimize_scalar(
                cumulant, bounds=(0, 2 * most), method="bounded", options={"xatol": 1e-9}
            ).x
        )
    invariant, spurious = (
        summed(tilted(law, slope * weight)[0], n)
        for law, weight, n in zip(laws, weights, counts, strict=True)
    )
    # Far below the mean, where the exponential leaves the range of numbers, there is no
    # probability.
    returned = spurious.probability * np.exp(
        np.minimum(-slope * weights.beta * spurious.values, 700)
    )
    if weights.beta == 0:
        return float(invariant.probability[weights.alpha * invariant.values >= 0].sum())
    # Within its cell a value of the sum is taken as uniform.
    above = np.concatenate([np.cumsum(returned[::-1])[::-1], [0.0]])
    edges = np.append(spurious.values, spurious.values[-1] + 1 / CELLS) - 0.5 / CELLS
    needed = -weights.alpha * invariant.values / weights.beta
    right = np.interp(needed, edges, above, left=above[0], right=0.0)
    return math.exp(cumulant(slope)) * float(
        invariant.probability * np.exp(-slope * weights.alpha * invariant.values) @ right
    )


def support_loss(invariant: int, spurious: int, gamma: float, norm: float) -> float:
    """Return the least mean loss of weights with |w| <= norm on some features of either sort.

    It is the objective of eq. (6.5). Without a bound on |w| it has no minimum: with weights on
    invariant features alone every margin is positive, so that the loss goes to 0 as they grow, and
    it does with a fixed weight on spurious ones as well.
    """
    a, b = quadrature(summed(feature(0.5), invariant)), quadrature(summed(feature(gamma), spurious))
    weight = np.outer(a.probability, b.probability)

    def loss(angle: float) -> float:
        alpha = norm * math.cos(angle) / math.sqrt(invariant) if invariant else 0.0
        beta = norm * math.sin(angle) / math.sqrt(spurious) if spurious else 0.0
        return float((weight * logistic(alpha * a.values[:, None] + beta * b.values)).sum())

    if not invariant or not spurious:
        return loss(math.pi / 2 if spurious else 0.0)

    def slope(angle: float) -> float:
        return loss(angle + 1e-4) - loss(angle - 1e-4)

    # Convex in w and falling in both weights, so that one angle of the first quadrant is the best.
    return loss(brentq(slope, 0, math.pi / 2) if slope(0) < 0 < slope(math.pi / 2) else 0.0)


def rows(problem: SpuriousProblem, cell: Cell, draws: str, seeds: list[int]) -> list[ResultRow]:
    """Measure the ridge's weights and accuracies on each seed's instance, and the cost of one
    spurious feature under a bound on the rank.
    """
    results = []
    for seed in seeds:
        stream = generator(draws, seed, "instance")
        instance = draw_instance(problem, cell["factor"], stream)
        weights = ridge(instance)
        results += [
            ResultRow(seed, instance.r, "alpha", weights.alpha, 1 / math.sqrt(instance.r)),
            ResultRow(seed, instance.r, "beta", weights.beta, weights.alpha),
            ResultRow(
                seed,
                instance.r,
                "alpha_over_beta",
                weights.alpha / weights.beta,
                3 / (4 * instance.gamma),
            ),
            ResultRow(
                seed,
                instance.r,
                "id_accuracy",
                accuracy(instance, weights, instance.gamma),
            ),
            ResultRow(
                seed,
                instance.r,
                "ood_accuracy",
                accuracy(instance, weights, -instance.gamma),
                math.exp(-instance.r / 10),
            ),
        ]
        # What follows knows nothing of the ridge.
        rank = 1 + math.floor(
            torch.rand(1, generator=stream, dtype=torch.double).item() * instance.r
        )
        norm = 1.0
        alone = support_loss(rank, 0, instance.gamma, norm)
        others = [
            support_loss(rank - b, b, instance.gamma, norm)
            for b in sorted({1, (rank + 1) // 2, rank})
        ]
        results.append(ResultRow(seed, rank, "cost_of_spurious", min(others) - alone, 0.0))
        results.append(
            ResultRow(
                seed,
                rank,
                "rank_ood_accuracy",
                accuracy(instance._replace(r=rank), Ridge(1.0, 0.0), -instance.gamma),
                1.0,
            )
        )
    return results


def run_stage(inputs: JobInputs, job: Job) -> pd.DataFrame:
    """Measure a cell and block of seeds.

    Config: `parameters`. Output: a row per seed and quantity.
    """
    return rows_to_table(
        rows(
            job.config_section("parameters", SpuriousProblem),
            job.cell_object,
            job.study,
            job.seed_list,
        ),
        job.cell_object,
    )
