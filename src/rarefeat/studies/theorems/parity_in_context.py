"""Theorems 5.5.1 and 5.5.2 of Shi's dissertation: sparse parity in context by heads of attention.

Hidden features are signs, a task is a pair of them, its label their product. A head has a diagonal
matrix in the basis of the features (appendix D.3.1). Axes: m heads, d features, P tasks, which are
pairs of features, n prompts.
"""

import math

import pandas as pd
import torch
from jaxtyping import Float, Int64
from torch import Tensor

from rarefeat.model.randomness import generator
from rarefeat.studies.theorems.problems import ParityInContext
from rarefeat.studies.theorems.results import Numbers, Row

QUANTITIES = {
    "larger_loss": "largest hinge loss of a task of Theorem 5.5.1's larger model; stated: 0",
    "fewer_loss": "the same without one pair of its negative heads",
    "least_norm": "least squared norm found without any loss, over that of the larger model;"
    " stated: 1",
    "smaller_important": "largest hinge loss of the smaller model on an important task; stated: 0",
    "ranked_loss": "loss over all tasks of four heads that rank the features; stated: that of the"
    " smaller model",
    "smaller_noise": "E|P_D1(Xi)|^2 / E|P_D2(Xi)|^2; stated: (nu_1 + 1) / (nu_2 + 1)",
    "ranked_noise": "the same with the four heads that rank the features in the place of D1",
    "smaller_accuracy": "accuracy of the smaller model on important tasks, M examples",
    "larger_accuracy": "that of the larger model, on the same prompts",
    "ranked_accuracy": "that of the four heads that rank the features",
    "smaller_accuracy_rest": "accuracy of the smaller model on the other tasks",
    "larger_accuracy_rest": "that of the larger model, on the same prompts",
    "ranked_accuracy_rest": "that of the four heads that rank the features",
}
Heads = tuple[Float[Tensor, " m"], Float[Tensor, "*starts m d"]]
"""Signs of heads, and 4 gamma times their diagonals."""
SIGNS = torch.tensor([[1, 1], [1, -1], [-1, 1], [-1, -1]], dtype=torch.double)
"""Values of both features of a task."""


def stated_heads(d: int, digits: int) -> Heads:
    """Return Theorem 5.5.1's optimum: the larger model has all log2(d) digits of a feature's
    number, the smaller one the lowest.
    """
    number = torch.arange(d)
    bits = [2.0 * (number >> digit & 1) - 1 for digit in range(digits)]
    half = torch.stack([*bits, torch.full((d,), -float(digits))]).double()
    signs = torch.tensor([-1.0] * digits + [1.0]).double()
    return torch.cat([signs, signs]), torch.cat([half, -half])


def ranked_heads(order: Int64[Tensor, " d"]) -> Heads:
    """Return four heads without loss on any task: two rank the features, so that of any two one is
    larger, and two outweigh those where signs agree.
    """
    ranks = 2.0 * order.double() - (len(order) - 1)
    outweigh = torch.full_like(ranks, len(order) - 1)
    signs = torch.tensor([-1.0, 1.0, -1.0, 1.0]).double()
    return signs, torch.stack([ranks, outweigh, -ranks, -outweigh])


def margins(heads: Heads) -> Float[Tensor, "*starts P 4"]:
    """Return y_q g for infinite prompts, for each task and SIGNS."""
    signs, V = heads
    i, j = torch.triu_indices(V.shape[-1], V.shape[-1], 1)
    pre = (V[..., i, None] * SIGNS[:, 0] + V[..., j, None] * SIGNS[:, 1]) / 2
    return SIGNS.prod(1) * (signs[:, None, None] * pre.relu()).sum(-3)


def hinge_losses(heads: Heads, gamma: float) -> Float[Tensor, "*starts P"]:
    """Return the expected hinge loss of each task."""
    probability = torch.tensor([0.25 + gamma, 0.25, 0.25, 0.25 - gamma], dtype=torch.double)
    return (1 - margins(heads)).relu() @ probability


def least_norm(d: int, problem: ParityInContext, stream: torch.Generator) -> Float[Tensor, ""]:
    """Return the least squared norm found without any loss, over that of Theorem 5.5.1.

    It descends on the norm and the hinge losses, from the stated heads and from jittered ones;
    every end is scaled until its smallest margin is 1, so that each is a network without loss.
    """
    signs, V = stated_heads(d, int(math.log2(d)))
    jitter = torch.randn(problem.starts, *V.shape, generator=stream, dtype=torch.double)
    jitter[0] = 0
    free = (V + problem.jitter * V.abs() * jitter).requires_grad_()
    optimiser = torch.optim.Adam([free], lr=problem.lr)
    schedule = torch.optim.lr_scheduler.LinearLR(optimiser, 1.0, 1e-3, problem.steps)
    for _ in range(problem.steps):
        optimiser.zero_grad()
        missing = (1 - margins((signs, free))).relu().sum((-2, -1))
        (missing + problem.penalty * free.square().sum((-2, -1))).sum().backward()
        optimiser.step()
        schedule.step()
    least = margins((signs, free.detach())).amin((-2, -1)).clamp_min(0)
    return (free.detach().square().sum((-2, -1)) / least.square()).min() / V.square().sum()


def evaluate_prompts(
    models: dict[str, Heads], tasks: Int64[Tensor, "n 2"], problem: ParityInContext, gamma: float,
    stream: torch.Generator,
) -> dict[str, Float[Tensor, ""]]:  # fmt: skip
    """Return the accuracy of models on the same prompts of M examples."""
    n, d = len(tasks), models["larger"][1].shape[1]
    phi = 2.0 * torch.randint(2, (n, problem.M + 1, d), generator=stream).double() - 1
    probability = torch.tensor([0.25 + gamma, 0.25, 0.25, 0.25 - gamma])
    values = probability.multinomial(n * (problem.M + 1), replacement=True, generator=stream)
    pair = SIGNS[values].view(n, problem.M + 1, 2)
    phi.scatter_(2, tasks[:, None].expand(n, problem.M + 1, 2), pair)
    labels = pair.prod(2)
    mean = torch.einsum("nl,nld->nd", labels[:, 1:], phi[:, 1:]) / problem.M
    return {
        name: (((mean * phi[:, 0]) @ V.mT).relu() @ signs * labels[:, 0] > 0).double().mean()
        for name, (signs, V) in models.items()
    }


def measure(d: int, seeds: list[int], draws: str, problem: ParityInContext) -> list[Row]:
    """Measure both theorems at d features, the first `problem.k` of them important."""
    rows, k = [], problem.k
    pairs = torch.triu_indices(d, d, 1).T
    important = (pairs < k).all(1)
    small, large = int(math.log2(k)), int(math.log2(d))
    for seed in seeds:
        stream = generator(draws, seed, f"parity d={d}")
        uniform = torch.rand(2, generator=stream).tolist()
        gamma = 0.05 + 0.15 * uniform[0]
        bound = (0.25 - gamma) / (d * (d - 1) / 2 * (0.25 + gamma) + 0.25 - gamma)
        rate = bound * uniform[1]
        models = {
            "smaller": stated_heads(d, small),
            "larger": stated_heads(d, large),
            "ranked": ranked_heads(torch.randperm(d, generator=stream)),
        }
        fewer = stated_heads(d, large - 1)
        losses = {name: hinge_losses(heads, gamma) for name, heads in models.items()}
        # Of the tasks a share `rate` is less important.
        totals = {
            name: (1 - rate) * loss[important].mean() + rate * loss[~important].mean()
            for name, loss in losses.items()
        }
        tasks = {
            name: pairs[which][
                torch.randint(int(which.sum()), (problem.prompts,), generator=stream)
            ]
            for name, which in (("", important), ("_rest", ~important))
        }
        xi = 2.0 * torch.randint(2, (4000, problem.M, d), generator=stream).double() - 1
        noise = xi.mean(1)
        energy = {
            name: (noise @ torch.linalg.pinv(V) @ V).square().sum(1).mean()
            for name, (_, V) in models.items()
        }
        rows += [
            Row(seed, "larger_loss", losses["larger"].max(), 0.0),
            Row(seed, "fewer_loss", hinge_losses(fewer, gamma).max()),
            Row(seed, "least_norm", least_norm(d, problem, stream), 1.0),
            Row(seed, "smaller_important", losses["smaller"][important].max(), 0.0),
            Row(seed, "ranked_loss", totals["ranked"], totals["smaller"]),
        ]
        for name in ("smaller", "ranked"):
            ratio = energy[name] / energy["larger"]
            rows.append(Row(seed, f"{name}_noise", ratio, (small + 1) / (large + 1)))
        for suffix, sample in tasks.items():
            accuracies = evaluate_prompts(models, sample, problem, gamma, stream)
            rows += [
                Row(seed, f"{name}_accuracy{suffix}", value) for name, value in accuracies.items()
            ]
    return rows


def claims(v: Numbers) -> dict[str, pd.Series]:
    """Return what the claims look at, at a number of features."""
    return {
        "5.5.1-loss": v("larger_loss"),
        "5.5.1-pair": v("fewer_loss") - v("larger_loss"),
        "5.5.1-least": v("least_norm"),
        "5.5.1-small": v("ranked_loss") / v.stated("ranked_loss"),
        "5.5.2-noise": v.excess("smaller_noise"),
        "5.5.2-robust": v("smaller_accuracy") - v("larger_accuracy"),
        "5.5.2-rest": v("larger_accuracy_rest") - v("smaller_accuracy_rest"),
    }
