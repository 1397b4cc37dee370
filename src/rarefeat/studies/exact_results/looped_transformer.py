"""Experiment 8-1 (section 8.6): a looped linear transformer is gradient descent.

Its error is under exp(-T / kappa).
"""

import pandas as pd
import torch
from torch import Tensor

from rarefeat.config.cells import Cell
from rarefeat.core.randomness import generator
from rarefeat.run.job import Job
from rarefeat.run.job_inputs import JobInputs
from rarefeat.studies.exact_results.config import LoopedProblem
from rarefeat.studies.exact_results.result_rows import ResultRow, rows_to_table

EVERY = 5
"""Loops between recorded ones."""


def attention(Z: Tensor) -> Tensor:
    """Linear attention with a causal mask, (..., n + 1, d + 1) -> the same (Definition 8.6.

    Q = I, P = diag(1, 0)).
    """
    mask = torch.zeros(Z.shape[-2], Z.shape[-2], dtype=Z.dtype)
    mask[-1, :-1] = 1
    keep = torch.ones(Z.shape[-1], dtype=Z.dtype)
    keep[-1] = 0
    return (mask * (Z @ Z.mT)) @ Z * keep


def looped_transformer_outputs(X: Tensor, y: Tensor, alpha: Tensor, eta: Tensor, T: int) -> Tensor:
    """What the transformer puts out after each number of loops (Definitions 8.5, 8.7), from q = 0.

    Args:
        X: examples, (B, n, d). y: labels, (B, n). alpha: queries, not 0, (B,). eta: residual
        weights, (B,).

    Returns:
        (B, T + 1, d).
    """
    query = torch.zeros_like(X[:, :1])
    Z = torch.cat(
        [torch.cat([X, y[..., None]], -1), torch.cat([query, alpha[:, None, None]], -1)], 1
    )
    found = [-Z[:, -1, :-1]]
    for _ in range(T):
        Z = Z - eta[:, None, None] * attention(Z)
        found.append(-Z[:, -1, :-1])
    return torch.stack(found, 1)


def gradient_descent_iterates(X: Tensor, y: Tensor, eta: Tensor, T: int) -> Tensor:
    """Gradient descent on |y - X theta|^2 / 2 from 0 (eq.

    8.2), arguments as for `looped_transformer_outputs`: (B, T + 1, d).
    """
    theta = torch.zeros_like(X[:, 0])
    found = [theta]
    for _ in range(T):
        residual = torch.einsum("bnd,bd->bn", X, theta) - y
        theta = theta - eta[:, None] * torch.einsum("bnd,bn->bd", X, residual)
        found.append(theta)
    return torch.stack(found, 1)


def spectrum(X: Tensor, theta: Tensor) -> tuple[Tensor, Tensor]:
    """Eigenvalues of X^T X in ascending order, (B, d).

    The squared parts of the unit vectors theta along them, (B, d).
    """
    values, vectors = torch.linalg.eigh(X.mT @ X)
    return values, torch.einsum("bij,bi->bj", vectors, theta).square()


def log_decay(values: Tensor, parts: Tensor, T: int, power: int) -> Tensor:
    """log of the sum over i of parts_i (1 - lambda_i / L)^(power t), by t.

    (B, d), (B, d) -> (B, T + 1).

    What is left of an error after t loops with eta = 1 / L: for power 2 |theta^(t) - theta*|^2 /
    |theta^(0) - theta*|^2, for 1 |<out, theta*> - alpha| / |alpha| of Theorem 8.16, where |theta*|
    = 1. Logarithms are summed, so that rounding has no part.
    """
    t = torch.arange(T + 1, dtype=values.dtype)[:, None]
    shrink = torch.log1p(-(values / values[:, -1:])[:, None, :-1])
    # The part along the largest eigenvalue is gone after one loop.
    largest = torch.where(t == 0, parts[:, None, -1:].log(), -torch.inf)
    return torch.logsumexp(
        torch.cat([parts[:, None, :-1].log() + power * t * shrink, largest], -1), -1
    )


def rows(problem: LoopedProblem, cell: Cell, draws: str, seeds: list[int]) -> list[ResultRow]:
    """The experiment of a seed: `trials` problems with n examples, as section 8.6 has ten."""
    n, d, T, found = int(cell["n"]), problem.d, problem.T, []
    for seed in seeds:
        stream = generator(draws, seed, f"n={n}")
        X = torch.randn(problem.trials, n, d, generator=stream, dtype=torch.double)
        theta = torch.nn.functional.normalize(
            torch.randn(problem.trials, d, generator=stream, dtype=torch.double), dim=-1
        )
        alpha = torch.randn(problem.trials, generator=stream, dtype=torch.double)
        y = torch.einsum("bnd,bd->bn", X, theta)
        values, parts = spectrum(X, theta)
        eta, kappa = 1 / values[:, -1], values[:, -1] / values[:, 0]
        of_transformer = looped_transformer_outputs(X, y, alpha, eta, T) / alpha[:, None, None]
        difference = (of_transformer - gradient_descent_iterates(X, y, eta, T)).norm(dim=-1).max()
        found.append(ResultRow(seed, 0, "kappa", kappa.mean()))
        found.append(ResultRow(seed, T, "disagreement", difference / torch.finfo(torch.double).eps))

        bound = -torch.arange(T + 1, dtype=torch.double) / kappa[:, None]
        exact, predicted = (log_decay(values, parts, T, power) for power in (2, 1))
        rounded = (of_transformer - theta[:, None]).square().sum(-1).log()
        found.append(ResultRow(seed, T, "error_excess", (exact - bound)[:, 1:].max()))
        found.append(ResultRow(seed, T, "prediction_excess", (predicted - bound / 2)[:, 1:].max()))
        found.append(ResultRow(seed, T, "rounded_excess", (rounded - bound)[:, 1:].max()))
        for t in range(0, T + 1, EVERY):
            found.append(ResultRow(seed, t, "log_error", exact[:, t].mean(), bound[:, t].mean()))
            # A trial that is solved to the last bit has no logarithm.
            found.append(
                ResultRow(
                    seed,
                    t,
                    "log_error_rounded",
                    rounded[:, t].clamp_min(-80).mean(),
                    bound[:, t].mean(),
                )
            )
            if t:
                found.append(ResultRow(seed, t, "gap", (bound - exact)[:, t].mean()))
    return found


def run_stage(read: JobInputs, job: Job) -> pd.DataFrame:
    """The stage of a cell and block of seeds."""
    return rows_to_table(
        rows(
            job.config_section("parameters", LoopedProblem),
            job.cell_object,
            job.study,
            job.seed_list,
        ),
        job.cell_object,
    )
