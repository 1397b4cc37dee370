"""Result 2-8 on scikit-learn's digits (A.7.4): clusters of neurons.

The question is whether the neurons of a two-layer network that tells 0 from 1 form two clusters.
"""

import math

import numpy as np
import pandas as pd
import torch
from sklearn.cluster import KMeans
from sklearn.datasets import load_digits
from sklearn.metrics import silhouette_score
from torch import Tensor
from torch.nn import functional

from rarefeat.errors import RarefeatError
from rarefeat.model.randomness import generator
from rarefeat.studies.exact_results.config import DigitProblem
from rarefeat.studies.exact_results.result_rows import ResultRow, rows_to_table
from rarefeat.workflow.config.cells import Cell
from rarefeat.workflow.run.job import Job
from rarefeat.workflow.run.job_inputs import JobInputs

MOST_CLUSTERS = 8
RECORDED = 9
"""Steps at which neurons are recorded, about evenly in their logarithm."""


def images() -> tuple[Tensor, Tensor]:
    """Return the zeros and ones: pixels less their mean image, of mean norm 1, (n, 64).

    Labels are -1 and 1, (n,).
    """
    bunch = load_digits(n_class=2)
    x = torch.from_numpy(bunch.data).float()
    x = x - x.mean(0)
    return x / x.norm(dim=1).mean(), torch.from_numpy(bunch.target).float() * 2 - 1


def scores(parameters: tuple[Tensor, Tensor, Tensor], x: Tensor) -> Tensor:
    """Return g(x) = sum of a_i min(1, max(<w_i, x> + b_i, 0)) (section 2.3).

    W (m, 64), b (m,), a (m,); x (n, 64) -> (n,).
    """
    w, b, a = parameters
    return (x @ w.T + b).clamp(0, 1) @ a


def trained(
    problem: DigitProblem, sigma: float, x: Tensor, y: Tensor, stream: torch.Generator
) -> list[tuple[int, Tensor, float]]:
    """Train the network by SGD with momentum on the hinge loss, without a penalty.

    x (n, 64), y (n,).
    """
    m, d = problem.m, x.shape[1]
    w = sigma * torch.randn(m, d, generator=stream) / math.sqrt(d)
    b, a = torch.zeros(m), sigma * torch.randn(m, generator=stream) / math.sqrt(m)
    parameters = tuple(weights.requires_grad_() for weights in (w, b, a))
    optimiser = torch.optim.SGD(parameters, lr=problem.lr, momentum=problem.momentum)
    recorded = {0} | {round(problem.steps ** (i / (RECORDED - 1))) for i in range(RECORDED)}
    history = []
    for step in range(problem.steps + 1):
        if step in recorded:
            with torch.no_grad():
                right = float((scores(parameters, x) * y > 0).double().mean())
            history.append((step, w.detach().clone(), right))
        rows = torch.randint(len(x), (problem.batch,), generator=stream)
        optimiser.zero_grad()
        functional.relu(1 - y[rows] * scores(parameters, x[rows])).mean().backward()
        optimiser.step()
    if not w.isfinite().all():
        raise RarefeatError(
            "training on the digits diverged: the weights are no longer finite; lower lr"
        )
    return history


def clusters(w: Tensor, seed: int) -> tuple[int, float]:
    """Return the best number of k-means clusters of the neurons' directions, (m, d).

    The best has the largest mean silhouette, which is returned too.
    """
    direction = functional.normalize(w, dim=1).double().numpy()
    silhouettes = {}
    for number in range(2, min(MOST_CLUSTERS, len(w) - 1) + 1):
        assigned = KMeans(number, n_init=4, random_state=seed).fit_predict(direction)
        silhouettes[number] = (
            silhouette_score(direction, assigned) if len(np.unique(assigned)) > 1 else -1.0
        )
    best = max(silhouettes, key=silhouettes.get)
    return best, float(silhouettes[best])


def rows(problem: DigitProblem, cell: Cell, draws: str, seeds: list[int]) -> list[ResultRow]:
    """Measure each seed's network: its clusters of neurons and their directions.

    Directions are compared with the difference of the class means.
    """
    x, y = images()
    between = functional.normalize(x[y > 0].mean(0) - x[y < 0].mean(0), dim=0)
    results = []
    for seed in seeds:
        for step, w, right in trained(
            problem, cell["sigma"], x, y, generator(draws, seed, "network")
        ):
            number, silhouette = clusters(w, seed)
            cosine = functional.cosine_similarity(w, between, dim=1)
            results += [
                ResultRow(seed, step, "accuracy", right),
                ResultRow(seed, step, "clusters", number, 2.0),
                ResultRow(seed, step, "silhouette", silhouette),
                ResultRow(seed, step, "aligned", (cosine.abs() > 0.9).double().mean()),
                ResultRow(seed, step, "median_cosine", cosine.abs().median()),
            ]
    return results


def run_stage(inputs: JobInputs, job: Job) -> pd.DataFrame:
    """Measure a cell and block of seeds.

    Config: `parameters`. Output: a row per seed, step and quantity.
    """
    return rows_to_table(
        rows(
            job.config_section("parameters", DigitProblem),
            job.cell_object,
            job.study,
            job.seed_list,
        ),
        job.cell_object,
    )
