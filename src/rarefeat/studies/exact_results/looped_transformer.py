"""Experiment 8-1 (section 8.6): a looped linear transformer is gradient descent.

Its error is under exp(-T / kappa).
"""

import math

import pandas as pd
import torch
from torch import Tensor

from rarefeat.model.randomness import generator
from rarefeat.studies.exact_results.config import LoopedProblem
from rarefeat.studies.exact_results.result_rows import ResultRow, rows_to_table
from rarefeat.workflow.config.cells import Cell
from rarefeat.workflow.run.job import Job
from rarefeat.workflow.run.job_inputs import JobInputs

EVERY = 5
"""Loops between recorded ones."""


def attention(Z: Tensor) -> Tensor:
    """Return linear attention with a causal mask (Definition 8.6, Q = I, P = diag(1, 0)), (..., n +
    1, d + 1) -> the same shape.
    """
    mask = torch.zeros(Z.shape[-2], Z.shape[-2], dtype=Z.dtype)
    mask[-1, :-1] = 1
    keep = torch.ones(Z.shape[-1], dtype=Z.dtype)
    keep[-1] = 0
    return (mask * (Z @ Z.mT)) @ Z * keep


def looped_transformer_outputs(X: Tensor, y: Tensor, alpha: Tensor, eta: Tensor, T: int) -> Tensor:
    """Return the output of the transformer after each number of loops, from q = 0 (Definitions 8.5
    and 8.7).

    X (B, n, d), y (B, n), alpha (B,), eta (B,) -> (B, T + 1, d).
    """
    query = torch.zeros_like(X[:, :1])
    Z = torch.cat(
        [torch.cat([X, y[..., None]], -1), torch.cat([query, alpha[:, None, None]], -1)], 1
    )
    outputs = [-Z[:, -1, :-1]]
    for _ in range(T):
        Z = Z - eta[:, None, None] * attention(Z)
        outputs.append(-Z[:, -1, :-1])
    return torch.stack(outputs, 1)


def gradient_descent_iterates(X: Tensor, y: Tensor, eta: Tensor, T: int) -> Tensor:
    """Return the iterates of gradient descent on |y - X theta|^2 / 2 from 0 (eq. 8.2).

    X (B, n, d), y (B, n), eta (B,) -> (B, T + 1, d).
    """
    theta = torch.zeros_like(X[:, 0])
    iterates = [theta]
    for _ in range(T):
        residual = torch.einsum("bnd,bd->bn", X, theta) - y
        theta = theta - eta[:, None] * torch.einsum("bnd,bn->bd", X, residual)
        iterates.append(theta)
    return torch.stack(iterates, 1)


def spectrum(X: Tensor, theta: Tensor) -> tuple[Tensor, Tensor]:
    """Return the eigenvalues of X^T X and the squared components of theta along them.

    Eigenvalues in ascending order, (B, d); components of the unit vectors theta, (B, d).
    """
    values, vectors = torch.linalg.eigh(X.mT @ X)
    return values, torch.einsum("bij,bi->bj", vectors, theta).square()


def log_decay(values: Tensor, components: Tensor, T: int, power: int) -> Tensor:
    """Return the log of the sum over i of components_i (1 - lambda_i / L)^(power t), by t.

    It is what is left of an error after t loops with eta = 1 / L: for power 2 |theta^(t) -
    theta*|^2 / |theta^(0) - theta*|^2, for 1 |<out, theta*> - alpha| / |alpha| of Theorem 8.16,
    where |theta*| = 1. Logarithms are summed, so that rounding has no part.

    values (B, d), components (B, d) -> (B, T + 1).
    """
    t = torch.arange(T + 1, dtype=values.dtype)[:, None]
    shrink = torch.log1p(-(values / values[:, -1:])[:, None, :-1])
    # The part along the largest eigenvalue is gone after one loop.
    largest = torch.where(t == 0, components[:, None, -1:].log(), -torch.inf)
    return torch.logsumexp(
        torch.cat([components[:, None, :-1].log() + power * t * shrink, largest], -1), -1
    )


def rows(problem: LoopedProblem, cell: Cell, draws: str, seeds: list[int]) -> list[ResultRow]:
    """Run each seed's experiment: `trials` problems with n examples, as section 8.6 has ten."""
    n, d, T, results = int(cell["n"]), problem.d, problem.T, []
    for seed in seeds:
        stream = generator(draws, seed, f"n={n}")
        X = torch.randn(problem.trials, n, d, generator=stream, dtype=torch.double)
        theta = torch.nn.functional.normalize(
            torch.randn(problem.trials, d, generator=stream, dtype=torch.double), dim=-1
        )
        alpha = torch.randn(problem.trials, generator=stream, dtype=torch.double)
        y = torch.einsum("bnd,bd->bn", X, theta)
        values, components = spectrum(X, theta)
        eta, kappa = 1 / values[:, -1], values[:, -1] / values[:, 0]
        of_transformer = looped_transformer_outputs(X, y, alpha, eta, T) / alpha[:, None, None]
        difference = (of_transformer - gradient_descent_iterates(X, y, eta, T)).norm(dim=-1).max()
        results.append(ResultRow(seed, 0, "kappa", kappa.mean()))
        results.append(
            ResultRow(seed, T, "disagreement", difference / torch.finfo(torch.double).eps)
        )

        bound = -torch.arange(T + 1, dtype=torch.double) / kappa[:, None]
        exact, predicted = (log_decay(values, components, T, power) for power in (2, 1))
        rounded = (of_transformer - theta[:, None]).square().sum(-1).log()
        results.append(ResultRow(seed, T, "error_excess", (exact - bound)[:, 1:].max()))
        results.append(
            ResultRow(seed, T, "prediction_excess", (predicted - bound / 2)[:, 1:].max())
        )
        # Below this the error is rounding, and the bound says nothing of it.
        visible = bound > 2 * math.log(torch.finfo(torch.double).eps) + math.log(n)
        below = torch.where(visible, rounded - bound, -torch.inf)[:, 1:]
        results.append(ResultRow(seed, T, "rounded_excess", below.max()))
        for t in range(0, T + 1, EVERY):
            results.append(ResultRow(seed, t, "log_error", exact[:, t].mean(), bound[:, t].mean()))
            # A trial that is solved to the last bit has no logarithm.
            results.append(
                ResultRow(
                    seed,
                    t,
                    "log_error_rounded",
                    rounded[:, t].clamp_min(-80).mean(),
                    bound[:, t].mean(),
                )
            )
            if t:
                results.append(ResultRow(seed, t, "gap", (bound - exact)[:, t].mean()))
    return results


def run_stage(inputs: JobInputs, job: Job) -> pd.DataFrame:
    """Measure a cell and block of seeds.

    Config: `parameters`. Output: a row per seed, loop and quantity.
    """
    return rows_to_table(
        rows(
            job.config_section("parameters", LoopedProblem),
            job.cell_object,
            job.study,
            job.seed_list,
        ),
        job.cell_object,
    )
