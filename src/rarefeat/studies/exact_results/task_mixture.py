"""Result 7-T (section 7.2.2, appendix F.2): contrastive learning of a mixture of tasks.

Which features a linear representation keeps of a mixture, even or not. Coordinates are z = (z_S,
z_{P_1}, ..., z_{P_T}, z_U): s shared features, r - s private ones of each task, and spurious ones.
"""

import math

import numpy as np
import pandas as pd
import torch
from scipy.optimize import minimize
from scipy.special import expit, gamma, roots_genlaguerre
from torch import Tensor
from torch.nn import functional

from rarefeat.model.randomness import generator
from rarefeat.studies.exact_results.config import Mixture
from rarefeat.studies.exact_results.result_rows import ResultRow, rows_to_table
from rarefeat.workflow.config.cells import Cell
from rarefeat.workflow.run.job import Job
from rarefeat.workflow.run.job_inputs import JobInputs

NODES = 60
PROBES = 200
"""Draws of labelled samples that a risk is the mean over, for each seed."""


def chi_squared(k: int) -> tuple[np.ndarray, np.ndarray]:
    """Return Gauss's quadrature of the chi-squared distribution with k degrees of freedom.

    Values and probabilities, (NODES,) each.
    """
    x, weight = roots_genlaguerre(NODES, k / 2 - 1)
    return 2 * x, weight / gamma(k / 2)


def closed_form_weights(r: int, s: int, weights: np.ndarray) -> np.ndarray:
    """Return alpha and alpha_t of Lemma F.3 for the logistic loss and variances 1.

    The convex programme (F.40)-(F.42); Propositions 7.3 and F.8 are its case of equal weights.

    weights (T,) -> (T + 1,).
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
    minimum = minimize(
        objective,
        np.full(T + 1, r / cost.sum()),
        jac=True,
        method="SLSQP",
        bounds=[(0, 1)] * (T + 1),
        constraints=limit,
        options={"ftol": 1e-14, "maxiter": 1000},
    )
    return np.clip(minimum.x, 0, 1)


def even(r: int, s: int, T: int, alpha: float) -> float:
    """Return beta of Proposition 7.3."""
    return min(1.0, (r - alpha * s) / (T * (r - s)))


def fine_tuned(T: int, s: int, radius: float) -> float:
    """Return sqrt(beta) of Proposition F.9."""
    return min(1.0, math.sqrt(1 / T) + radius / math.sqrt(s))


def pairs(mixture: Mixture, tasks: Tensor, stream: torch.Generator) -> tuple[Tensor, Tensor]:
    """Draw z and z^+ of positive pairs by their task (F.35-F.37).

    tasks (n,).
    """
    s, n_private, T = mixture.s, mixture.r - mixture.s, len(mixture.weights)
    n = len(tasks)
    invariant = torch.randn(n, s + T * n_private, generator=stream, dtype=torch.double)
    of_task = torch.arange(T).repeat_interleave(n_private)
    invariant[:, s:] *= of_task == tasks[:, None]
    spurious = torch.randn(2, n, mixture.spurious, generator=stream, dtype=torch.double)
    return torch.cat([invariant, spurious[0]], 1), torch.cat([invariant, spurious[1]], 1)


def project_to_class(G: Tensor, r: int) -> Tensor:
    """Return the nearest Gram matrix G = W^T W with |W| <= 1, |W|_F <= sqrt(r), that is 0 <= G <=
    I, tr G <= r.
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
    """Return the Gram matrix W^T W of the class that minimises the contrastive loss (F.38).

    The loss is convex in it: accelerated projected gradient, with its step found by halving. No use
    is made of Lemma F.3.

    x (n, d), other (n, d).
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
        direction, current = slope(ahead), value(ahead)
        while True:
            candidate = project_to_class(ahead - step * direction, r)
            change = candidate - ahead
            if (
                value(candidate)
                <= current + (direction * change).sum() + change.square().sum() / (2 * step) + 1e-15
            ):
                break
            step /= 2
        candidate_value = value(candidate)
        if candidate_value > last:
            if momentum == 1:  # nothing is left but rounding
                break
            momentum, ahead = 1.0, G
            continue
        following = (1 + math.sqrt(1 + 4 * momentum**2)) / 2
        ahead = candidate + (momentum - 1) / following * (candidate - G)
        G, momentum, last, step = candidate, following, candidate_value, step * 1.2
    return G


def project_to_ball(W: Tensor, centre: Tensor, radius: float) -> Tensor:
    """Return a matrix with |W| <= 1 and |W - centre|_F <= radius, by projecting on each in turn,
    (k, d).
    """
    for _ in range(20):
        left, values, right = torch.linalg.svd(W, full_matrices=False)
        W = (left * values.clamp(max=1)) @ right
        distance = (W - centre).norm()
        if distance <= radius * (1 + 1e-12):
            break
        W = centre + (W - centre) * (radius / distance)
    return W


def fine_tune(start: Tensor, x: Tensor, other: Tensor, radius: float, steps: int = 150) -> Tensor:
    """Return W near `start` that minimises the contrastive loss of pairs of the target task (F.104,
    F.105), by projected gradient.

    start (k, d), x (n, d), other (n, d).
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
    """Return the mean absolute error of a probe of m labels, over that of answering 0.

    Features are a_j z_j of the target task and labels y = u^T z with u uniform on the sphere. The
    probe is the predictor of least norm among those that fit the labels, which is an empirical risk
    minimiser of F_{phi,t} (F.39) wherever all a_j > 0.

    scale (r,).
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
    """Return the Rademacher complexity of F_{phi,t}, simulated (F.75) and stated, the leading term
    of (F.91).

    The label has equal weight on shared and private features, |u*| = 1, v_{t,1} = v_{t,2} = 1/2.

    scale (r,).
    """
    bound = math.sqrt(0.5 / float(scale[0] ** 2) + 0.5 / float(scale[s] ** 2))
    total = math.sqrt(m) * torch.randn(draws, len(scale), generator=stream, dtype=scale.dtype)
    stated = bound * math.sqrt(float(scale.square().sum()) / m)
    return bound / m * float((scale * total).norm(dim=1).mean()), stated


def remainder(scale: Tensor) -> float:
    """Return the bound (F.93) over the leading term of (F.91), its constant read as 1.

    `scale` is a, of shape (r,), shared features first.
    """
    weights = scale.square()
    return float(weights.max() * math.sqrt(len(scale)) / weights.sum())


def of_features(scale: Tensor, mixture: Mixture, task: int) -> Tensor:
    """Return the scales of the features of a task, (r,), shared ones first.

    scale (T + 1,).
    """
    return torch.cat(
        [scale[:1].expand(mixture.s), scale[task + 1 : task + 2].expand(mixture.r - mixture.s)]
    )


def rows(mixture: Mixture, cell: Cell, draws: str, seeds: list[int]) -> list[ResultRow]:
    """Measure the features that the minimiser keeps of each seed's sample of the mixture.

    Weights are compared with Lemma F.3; probes are trained on the closed form.
    """
    r, s, T = mixture.r, mixture.s, len(mixture.weights)
    n_private, weights = r - s, np.array(mixture.weights) / sum(mixture.weights)
    stated = closed_form_weights(r, s, weights)
    closed = torch.from_numpy(stated)
    # A feature that the lemma drops has a weight of rounding.
    scale = torch.where(closed > 1e-6, closed, 0.0).sqrt()
    results = []
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
        invariant = s + T * n_private
        by_task = diagonal[s:invariant].view(T, n_private).mean(1)
        results.append(ResultRow(seed, 0, "shared_weight", diagonal[:s].mean(), stated[0]))
        results += [
            ResultRow(seed, t + 1, "private_weight", by_task[t], stated[t + 1]) for t in range(T)
        ]
        results.append(ResultRow(seed, 0, "spurious_weight", diagonal[invariant:].mean(), 0.0))
        if len(set(mixture.weights)) == 1:
            results.append(ResultRow(seed, 0, "even_weight", by_task.mean(), even(r, s, T, 1.0)))
        if mixture.gamma:
            of_target, positive_of_target = pairs(
                mixture, torch.zeros(mixture.samples, dtype=torch.long), stream
            )
            start = torch.zeros(invariant, z.shape[1], dtype=torch.double)
            start[:, :invariant] = torch.diag(
                torch.cat([scale[:1].expand(s), scale[1:].repeat_interleave(n_private)])
            )
            for radius in mixture.gamma:
                W = fine_tune(start, of_target, positive_of_target, radius)
                root = W[:, s : s + n_private].norm(dim=0).mean()
                results.append(
                    ResultRow(seed, radius, "tuned_root_weight", root, fine_tuned(T, s, radius))
                )
        for m in mixture.labels:
            # The same labelled samples for all mixtures and tasks.
            for name, task in (("first", 0), ("last", T - 1)):
                features = of_features(scale, mixture, task)
                results.append(
                    ResultRow(
                        seed,
                        m,
                        f"risk_{name}",
                        risk(features, m, generator(draws, seed, f"probe {m}")),
                    )
                )
            features = of_features(scale, mixture, 0)
            stream = generator(draws, seed, f"complexity {m}")
            value, leading = complexity(features, s, m, stream)
            results.append(ResultRow(seed, m, "complexity", value, leading))
            granted = leading * remainder(features)
            results.append(ResultRow(seed, m, "complexity_gap", abs(value - leading), granted))
    return results


def run_stage(inputs: JobInputs, job: Job) -> pd.DataFrame:
    """Measure a cell and block of seeds.

    Config: `parameters`. Output: a row per seed, place and quantity.
    """
    return rows_to_table(
        rows(job.config_section("parameters", Mixture), job.cell_object, job.study, job.seed_list),
        job.cell_object,
    )
