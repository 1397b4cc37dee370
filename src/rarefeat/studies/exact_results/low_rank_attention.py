"""Result 5-T (section 5.4): linear attention of rank r for linear regression in context.

Its optimum and its loss.
"""

import numpy as np
import pandas as pd
import torch
from scipy.optimize import minimize
from torch import Tensor

from rarefeat.model.randomness import generator
from rarefeat.studies.exact_results.config import AttentionProblem
from rarefeat.studies.exact_results.result_rows import ResultRow, rows_to_table
from rarefeat.workflow.config.cells import Cell
from rarefeat.workflow.run.job import Job
from rarefeat.workflow.run.job_inputs import JobInputs

CHUNK = 20_000
"""Prompts at once: some tens of megabytes."""


def optimum(eigenvalues: Tensor, N: int, r: int) -> Tensor:
    """Return v* = N / ((N + 1) lambda_i + tr D) of Theorem 5.4.1 for the r largest eigenvalues,
    which come first, (d,) -> (d,).
    """
    full_rank = N / ((N + 1) * eigenvalues + eigenvalues.sum())
    return torch.where(torch.arange(len(eigenvalues)) < r, full_rank, 0.0)


def pretraining_loss(U: Tensor, covariance: Tensor, N: int) -> Tensor:
    """Return the mean of (prediction - label)^2 / 2 in pretraining, for w ~ N(0, I) and u = 1:
    Lemma 5.1 plus tr(Lambda) / 2.

    U (..., d, d), covariance (d, d).
    """
    trace = covariance.trace()
    Gamma = (1 + 1 / N) * covariance + trace / N * torch.eye(
        len(covariance), dtype=covariance.dtype
    )
    quadratic = Gamma @ covariance @ U @ covariance @ U.mT / 2 - covariance @ covariance @ U.mT
    return quadratic.diagonal(dim1=-2, dim2=-1).sum(-1) + trace / 2


def evaluation_loss(eigenvalues: Tensor, v: Tensor, w: Tensor, M: int, sigma: float) -> Tensor:
    """Return the mean of (prediction - label)^2 over prompts of M examples with noisy labels
    (Theorem 5.4.2).

    The theorem's s is the part of w in the directions that the attention has, v > 0, and xi the
    rest.

    eigenvalues (d,), v (d,), w (d,).
    """
    s, xi = torch.where(v > 0, w, 0.0), torch.where(v > 0, 0.0, w)
    inputs = (s.square() * v.square() * eigenvalues**3).sum()
    labels = ((w.square() * eigenvalues).sum() + sigma**2) * (v * eigenvalues).square().sum()
    missed = (xi.square() * eigenvalues).sum()
    shrunk = (s.square() * eigenvalues * (eigenvalues * v - 1).square()).sum()
    return (inputs + labels) / M + missed + shrunk


def increment(eigenvalues: Tensor, w: Tensor, N: int, M: int, sigma: float, r: int) -> Tensor:
    """Return the loss of rank r + 1 less that of rank r (Theorem 5.4.3).

    w lies in the first r directions.

    eigenvalues (d,), w (d,).
    """
    more = (N * eigenvalues[r] / ((N + 1) * eigenvalues[r] + eigenvalues.sum())).square()
    return ((w.square() * eigenvalues).sum() + sigma**2) * more / M


def simulated_losses(
    covariance_root: Tensor,
    U: Tensor,
    w: Tensor,
    M: int,
    sigma: float,
    prompts: int,
    stream: torch.Generator,
) -> Tensor:
    """Simulate the mean squared error of every U on the same drawn prompts.

    The theorem is not used.

    covariance_root (d, d), U (ranks, d, d), w (d,) -> (ranks,).
    """
    total = torch.zeros(len(U), dtype=U.dtype)
    for start in range(0, prompts, CHUNK):
        P = min(CHUNK, prompts - start)
        x = torch.randn(P, M + 1, len(w), generator=stream, dtype=U.dtype) @ covariance_root.T
        examples, query = x[:, :M], x[:, M]
        y = examples @ w + sigma * torch.randn(P, M, generator=stream, dtype=U.dtype)
        # The last row of E E^T / M, which is all that W_PV of eq. (5.3) lets through.
        row = torch.einsum("pm,pmd->pd", y, examples) / M
        predicted = torch.einsum("pd,rde,pe->rp", row, U, query)
        total += (predicted - query @ w).square().sum(1)
    return total / prompts


def descended_loss(covariance: Tensor, N: int, r: int, stream: torch.Generator) -> float:
    """Return the least pretraining loss that L-BFGS finds among U = A B^T of rank r.

    A and B have shape (d, r); the start is random. No use is made of Theorem 5.4.1; the gradient by
    U is Gamma Lambda U Lambda - Lambda^2.

    covariance (d, d).
    """
    d, Lambda = len(covariance), covariance.numpy()
    first = ((1 + 1 / N) * Lambda + np.trace(Lambda) / N * np.eye(d)) @ Lambda

    def loss(factors: np.ndarray) -> tuple[float, np.ndarray]:
        A, B = factors.reshape(2, d, r)
        curved = first @ A @ B.T @ Lambda
        by_U = curved - Lambda @ Lambda
        value = np.sum((curved / 2 - Lambda @ Lambda) * (A @ B.T)) + np.trace(Lambda) / 2
        return value, np.concatenate([by_U @ B, by_U.T @ A]).ravel()

    start = 0.3 * torch.randn(2 * d * r, generator=stream, dtype=torch.double).numpy()
    minimum = minimize(
        loss,
        start,
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": 5000, "ftol": 1e-15, "gtol": 1e-10},
    )
    return float(minimum.fun)


def rows(problem: AttentionProblem, cell: Cell, draws: str, seeds: list[int]) -> list[ResultRow]:
    """Measure losses by rank, simulated and searched for, for each seed's task.

    A seed has a basis of eigenvectors of its own. Losses are compared with the closed forms.
    """
    signal, results = int(cell["signal"]), []
    d, N, M = problem.d, problem.N, problem.M
    eigenvalues = problem.decay ** torch.arange(d, dtype=torch.double)
    ranks = range(d + 1)
    v = torch.stack([optimum(eigenvalues, N, r) for r in ranks])
    for seed in seeds:
        stream = generator(draws, seed, "task")
        Q = torch.linalg.qr(torch.randn(d, d, generator=stream, dtype=torch.double)).Q
        w = torch.randn(d, generator=stream, dtype=torch.double)
        w[signal:] = 0
        U = (Q * v[:, None]) @ Q.T
        root = Q * eigenvalues.sqrt()
        simulated = simulated_losses(
            root, U, Q @ w, M, problem.sigma, problem.prompts, generator(draws, seed, "prompts")
        )
        for r in ranks:
            results.append(
                ResultRow(
                    seed,
                    r,
                    "loss",
                    simulated[r],
                    evaluation_loss(eigenvalues, v[r], w, M, problem.sigma),
                )
            )
            if signal <= r < d:
                closed = increment(eigenvalues, w, N, M, problem.sigma, r)
                results.append(
                    ResultRow(seed, r, "increment", simulated[r + 1] - simulated[r], closed)
                )
            if r:
                covariance = root @ root.T
                searched = descended_loss(
                    covariance, N, r, generator(draws, seed, f"start of rank {r}")
                )
                results.append(
                    ResultRow(
                        seed, r, "pretraining_loss", searched, pretraining_loss(U[r], covariance, N)
                    )
                )
    return results


def run_stage(inputs: JobInputs, job: Job) -> pd.DataFrame:
    """Measure a cell and block of seeds.

    Config: `parameters`. Output: a row per seed, rank and quantity.
    """
    return rows_to_table(
        rows(
            job.config_section("parameters", AttentionProblem),
            job.cell_object,
            job.study,
            job.seed_list,
        ),
        job.cell_object,
    )
