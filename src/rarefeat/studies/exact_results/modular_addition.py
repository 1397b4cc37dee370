"""Result 4-1, reduced (section 4.5): networks that learn (a_1 + ... + a_k) mod p.

Their neurons and their margin are measured.
"""

import math

import pandas as pd
import torch
from torch import Tensor
from torch.nn import functional

from rarefeat.errors import RarefeatError
from rarefeat.model.randomness import generator
from rarefeat.studies.exact_results.config import AdditionTable
from rarefeat.studies.exact_results.result_rows import ResultRow, rows_to_table
from rarefeat.workflow.config.cells import Cell
from rarefeat.workflow.run.cli_helpers import progress
from rarefeat.workflow.run.job import Job
from rarefeat.workflow.run.job_inputs import JobInputs

ONE_FREQUENCY = 0.9
"""A neuron has one frequency where so much of its power lies there: uniform weights have 2 / (p -
1) of it at each."""
RECORDED = 12
"""Steps at which a training is recorded, about evenly in their logarithm."""


def largest_margin(k: int, p: int) -> float:
    """Return gamma* of Theorem 4.9: the largest margin at an L_{2,k+1} norm of 1."""
    return 2 * math.factorial(k) / ((2 * k + 2) ** ((k + 1) / 2) * (p - 1) * p ** ((k - 1) / 2))


def table(k: int, p: int) -> tuple[Tensor, Tensor]:
    """Return every input, (p^k, k), and its sum mod p, (p^k,)."""
    inputs = torch.cartesian_prod(*[torch.arange(p)] * k)
    return inputs, inputs.sum(1) % p


def forward(u: Tensor, w: Tensor) -> Tensor:
    """Return the network's output at every input of the table, eq. (4.2).

    u (k, m, p), w (m, p) -> (p^k, p).
    """
    k = len(u)
    total = u[0]
    for following in u[1:]:
        total = (total[:, :, None] + following[:, None, :]).flatten(1)
    return (total**k).T @ w


def norm(u: Tensor, w: Tensor) -> Tensor:
    """Return the L_{2,k+1} norm (section 4.3.1)."""
    k = len(u)
    of_neuron = u.square().sum((0, 2)) + w.square().sum(1)
    return of_neuron.pow((k + 1) / 2).sum() ** (1 / (k + 1))


def margin(u: Tensor, w: Tensor) -> float:
    """Return the normalised margin over the whole table (Definitions 4.2-4.4).

    The network is homogeneous of degree k + 1.
    """
    k, _, p = u.shape
    scores = forward(u, w)
    right = scores.gather(1, table(k, p)[1][:, None])
    others = scores.scatter(1, table(k, p)[1][:, None], -torch.inf).max(1).values
    return float((right[:, 0] - others).min() / norm(u, w) ** (k + 1))


def trained(setting: AdditionTable, stream: torch.Generator) -> list[tuple[int, Tensor, Tensor]]:
    """Train on the whole table and return the weights at the recorded steps.

    The loss is cross-entropy and lambda times the norm (Definition 4.1). A RarefeatError is raised
    for weights that are no longer finite.
    """
    k, p, m = setting.k, setting.p, setting.m
    target = table(k, p)[1]
    u = torch.randn(k, m, p, generator=stream) / math.sqrt(p)
    w = torch.randn(m, p, generator=stream) / math.sqrt(p)
    parameters = [u.requires_grad_(), w.requires_grad_()]
    optimiser = torch.optim.Adam(parameters, lr=setting.lr, betas=(0.9, 0.98))
    recorded = {0} | {round(setting.steps ** (i / (RECORDED - 1))) for i in range(RECORDED)}
    history = []
    for step in progress(range(setting.steps + 1), setting.steps + 1, f"modulo {p}"):
        if step in recorded:
            history.append((step, u.detach().double(), w.detach().double()))
        if step == setting.steps:
            break
        optimiser.param_groups[0]["lr"] = (
            setting.lr * min(1.0, (step + 1) / 10) * (1 - step / setting.steps)
        )
        optimiser.zero_grad()
        loss = functional.cross_entropy(forward(u, w), target) + setting.penalty * norm(u, w)
        loss.backward()
        optimiser.step()
    if not all(weights.isfinite().all() for weights in history[-1][1:]):
        raise RarefeatError(
            "training on modular addition diverged: the weights are no longer finite; lower lr"
        )
    return history


def rows(setting: AdditionTable, cell: Cell, draws: str, seeds: list[int]) -> list[ResultRow]:
    """Measure margin over gamma* and the neurons' frequencies at the recorded steps."""
    k, p, results = setting.k, setting.p, []
    for seed in seeds:
        stages = trained(setting, generator(draws, seed, f"k={k} p={p} m={setting.m}"))
        for step, u, w in stages:
            results += [ResultRow(seed, step, *metric) for metric in of_weights(u, w)]
    return results


def of_weights(u: Tensor, w: Tensor) -> list[tuple[str, float, float]]:
    """Measure a network and return what Theorem 4.9 states of it: (quantity, value, stated)."""
    k, _, p = u.shape
    weights = torch.cat([u, w[None]])
    spectrum = torch.fft.rfft(weights)[..., 1:]
    share = spectrum.abs().square().sum(0)
    share = share / share.sum(-1, keepdim=True).clamp_min(torch.finfo(share.dtype).tiny)
    largest, frequency = share.max(-1)
    single = largest > ONE_FREQUENCY
    phases = spectrum.angle().gather(-1, frequency.expand(k + 1, -1)[..., None])[..., 0]
    # Phases of u sum to that of w, up to a sign that an even power does not see and w has.
    turn = torch.cos(phases[:k].sum(0) - phases[k])[single]
    size = u.square().sum((0, 2)) + w.square().sum(1)
    weight = size.pow((k + 1) / 2)
    return [
        ("margin_ratio", margin(u, w) / largest_margin(k, p), 1.0),
        ("accuracy", float((forward(u, w).argmax(1) == table(k, p)[1]).double().mean()), 1.0),
        ("one_frequency", float(single.double().mean()), 1.0),
        ("one_frequency_weight", float(weight[single].sum() / weight.sum()), 1.0),
        ("power", float(largest.mean()), 1.0),
        ("frequencies", float(len(frequency[single].unique())), (p - 1) / 2),
        ("phase", float(turn.mean()) if len(turn) else math.nan, 1.0),
    ]


def run_stage(inputs: JobInputs, job: Job) -> pd.DataFrame:
    """Measure a cell and block of seeds.

    Config: `parameters`. Output: a row per seed, step and quantity.
    """
    return rows_to_table(
        rows(
            job.config_section("parameters", AdditionTable),
            job.cell_object,
            job.study,
            job.seed_list,
        ),
        job.cell_object,
    )
