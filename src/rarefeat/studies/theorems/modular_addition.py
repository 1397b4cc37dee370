"""Result 4-1, reduced (section 4.5): networks that learn (a_1 + ... + a_k) mod p, their neurons and
their margin.

Axes: k inputs, m neurons, p residues, n = p^k inputs of the table.
"""

import math
from collections.abc import Iterator

import pandas as pd
import torch
from jaxtyping import Float, Int64
from torch import Tensor
from torch.nn import functional

from rarefeat.claims.measurements import Measurement, measurement
from rarefeat.errors import RarefeatError
from rarefeat.model.randomness import generator
from rarefeat.studies.theorems.problems import AdditionTable
from rarefeat.studies.theorems.results import (
    Row,
    by_setting,
    recorded_steps,
    result_schema,
    setting_rows,
)
from rarefeat.workflow.run.cli_helpers import progress

STUDY = "modular_addition"
QUANTITIES = {
    "margin_ratio": "normalised margin over the whole table, over gamma* of Theorem 4.9, after `at`"
    " steps; stated: 1",
    "accuracy": "share of the table that is right",
    "one_frequency": "share of neurons with more than 0.9 of the power of all their weights at one"
    " frequency; stated: 1",
    "one_frequency_weight": "their share of the sum of the neurons' norms to the power of k + 1;"
    " stated: 1",
    "power": "mean over neurons of the largest share of power at one frequency; stated: 1",
    "frequencies": "frequencies that a neuron with one frequency has; stated: (p - 1) / 2",
    "phase": "mean cosine of the phase of w less the phases of u_1, ..., u_k, of neurons with one"
    " frequency; stated: 1",
}
SCHEMA = result_schema(STUDY, QUANTITIES)
SMALLER = "a reduced size; benchmarks/modular_addition.py has the printed ones"
ONE_FREQUENCY = 0.9
"""A neuron has one frequency where so much of its power lies there: uniform weights have 2 / (p -
1) of it at each."""
RECORDED = 12
"""Steps at which a training is recorded."""
U, W = Float[Tensor, "k m p"], Float[Tensor, "m p"]


def largest_margin(k: int, p: int) -> float:
    """Return gamma* of Theorem 4.9: the largest margin at an L_{2,k+1} norm of 1."""
    return 2 * math.factorial(k) / ((2 * k + 2) ** ((k + 1) / 2) * (p - 1) * p ** ((k - 1) / 2))


def sums(k: int, p: int) -> Int64[Tensor, " n"]:
    """Return the sum mod p of every input of the table."""
    return torch.cartesian_prod(*[torch.arange(p)] * k).sum(1) % p


def forward(u: U, w: W) -> Float[Tensor, "n p"]:
    """Return the network's output at every input of the table, eq. (4.2)."""
    total = u[0]
    for following in u[1:]:
        total = (total[:, :, None] + following[:, None, :]).flatten(1)
    return (total ** len(u)).T @ w


def norm(u: U, w: W) -> Float[Tensor, ""]:
    """Return the L_{2,k+1} norm (section 4.3.1)."""
    k = len(u)
    of_neuron = u.square().sum((0, 2)) + w.square().sum(1)
    return of_neuron.pow((k + 1) / 2).sum() ** (1 / (k + 1))


def margin(u: U, w: W) -> float:
    """Return the normalised margin over the whole table (Definitions 4.2-4.4) of the network, which
    is homogeneous of degree k + 1.
    """
    k, _, p = u.shape
    scores, target = forward(u, w), sums(k, p)[:, None]
    right = scores.gather(1, target)
    others = scores.scatter(1, target, -torch.inf).max(1).values
    return float((right[:, 0] - others).min() / norm(u, w) ** (k + 1))


def trained(problem: AdditionTable, stream: torch.Generator) -> list[tuple[int, U, W]]:
    """Train on the whole table by cross-entropy and lambda times the norm (Definition 4.1); return
    the weights at recorded steps.
    """
    k, p, m, steps = problem.k, problem.p, problem.m, problem.steps
    target = sums(k, p)
    u = torch.randn(k, m, p, generator=stream) / math.sqrt(p)
    w = torch.randn(m, p, generator=stream) / math.sqrt(p)
    parameters = [u.requires_grad_(), w.requires_grad_()]
    optimiser = torch.optim.Adam(parameters, lr=problem.lr, betas=(0.9, 0.98))
    recorded, history = recorded_steps(steps, RECORDED), []
    for step in progress(range(steps + 1), steps + 1, f"modulo {p}"):
        if step in recorded:
            history.append((step, u.detach().double(), w.detach().double()))
        if step == steps:
            break
        rate = problem.lr * min(1.0, (step + 1) / 10) * (1 - step / steps)
        optimiser.param_groups[0]["lr"] = rate
        optimiser.zero_grad()
        loss = functional.cross_entropy(forward(u, w), target) + problem.penalty * norm(u, w)
        loss.backward()
        optimiser.step()
    if not all(weights.isfinite().all() for weights in history[-1][1:]):
        raise RarefeatError(
            "training on modular addition diverged: the weights are no longer finite; lower lr"
        )
    return history


def measure_neurons(u: U, w: W) -> dict[str, tuple[float, float]]:
    """Return what Theorem 4.9 says of neurons, each as measured and as stated."""
    k, _, p = u.shape
    spectrum = torch.fft.rfft(torch.cat([u, w[None]]))[..., 1:]
    share = spectrum.abs().square().sum(0)
    share = share / share.sum(-1, keepdim=True).clamp_min(torch.finfo(share.dtype).tiny)
    largest, frequency = share.max(-1)
    single = largest > ONE_FREQUENCY
    phases = spectrum.angle().gather(-1, frequency.expand(k + 1, -1)[..., None])[..., 0]
    # Phases of u sum to that of w, up to a sign that an even power does not see and w has.
    turn = torch.cos(phases[:k].sum(0) - phases[k])[single]
    weight = (u.square().sum((0, 2)) + w.square().sum(1)).pow((k + 1) / 2)
    return {
        "one_frequency": (float(single.double().mean()), 1.0),
        "one_frequency_weight": (float(weight[single].sum() / weight.sum()), 1.0),
        "power": (float(largest.mean()), 1.0),
        "frequencies": (float(len(frequency[single].unique())), (p - 1) / 2),
        "phase": (float(turn.mean()) if len(turn) else math.nan, 1.0),
    }


def measure_network(u: U, w: W) -> dict[str, tuple[float, float]]:
    """Return what Theorem 4.9 speaks of, each as measured and as stated."""
    k, _, p = u.shape
    right = forward(u, w).argmax(1) == sums(k, p)
    return {
        "margin_ratio": (margin(u, w) / largest_margin(k, p), 1.0),
        "accuracy": (float(right.double().mean()), 1.0),
        **measure_neurons(u, w),
    }


def measure(cell: dict, seeds: list[int], problem: AdditionTable) -> list[dict]:
    """Measure margin over gamma* and the neurons' frequencies at recorded steps."""
    rows, key = [], f"k={problem.k} p={problem.p} m={problem.m}"
    for seed in seeds:
        for step, u, w in trained(problem, generator(STUDY, seed, key)):
            found = measure_network(u, w).items()
            rows += [Row(seed, name, *values, step) for name, values in found]
    return setting_rows(rows, cell)


def claims(table: pd.DataFrame) -> Iterator[Measurement]:
    """Measure the claims for each table of sums, at the end of training."""
    for setting, v in by_setting(table).items():
        measured = {
            "4.9-margin": v("margin_ratio"),
            "4.9-frequency": v("one_frequency"),
            "4.9-phase": v("phase"),
            "4.9-every": v("frequencies") / v.stated("frequencies"),
        }
        for claim, values in measured.items():
            yield measurement(claim, STUDY, {"setting": setting}, values, remark=SMALLER)
