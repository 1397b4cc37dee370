"""Result 7-T (section 7.2.2, appendix F.2): which features a linear representation keeps of a
mixture of tasks, even or not, by contrastive learning.

Axes: n positive pairs, T tasks, c coordinates z = (z_S, z_{P_1}, ..., z_{P_T}, z_U): s shared
features, r - s private ones of each task, and spurious ones.
"""

import math
from collections.abc import Iterator, Mapping

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float, Int64
from matplotlib.figure import Figure
from scipy.optimize import minimize
from scipy.special import expit, gamma, roots_genlaguerre
from torch import Tensor
from torch.nn import functional

from rarefeat.claims.measurements import Measurement, measurement
from rarefeat.figures.labels import INTERVALS, seeds_of
from rarefeat.figures.panels import label_ends, panels, plot_points, titled
from rarefeat.figures.style import FREQUENT, NARROW, RARE, SeriesStyle
from rarefeat.model.randomness import generator
from rarefeat.studies.theorems.plots import SHARE
from rarefeat.studies.theorems.problems import Mixture
from rarefeat.studies.theorems.results import (
    Row,
    by_setting,
    of_quantity,
    result_schema,
    setting_rows,
)

STUDY = "task_mixture"
QUANTITIES = {
    "shared_weight": "mean over shared features of the diagonal of M^T W^T W M; stated: alpha of"
    " Lemma F.3",
    "private_weight": "the same over the private features of task `at`; stated: alpha_t",
    "spurious_weight": "the same over spurious features; stated: 0",
    "even_weight": "private_weight, mean over the tasks of an even mixture; stated: beta of"
    " Proposition 7.3 at alpha = 1",
    "tuned_root_weight": "mean norm of the columns of W M of the target's private features after"
    " fine-tuning within `at`; stated: sqrt(beta) of Proposition F.9",
    "risk_first": "mean absolute error of a probe of the first task with `at` labels, over that of"
    " answering 0",
    "risk_last": "the same of the last task, the rare one where there is one",
    "complexity": "Rademacher complexity (F.75) of probes of the first task with `at` labels and"
    " |u*| = 1; stated: leading term of (F.91)",
    "complexity_gap": "distance of the complexity from that leading term; stated: the lemma's bound"
    " of it (F.93), its constant read as 1",
}
SCHEMA = result_schema(STUDY, QUANTITIES)
NODES = 60
PROBES = 200
"""Draws of labelled samples that a risk is the mean over, for each seed."""
Pairs = Float[Tensor, "n c"]


def chi_squared(k: int) -> tuple[Float[np.ndarray, " nodes"], Float[np.ndarray, " nodes"]]:
    """Return values and probabilities of Gauss's quadrature of chi-squared of k degrees."""
    x, weight = roots_genlaguerre(NODES, k / 2 - 1)
    return 2 * x, weight / gamma(k / 2)


def closed_form_weights(
    r: int, s: int, weights: Float[np.ndarray, " T"]
) -> Float[np.ndarray, " T+1"]:
    """Return alpha and alpha_t of Lemma F.3 for the logistic loss and variances 1.

    It is the convex programme (F.40)-(F.42), whose case of equal weights are Propositions 7.3 and
    F.8.
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

    minimum = minimize(
        objective,
        np.full(T + 1, r / cost.sum()),
        jac=True,
        method="SLSQP",
        bounds=[(0, 1)] * (T + 1),
        constraints={
            "type": "ineq", "fun": lambda alpha: r - cost @ alpha, "jac": lambda alpha: -cost
        },
        options={"ftol": 1e-14, "maxiter": 1000},
    )  # fmt: skip
    return np.clip(minimum.x, 0, 1)


def even(r: int, s: int, T: int, alpha: float) -> float:
    """Return beta of Proposition 7.3."""
    return min(1.0, (r - alpha * s) / (T * (r - s)))


def fine_tuned(T: int, s: int, radius: float) -> float:
    """Return sqrt(beta) of Proposition F.9."""
    return min(1.0, math.sqrt(1 / T) + radius / math.sqrt(s))


def pairs(
    mixture: Mixture, tasks: Int64[Tensor, " n"], stream: torch.Generator
) -> tuple[Pairs, Pairs]:
    """Draw z and z^+ of positive pairs by their task (F.35-F.37)."""
    s, n_private, T, n = mixture.s, mixture.r - mixture.s, len(mixture.weights), len(tasks)
    invariant = torch.randn(n, s + T * n_private, generator=stream, dtype=torch.double)
    of_task = torch.arange(T).repeat_interleave(n_private)
    invariant[:, s:] *= of_task == tasks[:, None]
    spurious = torch.randn(2, n, mixture.spurious, generator=stream, dtype=torch.double)
    return torch.cat([invariant, spurious[0]], 1), torch.cat([invariant, spurious[1]], 1)


def project_to_class(G: Float[Tensor, "c c"], r: int) -> Float[Tensor, "c c"]:
    """Return the nearest Gram matrix W^T W of the class |W| <= 1, |W|_F <= sqrt(r), which is 0 <= G
    <= I and tr G <= r.
    """
    values, vectors = torch.linalg.eigh((G + G.mT) / 2)
    low, high = 0.0, float((values.max() + 1).clamp_min(1))
    if values.clamp(0, 1).sum() > r:
        for _ in range(60):
            middle = (low + high) / 2
            low, high = (middle, high) if (values - middle).clamp(0, 1).sum() > r else (low, middle)
        values = values - high
    return (vectors * values.clamp(0, 1)) @ vectors.mT


def minimise_contrastive_loss(
    x: Pairs, other: Pairs, r: int, steps: int = 300
) -> Float[Tensor, "c c"]:
    """Return the W^T W of least contrastive loss (F.38), by accelerated projected gradient."""
    far, d = other - x.mean(0), x.shape[1]

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
            reached, slack = value(candidate), change.square().sum() / (2 * step)
            if reached <= current + (direction * change).sum() + slack + 1e-15:
                break
            step /= 2
        if reached > last:
            if momentum == 1:  # nothing is left but rounding
                break
            momentum, ahead = 1.0, G
            continue
        following = (1 + math.sqrt(1 + 4 * momentum**2)) / 2
        ahead = candidate + (momentum - 1) / following * (candidate - G)
        G, momentum, last, step = candidate, following, reached, step * 1.2
    return G


def project_to_ball(
    W: Float[Tensor, "k c"], centre: Float[Tensor, "k c"], radius: float
) -> Float[Tensor, "k c"]:
    """Return a matrix with |W| <= 1 and |W - centre|_F <= radius, by projecting on each in turn."""
    for _ in range(20):
        left, values, right = torch.linalg.svd(W, full_matrices=False)
        W = (left * values.clamp(max=1)) @ right
        distance = (W - centre).norm()
        if distance <= radius * (1 + 1e-12):
            break
        W = centre + (W - centre) * (radius / distance)
    return W


def fine_tune(
    start: Float[Tensor, "k c"], x: Pairs, other: Pairs, radius: float, steps: int = 150
) -> Float[Tensor, "k c"]:
    """Return W near `start` that minimises the contrastive loss of pairs of the target task (F.104,
    F.105), by projected gradient.
    """
    far, W = other - x.mean(0), start.clone()
    for step in range(steps):
        mapped, mapped_far = x @ W.mT, far @ W.mT
        push = -torch.sigmoid(-(mapped * mapped_far).sum(1))[:, None] / len(x)
        slope = (mapped_far * push).mT @ x + (mapped * push).mT @ far
        W = project_to_ball(W - radius * (1 - step / steps) * slope / slope.norm(), start, radius)
    return W


def risk(scale: Float[Tensor, " r"], m: int, stream: torch.Generator) -> float:
    """Return the mean absolute error of a probe of m labels, over that of answering 0.

    Features are a_j z_j of the target task, labels u^T z with u uniform on the sphere; the probe is
    the predictor of least norm that fits them (F.39).
    """
    shape = {"generator": stream, "dtype": scale.dtype}
    u = functional.normalize(torch.randn(PROBES, len(scale), 1, **shape), dim=1)
    z = torch.randn(PROBES, m, len(scale), **shape)
    learned = scale[:, None] * (torch.linalg.pinv(z * scale) @ (z @ u))
    return float((u - learned).norm(dim=1).mean())


def complexity(
    scale: Float[Tensor, " r"], s: int, m: int, stream: torch.Generator, draws: int = 4000
) -> tuple[float, float]:
    """Return the Rademacher complexity (F.75) of F_{phi,t}, simulated, and the leading term of
    (F.91).

    For a label with equal weight on shared and private features, |u*| = 1, v_{t,1} = v_{t,2} = 1/2.
    """
    bound = math.sqrt(0.5 / float(scale[0] ** 2) + 0.5 / float(scale[s] ** 2))
    total = math.sqrt(m) * torch.randn(draws, len(scale), generator=stream, dtype=scale.dtype)
    stated = bound * math.sqrt(float(scale.square().sum()) / m)
    return bound / m * float((scale * total).norm(dim=1).mean()), stated


def remainder(scale: Float[Tensor, " r"]) -> float:
    """Return the bound (F.93) over the leading term of (F.91), its constant read as 1."""
    weights = scale.square()
    return float(weights.max() * math.sqrt(len(scale)) / weights.sum())


def of_features(scale: Float[Tensor, " T+1"], mixture: Mixture, task: int) -> Float[Tensor, " r"]:
    """Return the scales of the features of a task, shared ones first."""
    shared, private = scale[:1], scale[task + 1 : task + 2]
    return torch.cat([shared.expand(mixture.s), private.expand(mixture.r - mixture.s)])


def measure(cell: dict, seeds: list[int], problem: Mixture) -> list[dict]:
    """Measure which features the minimiser keeps of each seed's sample of the mixture, beside Lemma
    F.3; probes are trained on its closed form.
    """
    r, s, T = problem.r, problem.s, len(problem.weights)
    n_private, weights = r - s, np.array(problem.weights) / sum(problem.weights)
    stated = closed_form_weights(r, s, weights)
    closed = torch.from_numpy(stated)
    # A feature that the lemma drops has a weight of rounding.
    scale = torch.where(closed > 1e-6, closed, 0.0).sqrt()
    rows = []
    for seed in seeds:
        stream = generator(STUDY, seed, f"pairs of {cell['mixture']}")
        tasks = torch.multinomial(
            torch.from_numpy(weights), problem.samples, replacement=True, generator=stream
        )
        z, positive = pairs(problem, tasks, stream)
        drawn = torch.randn(z.shape[1], z.shape[1], generator=stream, dtype=torch.double)
        M = torch.linalg.qr(drawn).Q
        G = M.mT @ minimise_contrastive_loss(z @ M.mT, positive @ M.mT, r) @ M
        shared, private, spurious = G.diagonal().split([s, T * n_private, problem.spurious])
        by_task = private.view(T, n_private).mean(1)
        rows.append(Row(seed, "shared_weight", shared.mean(), stated[0]))
        rows += [Row(seed, "private_weight", by_task[t], stated[t + 1], t + 1) for t in range(T)]
        rows.append(Row(seed, "spurious_weight", spurious.mean(), 0.0))
        if len(set(problem.weights)) == 1:
            rows.append(Row(seed, "even_weight", by_task.mean(), even(r, s, T, 1.0)))
        if problem.gamma:
            target = torch.zeros(problem.samples, dtype=torch.long)
            of_target, positive_of_target = pairs(problem, target, stream)
            invariant = torch.cat([scale[:1].expand(s), scale[1:].repeat_interleave(n_private)])
            start = torch.zeros(len(invariant), z.shape[1], dtype=torch.double)
            start[:, : len(invariant)] = torch.diag(invariant)
            for radius in problem.gamma:
                W = fine_tune(start, of_target, positive_of_target, radius)
                root = W[:, s : s + n_private].norm(dim=0).mean()
                tuned = fine_tuned(T, s, radius)
                rows.append(Row(seed, "tuned_root_weight", root, tuned, radius))
        for m in problem.labels:
            # The same labelled samples for all mixtures and tasks.
            first, last = (of_features(scale, problem, task) for task in (0, T - 1))
            for name, features in (("first", first), ("last", last)):
                error = risk(features, m, generator(STUDY, seed, f"probe {m}"))
                rows.append(Row(seed, f"risk_{name}", error, at=m))
            value, leading = complexity(first, s, m, generator(STUDY, seed, f"complexity {m}"))
            gap, granted = abs(value - leading), leading * remainder(first)
            rows.append(Row(seed, "complexity", value, leading, m))
            rows.append(Row(seed, "complexity_gap", gap, granted, m))
    return setting_rows(rows, cell)


def claims(table: pd.DataFrame) -> Iterator[Measurement]:
    """Measure the claims by mixture, and errors of probes between mixtures."""
    mixtures = by_setting(table)
    for setting, v in mixtures.items():
        here = {"setting": setting}
        yield measurement("F.8-shared", STUDY, here, v("shared_weight"))
        yield measurement("F.3-spurious", STUDY, here, v("spurious_weight"))
        if v.places("even_weight"):
            yield measurement("7.3", STUDY, here, v.excess("even_weight"))
            if setting.startswith("mixture=even_"):
                yield measurement("F.8-private", STUDY, here, v.excess("even_weight"))
        else:
            *others, rare = v.places("private_weight")
            frequent = sum(v.excess("private_weight", task) for task in others) / len(others)
            yield measurement("F.3-rare", STUDY, here, v.excess("private_weight", rare))
            yield measurement("F.3-frequent", STUDY, here, frequent)
            yield measurement("F.3-dropped", STUDY, here, v("private_weight", rare))
            if v.places("risk_last"):
                change = (v("risk_last") - v("risk_first")).round(9)
                yield measurement("F.3-probe", STUDY, here, change)
        for radius in v.places("tuned_root_weight"):
            place = {**here, "gamma": radius}
            yield measurement("F.9", STUDY, place, v.excess("tuned_root_weight", radius))
        for m in v.places("complexity"):
            gap = v("complexity_gap", m) / v.stated("complexity_gap", m)
            yield measurement("F.5", STUDY, {**here, "m": m}, gap)
    if "mixture=even_1" not in mixtures:
        return
    alone = mixtures["mixture=even_1"]
    for setting, v in mixtures.items():
        T = setting.removeprefix("mixture=even_")
        # With as many labels as features all that is left of either is rounding.
        for m in v.places("risk_first") if T.isdecimal() and T != "1" else ():
            if alone("risk_first", m).min() > 1e-9:
                ratio = np.log(v("risk_first", m) / alone("risk_first", m))
                place, growth = {"T": int(T), "m": m}, (int(T) + 1) / (2 * np.sqrt(int(T)))
                yield measurement("7.2.2", STUDY, place, ratio)
                yield measurement("7.2.2-growth", STUDY, place, ratio - np.log(growth))


def plot(tables: Mapping[str, pd.DataFrame], mixtures: dict[str, Mixture]) -> Figure:
    """Plot weights of a rare and of a frequent task over the frequency of the rare one, from the
    replicas or the published means.
    """
    (table,) = tables.values()
    share = {
        f"mixture={name}": mixture.weights[-1] / mixture.weights[0]
        for name, mixture in mixtures.items()
        if mixture.weights[-1] < mixture.weights[0]
    }
    rows = of_quantity(table, "private_weight")
    rows = rows[rows["setting"].isin(share)]
    rows = rows.assign(share=rows["setting"].map(share))
    last = rows.groupby("setting")["at"].transform("max")
    figure, ((ax,),) = panels(height=2.5, width=NARROW)
    # The lemma has a kink between two of the mixtures.
    mixture = max(mixtures.values(), key=lambda mixture: mixture.weights[0] / mixture.weights[-1])
    levels = np.linspace(min(share.values(), default=1), max(share.values(), default=1), 36)
    weights = [np.array([*mixture.weights[:-1], level * mixture.weights[0]]) for level in levels]
    stated = [closed_form_weights(mixture.r, mixture.s, w / w.sum()) for w in weights]
    ends = {}
    for name, chosen, task, look in (
        ("rare task", rows["at"] == last, -1, SeriesStyle(RARE, "o")),
        ("a frequent task", rows["at"] == 1, 1, SeriesStyle(FREQUENT, "s")),
    ):
        of_task = rows[chosen].assign(series=name)
        plot_points(ax, of_task, "share", "value", {name: look}, bounds=SHARE, dodge=0)
        line = [alphas[task] for alphas in stated]
        ax.plot(levels, line, color=look.colour, lw=0.7)
        ends[name] = line[-1], look.colour
    ax.set(
        xlabel="relative frequency of the rare task",
        ylabel="weight of own features",
        ylim=(-0.01, None),
    )
    label_ends(ax, ends)
    title = "Weight of a rare task's own features, and of a frequent one's"
    return titled(figure, title, f"{INTERVALS}, {seeds_of(rows)}; lines: Lemma F.3")
