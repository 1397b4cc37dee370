"""Result 7-T (section 7.2.2, appendix F.2).

What a linear contrastive representation keeps of a mixture of tasks, even or not.

Coordinates are z = (z_S, z_{P_1}, ..., z_{P_T}, z_U): s shared features, r - s private ones of each
task, and spurious ones.
"""

import math

import numpy as np
import pandas as pd
import torch
from scipy.optimize import minimize
from scipy.special import expit, gamma, roots_genlaguerre
from torch import Tensor
from torch.nn import functional

from rarefeat.config.cells import Cell
from rarefeat.core.randomness import generator
from rarefeat.run.job import Job
from rarefeat.run.job_inputs import JobInputs
from rarefeat.studies.exact_results.config import Mixture
from rarefeat.studies.exact_results.result_rows import ResultRow, rows_to_table

NODES = 60
PROBES = 200
"""Draws of labelled samples that a risk is the mean over, for each seed."""


def chi_squared(k: int) -> tuple[np.ndarray, np.ndarray]:
    """Values and probabilities of Gauss's quadrature of the chi-squared law with k degrees of freedom, (NODES,) each."""
    x, weight = roots_genlaguerre(NODES, k / 2 - 1)
    return 2 * x, weight / gamma(k / 2)


def closed_form_weights(r: int, s: int, weights: np.ndarray) -> np.ndarray:
    """alpha and alpha_t of Lemma F.3 for the logistic loss and variances 1.

    (T,) tasks' weights, of sum 1 -> (T + 1,).

    The convex programme (F.40)-(F.42); Propositions 7.3 and F.8 are its case of equal weights.
    """
    T = len(weights)
    (shared, p), (private, q) = chi_squared(s), chi_squared(r - s)
    probability = np.outer(p, q)
    cost = np.array([s, *[r - s] * T], dtype=float)

    def objective(alpha: np.ndarray) -> tuple[float, np.ndarray]:
        value, slope = 0.0, np.zeros(T + 1)
        for t, weight in enumerate(weights):
            margin = alpha[0] * shared[:, None] + alpha[t + 1] * private
            value += weight * (probability * np.logaddexp(0, -margin)).sum()
            falling = -weight * probability * expit(-margin)
            slope[0] += (falling * shared[:, None]).sum()
            slope[t + 1] += (falling * private).sum()
        return value, slope

    limit = {"type": "ineq", "fun": lambda alpha: r - cost @ alpha, "jac": lambda alpha: -cost}
    found = minimize(
        objective, np.full(T + 1, r / cost.sum()), jac=True, method="SLSQP", bounds=[(0, 1)] * (T + 1), constraints=limit,
        options={"ftol": 1e-14, "maxiter": 1000},
    )  # fmt: skip
    return np.clip(found.x, 0, 1)


def even(r: int, s: int, T: int, alpha: float) -> float:
    """beta of Proposition 7.3."""
    return min(1.0, (r - alpha * s) / (T * (r - s)))


def fine_tuned(T: int, s: int, radius: float) -> float:
    """sqrt(beta) of Proposition F.9."""
    return min(1.0, math.sqrt(1 / T) + radius / math.sqrt(s))


def pairs(mixture: Mixture, tasks: Tensor, stream: torch.Generator) -> tuple[Tensor, Tensor]:
    """z and z^+ of positive pairs by their task (F.35-F.37): (n,) -> (n, d) twice."""
    s, own, T = mixture.s, mixture.r - mixture.s, len(mixture.weights)
    n = len(tasks)
    invariant = torch.randn(n, s + T * own, generator=stream, dtype=torch.double)
    of_task = torch.arange(T).repeat_interleave(own)
    invariant[:, s:] *= of_task == tasks[:, None]
    spurious = torch.randn(2, n, mixture.spurious, generator=stream, dtype=torch.double)
    return torch.cat([invariant, spurious[0]], 1), torch.cat([invariant, spurious[1]], 1)


def project_to_class(G: Tensor, r: int) -> Tensor:
    """The nearest Gram matrix W^T W of the class.

    |W| <= 1, |W|_F <= sqrt(r), that is 0 <= G <= I and tr G <= r.
    """
    values, vectors = torch.linalg.eigh((G + G.mT) / 2)
    low, high = 0.0, float((values.max() + 1).clamp_min(1))
    if values.clamp(0, 1).sum() > r:
        for _ in range(60):
            middle = (low + high) / 2
            low, high = (middle, high) if (values - middle).clamp(0, 1).sum() > r else (low, middle)
        values = values - high
    return (vectors * values.clamp(0, 1)) @ vectors.mT


def minimise_contrastive_loss(x: Tensor, other: Tensor, r: int, steps: int = 300) -> Tensor:
    """The Gram matrix W^T W that minimises the contrastive loss (F.38) of positive pairs, over all W of the class.

    The loss is convex in it: accelerated projected gradient, with its step found by halving. No use
    is made of Lemma F.3.

    Args:
        x: (n, d). other: its positive, (n, d). The negative's mean is that of x.
    """
    far = other - x.mean(0)
    d = x.shape[1]

    def value(G: Tensor) -> Tensor:
        return functional.softplus(-((x @ G) * far).sum(1)).mean()

    def slope(G: Tensor) -> Tensor:
        push = -torch.sigmoid(-((x @ G) * far).sum(1)) / len(x)
        by_G = x.mT @ (far * push[:, None])
        return (by_G + by_G.mT) / 2

    G = ahead = project_to_class(torch.eye(d, dtype=x.dtype) * r / d, r)
    step, momentum, last = 1.0, 1.0, value(G)
    for _ in range(steps):
        direction, here = slope(ahead), value(ahead)
        while True:
            moved = project_to_class(ahead - step * direction, r)
            change = moved - ahead
            if (
                value(moved)
                <= here + (direction * change).sum() + change.square().sum() / (2 * step) + 1e-15
            ):
                break
            step /= 2
        now = value(moved)
        if now > last:
            if momentum == 1:  # nothing is left but rounding
                break
            momentum, ahead = 1.0, G
            continue
        following = (1 + math.sqrt(1 + 4 * momentum**2)) / 2
        ahead = moved + (momentum - 1) / following * (moved - G)
        G, momentum, last, step = moved, following, now, step * 1.2
    return G


def project_to_ball(W: Tensor, centre: Tensor, radius: float) -> Tensor:
    """A matrix with |W| <= 1 and |W - centre|_F <= radius, by projecting on each in turn."""
    for _ in range(20):
        left, values, right = torch.linalg.svd(W, full_matrices=False)
        W = (left * values.clamp(max=1)) @ right
        distance = (W - centre).norm()
        if distance <= radius * (1 + 1e-12):
            break
        W = centre + (W - centre) * (radius / distance)
    return W


def fine_tune(start: Tensor, x: Tensor, other: Tensor, radius: float, steps: int = 150) -> Tensor:
    """W near `start` that minimises the contrastive loss of pairs of the target task (F.104, F.105), by projected gradient.

    Args:
        start: W*, (k, d). x: (n, d). other: (n, d).
    """
    far = other - x.mean(0)
    W = start.clone()
    for step in range(steps):
        mapped, mapped_far = x @ W.mT, far @ W.mT
        push = -torch.sigmoid(-(mapped * mapped_far).sum(1))[:, None] / len(x)
        slope = (mapped_far * push).mT @ x + (mapped * push).mT @ far
        W = project_to_ball(W - radius * (1 - step / steps) * slope / slope.norm(), start, radius)
    return W


def risk(scale: Tensor, m: int, stream: torch.Generator) -> float:
    """Mean absolute error of a probe of m labels, over that of answering 0, for the features a_j z_j of the target task.

    The predictor of least norm among those that fit the labels, which is an empirical risk
    minimiser of F_{phi,t} (F.39) wherever all a_j > 0; the labels are y = u^T z with u uniform on
    the sphere.

    Args:
        scale: a, (r,).
    """
    u = functional.normalize(
        torch.randn(PROBES, len(scale), 1, generator=stream, dtype=scale.dtype), dim=1
    )
    z = torch.randn(PROBES, m, len(scale), generator=stream, dtype=scale.dtype)
    learned = scale[:, None] * (torch.linalg.pinv(z * scale) @ (z @ u))
    return float((u - learned).norm(dim=1).mean())


def complexity(
    scale: Tensor, s: int, m: int, stream: torch.Generator, draws: int = 4000
) -> tuple[float, float]:
    """Rademacher complexity of F_{phi,t} for a label with equal weight on shared and private features, simulated and stated.

    |u*| = 1, v_{t,1} = v_{t,2} = 1/2; (F.75) by Monte Carlo, and the leading term of (F.91).

    Args:
        scale: a, (r,), shared features first.
    """
    bound = math.sqrt(0.5 / float(scale[0] ** 2) + 0.5 / float(scale[s] ** 2))
    total = math.sqrt(m) * torch.randn(draws, len(scale), generator=stream, dtype=scale.dtype)
    stated = bound * math.sqrt(float(scale.square().sum()) / m)
    return bound / m * float((scale * total).norm(dim=1).mean()), stated


def of_features(scale: Tensor, mixture: Mixture, task: int) -> Tensor:
    """Scales of the features of a task, (r,), shared ones first, from those of alpha and alpha_t, (T + 1,)."""
    return torch.cat(
        [scale[:1].expand(mixture.s), scale[task + 1 : task + 2].expand(mixture.r - mixture.s)]
    )


def rows(mixture: Mixture, cell: Cell, draws: str, seeds: list[int]) -> list[ResultRow]:
    """A seed's sample of the mixture.

    Weights of the features that its minimiser keeps beside Lemma F.3, and probes.
    """
    r, s, T = mixture.r, mixture.s, len(mixture.weights)
    own, weights = r - s, np.array(mixture.weights) / sum(mixture.weights)
    stated = closed_form_weights(r, s, weights)
    closed = torch.from_numpy(stated)
    # A feature that the lemma drops has a weight of rounding.
    scale = torch.where(closed > 1e-6, closed, 0.0).sqrt()
    found = []
    for seed in seeds:
        stream = generator(draws, seed, f"pairs of {cell['mixture']}")
        tasks = torch.multinomial(
            torch.from_numpy(weights), mixture.samples, replacement=True, generator=stream
        )
        z, positive = pairs(mixture, tasks, stream)
        M = torch.linalg.qr(
            torch.randn(z.shape[1], z.shape[1], generator=stream, dtype=torch.double)
        ).Q
        G = M.mT @ minimise_contrastive_loss(z @ M.mT, positive @ M.mT, r) @ M
        diagonal = G.diagonal()
        invariant = s + T * own
        by_task = diagonal[s:invariant].view(T, own).mean(1)
        found.append(ResultRow(seed, 0, "shared_weight", diagonal[:s].mean(), stated[0]))
        found += [
            ResultRow(seed, t + 1, "private_weight", by_task[t], stated[t + 1]) for t in range(T)
        ]
        found.append(ResultRow(seed, 0, "spurious_weight", diagonal[invariant:].mean(), 0.0))
        if len(set(mixture.weights)) == 1:
            found.append(ResultRow(seed, 0, "even_weight", by_task.mean(), even(r, s, T, 1.0)))
        if mixture.gamma:
            of_target, positive_of_target = pairs(
                mixture, torch.zeros(mixture.samples, dtype=torch.long), stream
            )
            start = torch.zeros(invariant, z.shape[1], dtype=torch.double)
            start[:, :invariant] = torch.diag(
                torch.cat([scale[:1].expand(s), scale[1:].repeat_interleave(own)])
            )
            for radius in mixture.gamma:
                W = fine_tune(start, of_target, positive_of_target, radius)
                root = W[:, s : s + own].norm(dim=0).mean()
                found.append(
                    ResultRow(seed, radius, "tuned_root_weight", root, fine_tuned(T, s, radius))
                )
        for m in mixture.labels:
            # The same labelled samples for all mixtures and tasks.
            for name, task in (("first", 0), ("last", T - 1)):
                features = of_features(scale, mixture, task)
                found.append(
                    ResultRow(
                        seed,
                        m,
                        f"risk_{name}",
                        risk(features, m, generator(draws, seed, f"probe {m}")),
                    )
                )
            features = of_features(scale, mixture, 0)
            found.append(
                ResultRow(
                    seed,
                    m,
                    "complexity",
                    *complexity(features, s, m, generator(draws, seed, f"complexity {m}")),
                )
            )
    return found


def run_stage(read: JobInputs, job: Job) -> pd.DataFrame:
    """The stage of a cell and block of seeds."""
    return rows_to_table(
        rows(job.config_section("parameters", Mixture), job.cell_object, job.study, job.seed_list),
        job.cell_object,
    )
