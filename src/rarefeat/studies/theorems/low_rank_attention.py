"""Result 5-T (section 5.4): linear attention of rank r for linear regression in context, its
optimum and its loss.

Axes: d coordinates, r ranks, P prompts, M or N examples of a prompt.
"""

from collections.abc import Iterator, Mapping

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float
from matplotlib.figure import Figure
from scipy.optimize import minimize
from torch import Tensor

from rarefeat.claims.measurements import Measurement, measurement
from rarefeat.figures.labels import INTERVALS, seeds_of
from rarefeat.figures.panels import panels, plot_points, titled
from rarefeat.figures.style import NARROW, STYLES
from rarefeat.model.randomness import generator
from rarefeat.studies.theorems.plots import plot_stated
from rarefeat.studies.theorems.problems import AttentionProblem
from rarefeat.studies.theorems.results import (
    Row,
    by_setting,
    of_quantity,
    result_schema,
    setting_rows,
    settings_on,
)

STUDY = "low_rank_attention"
QUANTITIES = {
    "loss": "mean squared error over drawn prompts of the attention of rank `at`; stated: Theorem"
    " 5.4.2",
    "increment": "loss of rank `at` + 1 less that of rank `at`, for tasks in the first `at`"
    " directions; stated: Theorem 5.4.3",
    "pretraining_loss": "least pretraining loss that a search finds at rank `at`; stated: that of"
    " Theorem 5.4.1",
}
SCHEMA = result_schema(STUDY, QUANTITIES)
CHUNK = 20_000
"""Prompts at once: some tens of megabytes."""


def optimum(eigenvalues: Float[Tensor, " d"], N: int, r: int) -> Float[Tensor, " d"]:
    """Return v* of Theorem 5.4.1: N / ((N + 1) lambda_i + tr D) for the r largest eigenvalues,
    which come first.
    """
    full_rank = N / ((N + 1) * eigenvalues + eigenvalues.sum())
    return torch.where(torch.arange(len(eigenvalues)) < r, full_rank, 0.0)


def pretraining_loss(
    U: Float[Tensor, "*r d d"], covariance: Float[Tensor, "d d"], N: int
) -> Float[Tensor, "*r"]:
    """Return the mean of (prediction - label)^2 / 2 in pretraining, for w ~ N(0, I) and u = 1:
    Lemma 5.1 plus tr(Lambda) / 2.
    """
    trace = covariance.trace()
    eye = torch.eye(len(covariance), dtype=covariance.dtype)
    Gamma = (1 + 1 / N) * covariance + trace / N * eye
    quadratic = Gamma @ covariance @ U @ covariance @ U.mT / 2 - covariance @ covariance @ U.mT
    return quadratic.diagonal(dim1=-2, dim2=-1).sum(-1) + trace / 2


def evaluation_loss(
    eigenvalues: Float[Tensor, " d"], v: Float[Tensor, " d"], w: Float[Tensor, " d"], M: int,
    sigma: float,
) -> Float[Tensor, ""]:  # fmt: skip
    """Return the mean of (prediction - label)^2 over prompts of M examples with noisy labels.

    By Theorem 5.4.2, whose s is the part of w in the directions that the attention has, v > 0, and
    xi the rest.
    """
    s, xi = torch.where(v > 0, w, 0.0), torch.where(v > 0, 0.0, w)
    inputs = (s.square() * v.square() * eigenvalues**3).sum()
    labels = ((w.square() * eigenvalues).sum() + sigma**2) * (v * eigenvalues).square().sum()
    missed = (xi.square() * eigenvalues).sum()
    shrunk = (s.square() * eigenvalues * (eigenvalues * v - 1).square()).sum()
    return (inputs + labels) / M + missed + shrunk


def increment(
    eigenvalues: Float[Tensor, " d"], w: Float[Tensor, " d"], N: int, M: int, sigma: float, r: int
) -> Float[Tensor, ""]:
    """Return the loss of rank r + 1 less that of rank r, for w in the first r directions (Theorem
    5.4.3).
    """
    more = (N * eigenvalues[r] / ((N + 1) * eigenvalues[r] + eigenvalues.sum())).square()
    return ((w.square() * eigenvalues).sum() + sigma**2) * more / M


def simulated_losses(
    covariance_root: Float[Tensor, "d d"], U: Float[Tensor, "r d d"], w: Float[Tensor, " d"],
    M: int, sigma: float, prompts: int, stream: torch.Generator,
) -> Float[Tensor, " r"]:  # fmt: skip
    """Simulate the mean squared error of every U on the same drawn prompts, without a theorem."""
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


def descended_loss(
    covariance: Float[Tensor, "d d"], N: int, r: int, stream: torch.Generator
) -> float:
    """Return the least pretraining loss of U = A B^T by L-BFGS, without use of Theorem 5.4.1."""
    d, Lambda = len(covariance), covariance.numpy()
    first = ((1 + 1 / N) * Lambda + np.trace(Lambda) / N * np.eye(d)) @ Lambda

    def loss(factors: np.ndarray) -> tuple[float, np.ndarray]:
        A, B = factors.reshape(2, d, r)
        curved = first @ A @ B.T @ Lambda
        by_U = curved - Lambda @ Lambda
        value = np.sum((curved / 2 - Lambda @ Lambda) * (A @ B.T)) + np.trace(Lambda) / 2
        return value, np.concatenate([by_U @ B, by_U.T @ A]).ravel()

    start = 0.3 * torch.randn(2 * d * r, generator=stream, dtype=torch.double).numpy()
    options = {"maxiter": 5000, "ftol": 1e-15, "gtol": 1e-10}
    return float(minimize(loss, start, jac=True, method="L-BFGS-B", options=options).fun)


def measure(cell: dict, seeds: list[int], problem: AttentionProblem) -> list[dict]:
    """Measure losses by rank, simulated and searched for, of each seed's task and eigenvectors."""
    signal, rows = int(cell["signal"]), []
    d, N, M, sigma = problem.d, problem.N, problem.M, problem.sigma
    eigenvalues = problem.decay ** torch.arange(d, dtype=torch.double)
    v = torch.stack([optimum(eigenvalues, N, r) for r in range(d + 1)])
    for seed in seeds:
        stream = generator(STUDY, seed, "task")
        Q = torch.linalg.qr(torch.randn(d, d, generator=stream, dtype=torch.double)).Q
        w = torch.randn(d, generator=stream, dtype=torch.double)
        w[signal:] = 0
        U = (Q * v[:, None]) @ Q.T
        root = Q * eigenvalues.sqrt()
        prompts = generator(STUDY, seed, "prompts")
        simulated = simulated_losses(root, U, Q @ w, M, sigma, problem.prompts, prompts)
        for r in range(d + 1):
            loss = evaluation_loss(eigenvalues, v[r], w, M, sigma)
            rows.append(Row(seed, "loss", simulated[r], loss, r))
            if signal <= r < d:
                more = simulated[r + 1] - simulated[r]
                stated = increment(eigenvalues, w, N, M, sigma, r)
                rows.append(Row(seed, "increment", more, stated, r))
            if r:
                covariance = root @ root.T
                start = generator(STUDY, seed, f"start of rank {r}")
                searched = descended_loss(covariance, N, r, start)
                stated = pretraining_loss(U[r], covariance, N)
                rows.append(Row(seed, "pretraining_loss", searched, stated, r))
    return setting_rows(rows, cell)


def claims(table: pd.DataFrame) -> Iterator[Measurement]:
    """Measure the claims for each signal, that on the loss for each rank."""
    for setting, v in by_setting(table).items():
        here = {"setting": setting}
        searched = of_quantity(v.rows, "pretraining_loss").groupby("seed")[["value", "stated"]]
        ratio = searched.apply(lambda rows: np.log(rows["value"] / rows["stated"]).mean())
        yield measurement("5.4.1", STUDY, here, ratio)
        for rank in v.places("loss"):
            ratio = np.log(v("loss", rank) / v.stated("loss", rank))
            yield measurement("5.4.2", STUDY, {**here, "rank": rank}, ratio)
        if len(more := of_quantity(v.rows, "increment")):
            total = more.groupby("seed")[["value", "stated"]].sum()
            yield measurement("5.4.3", STUDY, here, np.log(total["value"] / total["stated"]))


def plot(tables: Mapping[str, pd.DataFrame]) -> Figure:
    """Plot loss by rank, simulated and in closed form."""
    (table,) = tables.values()
    signals = settings_on(table, "signal")
    figure, axes = panels(1, len(signals), 2.6, NARROW, sharey=True)
    losses, look = of_quantity(table, "loss"), STYLES[0]
    for ax, (signal, setting) in zip(axes[0], signals.items(), strict=True):
        rows = losses[losses["setting"] == setting]
        plot_points(ax, rows, "at", "value", look, bounds=(0, np.inf))
        plot_stated(ax, rows, ls="none", marker="_", ms=12, mew=1.4, mec=STYLES[2].colour)
        ranks = sorted(rows["at"].unique())
        ax.set(xlabel="rank $r$", title=f"task in {signal:g} of {ranks[-1]:g} directions")
        ax.set_xticks(sorted({0, *signals, ranks[-1]}))
        ax.set_xticks(ranks, minor=True)
    axes[0, 0].set(ylabel="mean squared error", ylim=(0, None))
    return titled(
        figure,
        "Mean squared error of linear attention by its rank",
        f"dots: simulated, {INTERVALS}, {seeds_of(table)};\ndashes: Theorem 5.4.2",
    )
