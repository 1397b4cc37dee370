"""Result 6-T (section 6.4): weight decay keeps spurious features and fails where they turn, a bound
on the rank drops them.

Axes: n values of a sum of features, nodes of a quadrature.
"""

import math
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float
from matplotlib.figure import Figure
from scipy.optimize import brentq, minimize, minimize_scalar
from scipy.signal import fftconvolve
from scipy.special import expit

from rarefeat.claims.measurements import Measurement, measurement
from rarefeat.figures.labels import seeds_of
from rarefeat.figures.panels import finish_figure, panels
from rarefeat.figures.style import STYLES
from rarefeat.model.randomness import generator
from rarefeat.studies.theorems.plots import STATED
from rarefeat.studies.theorems.problems import SpuriousProblem
from rarefeat.studies.theorems.results import (
    Row,
    by_setting,
    of_quantity,
    result_schema,
    setting_rows,
    settings_on,
)

STUDY = "spurious_features"
QUANTITIES = {
    "alpha": "weight of an invariant feature at the ridge's minimum, `at` = r of them; stated: its"
    " bound 1 / sqrt(r), Lemma 6.1",
    "beta": "weight of a spurious feature; stated: its bound alpha",
    "alpha_over_beta": "alpha / beta; stated: its bound 3 / (4 gamma)",
    "id_accuracy": "accuracy of the ridge in domain, exactly",
    "ood_accuracy": "accuracy of the ridge out of domain, exactly; stated: its bound exp(-r / 10),"
    " Proposition 6.3",
    "cost_of_spurious": "least loss of weights of norm 1 on `at` features with spurious ones among"
    " them, less that without; stated: above 0",
    "rank_ood_accuracy": "accuracy out of domain of weights on `at` invariant features alone;"
    " stated: 1",
}
SCHEMA = result_schema(STUDY, QUANTITIES)
CELLS = 64
"""Cells of [0, 1] in the law of a feature: means are exact, variances a part 1 / CELLS^2 too
small."""
NODES = 24
"""Nodes of a quadrature: exact for polynomials up to degree 47 of the sum of all features."""
NORM = 1.0
"""Bound on |w| in eq. (6.5), which has no minimum without one."""


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
    """Draw a problem that the proposition allows: r and gamma uniform in their ranges, d - r
    log-uniform above r / gamma^2.
    """
    low, high = problem.r
    first, second, third = torch.rand(3, generator=stream, dtype=torch.double).tolist()
    r = low + math.floor(first * (high - low + 1))
    gamma = 3 / math.sqrt(r) + (0.5 - 3 / math.sqrt(r)) * second
    d = r + math.floor(r / gamma**2 * problem.more**third) + 1
    return Instance(r, d, gamma, factor * math.sqrt(r) / math.exp(math.sqrt(r) / 5))


class SumDistribution(NamedTuple):
    """The distribution of a sum of independent features on a lattice."""

    values: Float[np.ndarray, " n"]
    """Ascending."""
    probability: Float[np.ndarray, " n"]


def feature(gamma: float) -> SumDistribution:
    """Return D_gamma, uniform on [0, 1] with probability 1/2 + gamma, else on [-1, 0] (Lemma E.3);
    an invariant feature for 1/2.
    """
    middles = (np.arange(-CELLS, CELLS) + 0.5) / CELLS
    return SumDistribution(middles, np.where(middles > 0, 0.5 + gamma, 0.5 - gamma) / CELLS)


def summed(law: SumDistribution, n: int) -> SumDistribution:
    """Return the distribution of the sum of n independent copies, by repeated squaring."""
    total, power = SumDistribution(np.zeros(1), np.ones(1)), law
    while n:
        total = _plus(total, power) if n % 2 else total
        n //= 2
        power = _plus(power, power) if n else power
    return total


def _plus(one: SumDistribution, other: SumDistribution) -> SumDistribution:
    probability = np.clip(fftconvolve(one.probability, other.probability), 0, None)
    values = one.values[0] + other.values[0] + np.arange(len(probability)) / CELLS
    return SumDistribution(values, probability / probability.sum())


def quadrature(law: SumDistribution) -> SumDistribution:
    """Return Gauss's quadrature of a distribution, NODES values with weights, by Lanczos and the
    eigenvalues of the Jacobi matrix.
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
    """The minimum of eq. (6.4): by symmetry alpha on every invariant and beta on every spurious
    feature (Lemma E.5).
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
    options = {"ftol": 1e-15, "gtol": 1e-12, "maxiter": 2000}
    minimum = minimize(objective, start, jac=True, method="L-BFGS-B", options=options)
    return Ridge(*map(float, minimum.x))


def tilted(law: SumDistribution, slope: float) -> tuple[SumDistribution, float]:
    """Return the distribution in proportion to p exp(slope x), and the logarithm of the sum."""
    weight = law.probability * np.exp(slope * law.values)
    return SumDistribution(law.values, weight / weight.sum()), math.log(weight.sum())


def accuracy(instance: Instance, weights: Ridge, gamma: float) -> float:
    """Return the probability that alpha S_R + beta S_U >= 0.

    If the sum's mean is negative, both distributions are tilted until it is 0: a small probability
    is then no rounding of a large one.
    """
    laws, counts = (feature(0.5), feature(gamma)), (instance.r, instance.d - instance.r)
    parts = list(zip(laws, weights, counts, strict=True))

    def cumulant(slope: float) -> float:
        return sum(n * tilted(law, slope * weight)[1] for law, weight, n in parts)

    slope, most = 0.0, 1.0
    if weights.alpha * instance.r / 2 + weights.beta * counts[1] * gamma < 0:
        while cumulant(2 * most) < cumulant(most):
            most *= 2
        search = {"bounds": (0, 2 * most), "method": "bounded", "options": {"xatol": 1e-9}}
        slope = float(minimize_scalar(cumulant, **search).x)
    invariant, spurious = (summed(tilted(law, slope * weight)[0], n) for law, weight, n in parts)
    if weights.beta == 0:
        return float(invariant.probability[weights.alpha * invariant.values >= 0].sum())
    # Far below the mean, where the exponential leaves the range of numbers, there is no
    # probability.
    returned = spurious.probability * np.exp(
        np.minimum(-slope * weights.beta * spurious.values, 700)
    )
    # Within its cell a value of the sum is taken as uniform.
    above = np.concatenate([np.cumsum(returned[::-1])[::-1], [0.0]])
    edges = np.append(spurious.values, spurious.values[-1] + 1 / CELLS) - 0.5 / CELLS
    needed = -weights.alpha * invariant.values / weights.beta
    right = np.interp(needed, edges, above, left=above[0], right=0.0)
    return math.exp(cumulant(slope)) * float(
        invariant.probability * np.exp(-slope * weights.alpha * invariant.values) @ right
    )


def support_loss(invariant: int, spurious: int, gamma: float, norm: float) -> float:
    """Return the least mean loss (6.5) of weights with |w| <= norm on some features of either sort.

    Without a bound on |w| it has no minimum: the loss goes to 0 as weights grow.
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


def measure(cell: dict, seeds: list[int], problem: SpuriousProblem) -> list[dict]:
    """Measure the ridge on each seed's instance, and what a spurious feature costs by rank."""
    rows = []
    for seed in seeds:
        stream = generator(STUDY, seed, "instance")
        instance = draw_instance(problem, cell["factor"], stream)
        r, gamma, weights = instance.r, instance.gamma, ridge(instance)
        alpha, beta = weights
        inside, outside = (accuracy(instance, weights, sign * gamma) for sign in (1, -1))
        # What follows knows nothing of the ridge.
        rank = 1 + math.floor(torch.rand(1, generator=stream, dtype=torch.double).item() * r)
        alone = support_loss(rank, 0, gamma, NORM)
        mixed = min(
            support_loss(rank - b, b, gamma, NORM) for b in sorted({1, (rank + 1) // 2, rank})
        )
        bounded = accuracy(instance._replace(r=rank), Ridge(1.0, 0.0), -gamma)
        rows += [
            Row(seed, "alpha", alpha, 1 / math.sqrt(r), r),
            Row(seed, "beta", beta, alpha, r),
            Row(seed, "alpha_over_beta", alpha / beta, 3 / (4 * gamma), r),
            Row(seed, "id_accuracy", inside, at=r),
            Row(seed, "ood_accuracy", outside, math.exp(-r / 10), r),
            Row(seed, "cost_of_spurious", mixed - alone, 0.0, rank),
            Row(seed, "rank_ood_accuracy", bounded, 1.0, rank),
        ]
    return setting_rows(rows, cell)


def claims(table: pd.DataFrame) -> Iterator[Measurement]:
    """Measure the claims for each factor of lambda; every seed is an instance."""
    for setting, v in by_setting(table).items():
        value, stated = (
            v.rows.pivot(index="seed", columns="quantity", values=column)
            for column in ("value", "stated")
        )
        share = value["beta"] / value["alpha"]
        measured = {
            "6.1-alpha": value["alpha"] / stated["alpha"],
            "6.1-order": np.maximum(share - 1, -share),
            "6.1-ratio": np.log(value["alpha_over_beta"] / stated["alpha_over_beta"]),
            "6.2": (value["cost_of_spurious"] > 0).astype(float),
            "6.3-ridge": np.log(value["ood_accuracy"] / stated["ood_accuracy"]),
            "6.3-rank": value["rank_ood_accuracy"].round(12),
        }
        for claim, values in measured.items():
            yield measurement(claim, STUDY, {"setting": setting}, values)


def plot(tables: Mapping[str, pd.DataFrame]) -> Figure:
    """Plot accuracy out of domain of instances of Proposition 6.3, with its bound."""
    (table,) = tables.values()
    factors = settings_on(table, "factor")
    looks = dict(zip(factors, STYLES[1:], strict=False))
    figure, ((ax,),) = panels(height=2.8)
    accuracies = of_quantity(table, "ood_accuracy")
    for factor, setting in factors.items():
        rows = accuracies[accuracies["setting"] == setting]
        ax.plot(rows["at"], rows["value"], **looks[factor].replace(filled=False).without_line.line)
    r = np.linspace(table["at"].min(), table["at"].max(), 50)
    ax.plot(r, np.exp(-r / 10), **STATED.line)
    ax.set(yscale="log", xlabel="invariant features $r$", ylabel="accuracy out of domain")
    entries = {
        rf"penalty {factor:g} $\sqrt{{r}}\,e^{{-\sqrt{{r}}/5}}$": look.without_line
        for factor, look in looks.items()
    }
    entries |= {"bound of the proposition, from above": STATED}
    note = f"{seeds_of(table)}, each an instance of its own"
    return finish_figure(figure, (), entries, note, columns=3)
