"""Experiment 8-1 (section 8.6): a looped linear transformer is gradient descent, and its error is
under exp(-T / kappa).

Axes: B problems, n examples, d coordinates, t = 0, ..., T loops.
"""

import math
from collections.abc import Iterator, Mapping

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float
from matplotlib.figure import Figure
from torch import Tensor

from rarefeat.claims.measurements import Measurement, measurement
from rarefeat.figures.labels import INTERVALS, seeds_of
from rarefeat.figures.panels import panels, plot_lines, titled
from rarefeat.figures.style import NARROW, STYLES
from rarefeat.model.randomness import generator
from rarefeat.studies.theorems.plots import plot_stated
from rarefeat.studies.theorems.problems import LoopedProblem
from rarefeat.studies.theorems.results import (
    Row,
    by_setting,
    of_quantity,
    result_schema,
    setting_rows,
    settings_on,
)

STUDY = "looped_transformer"
QUANTITIES = {
    "kappa": "mean condition number of X^T X over an experiment's problems",
    "disagreement": "largest distance of the transformer's output over alpha to gradient descent,"
    " in units of 2^-52",
    "error_excess": "largest log |theta^(t) - theta*|^2 / |theta^(0) - theta*|^2 + t / kappa over"
    " problems and loops t >= 1, without rounding",
    "prediction_excess": "largest log |<out, theta*> - alpha| / |alpha| + t / (2 kappa), likewise",
    "rounded_excess": "error_excess of the transformer's own output in double precision",
    "log_error": "mean log |theta^(t) - theta*|^2 / |theta^(0) - theta*|^2 after `at` loops,"
    " without rounding; stated: - t / kappa",
    "log_error_rounded": "the same of the transformer's own output, at least -80",
    "gap": "stated less measured log_error after `at` loops",
}
SCHEMA = result_schema(STUDY, QUANTITIES)
EVERY = 5
"""Loops between recorded ones."""
KAPPA = {16: 4.57, 32: 3.13, 64: 2.07, 128: 1.62}
"""Section 8.6: mean condition number over ten problems as printed, by the number of examples n."""


def attention(Z: Float[Tensor, "*B n d"]) -> Float[Tensor, "*B n d"]:
    """Return linear attention with a causal mask (Definition 8.6, Q = I, P = diag(1, 0))."""
    mask = torch.zeros(Z.shape[-2], Z.shape[-2], dtype=Z.dtype)
    mask[-1, :-1] = 1
    keep = torch.ones(Z.shape[-1], dtype=Z.dtype)
    keep[-1] = 0
    return (mask * (Z @ Z.mT)) @ Z * keep


def looped_transformer_outputs(
    X: Float[Tensor, "B n d"], y: Float[Tensor, "B n"], alpha: Float[Tensor, " B"],
    eta: Float[Tensor, " B"], T: int,
) -> Float[Tensor, "B t d"]:  # fmt: skip
    """Return the transformer's output after each number of loops, from q = 0 (8.5, 8.7)."""
    query = torch.zeros_like(X[:, :1])
    Z = torch.cat(
        [torch.cat([X, y[..., None]], -1), torch.cat([query, alpha[:, None, None]], -1)], 1
    )
    outputs = [-Z[:, -1, :-1]]
    for _ in range(T):
        Z = Z - eta[:, None, None] * attention(Z)
        outputs.append(-Z[:, -1, :-1])
    return torch.stack(outputs, 1)


def gradient_descent_iterates(
    X: Float[Tensor, "B n d"], y: Float[Tensor, "B n"], eta: Float[Tensor, " B"], T: int
) -> Float[Tensor, "B t d"]:
    """Return the iterates of gradient descent on |y - X theta|^2 / 2 from 0 (eq. 8.2)."""
    theta = torch.zeros_like(X[:, 0])
    iterates = [theta]
    for _ in range(T):
        residual = torch.einsum("bnd,bd->bn", X, theta) - y
        theta = theta - eta[:, None] * torch.einsum("bnd,bn->bd", X, residual)
        iterates.append(theta)
    return torch.stack(iterates, 1)


def spectrum(
    X: Float[Tensor, "B n d"], theta: Float[Tensor, "B d"]
) -> tuple[Float[Tensor, "B d"], Float[Tensor, "B d"]]:
    """Return eigenvalues of X^T X, ascending, and the squared components of theta along them."""
    values, vectors = torch.linalg.eigh(X.mT @ X)
    return values, torch.einsum("bij,bi->bj", vectors, theta).square()


def log_decay(
    values: Float[Tensor, "B d"], components: Float[Tensor, "B d"], T: int, power: int
) -> Float[Tensor, "B t"]:
    """Return the log of the sum over i of components_i (1 - lambda_i / L)^(power t), by t.

    It is what is left of an error after t loops with eta = 1 / L: power 2 of the squared distance,
    1 of Theorem 8.16. Logarithms are summed, so that rounding has no part.
    """
    t = torch.arange(T + 1, dtype=values.dtype)[:, None]
    shrink = torch.log1p(-(values / values[:, -1:])[:, None, :-1])
    # The part along the largest eigenvalue is gone after one loop.
    largest = torch.where(t == 0, components[:, None, -1:].log(), -torch.inf)
    return torch.logsumexp(
        torch.cat([components[:, None, :-1].log() + power * t * shrink, largest], -1), -1
    )


def measure(cell: dict, seeds: list[int], problem: LoopedProblem) -> list[dict]:
    """Run each seed's experiment: `trials` problems with n examples, as section 8.6 has ten."""
    n, d, T, rows = int(cell["n"]), problem.d, problem.T, []
    for seed in seeds:
        stream = generator(STUDY, seed, f"n={n}")
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
        bound = -torch.arange(T + 1, dtype=torch.double) / kappa[:, None]
        exact, predicted = (log_decay(values, components, T, power) for power in (2, 1))
        rounded = (of_transformer - theta[:, None]).square().sum(-1).log()
        # Below this the error is rounding, and the bound says nothing of it.
        eps = torch.finfo(torch.double).eps
        visible = bound > 2 * math.log(eps) + math.log(n)
        below = torch.where(visible, rounded - bound, -torch.inf)[:, 1:]
        rows += [
            Row(seed, "kappa", kappa.mean()),
            Row(seed, "disagreement", difference / eps, at=T),
            Row(seed, "error_excess", (exact - bound)[:, 1:].max(), at=T),
            Row(seed, "prediction_excess", (predicted - bound / 2)[:, 1:].max(), at=T),
            Row(seed, "rounded_excess", below.max(), at=T),
        ]
        for t in range(0, T + 1, EVERY):
            stated = bound[:, t].mean()
            rows.append(Row(seed, "log_error", exact[:, t].mean(), stated, t))
            # A trial that is solved to the last bit has no logarithm.
            at_least = rounded[:, t].clamp_min(-80).mean()
            rows.append(Row(seed, "log_error_rounded", at_least, stated, t))
            if t:
                rows.append(Row(seed, "gap", (bound - exact)[:, t].mean(), at=t))
    return setting_rows(rows, cell)


def claims(table: pd.DataFrame) -> Iterator[Measurement]:
    """Measure the claims for each n, and the gap of the largest n over that of the smallest."""
    by_size = {int(name.removeprefix("n=")): v for name, v in by_setting(table).items()}
    for n, v in sorted(by_size.items()):
        here = {"setting": f"n={n}"}
        yield measurement("8.14", STUDY, here, v("disagreement") / n)
        yield measurement("8.25", STUDY, here, v("error_excess"))
        yield measurement("8.16", STUDY, here, v("prediction_excess"))
        yield measurement("8-1-below", STUDY, here, v("rounded_excess"))
        if n in KAPPA:
            yield measurement("8-1-kappa", STUDY, here, np.log(v("kappa") / KAPPA[n]))
    least, most = by_size[min(by_size)], by_size[max(by_size)]
    for t in (10, 20, 50, 100, 200):
        if t in most.places("gap") and most is not least:
            yield measurement("8-1-gap", STUDY, {"t": t}, np.log(most("gap", t) / least("gap", t)))


def plot(tables: Mapping[str, pd.DataFrame]) -> Figure:
    """Plot error over loops with its bound, with the fewest and the most examples (Figure 8.1)."""
    (table,) = tables.values()
    table = table.assign(**table[["value", "stated"]] / math.log(10))
    sizes = settings_on(table, "n")
    shown = list(dict.fromkeys((min(sizes), max(sizes))))
    exact, rounded = of_quantity(table, "log_error"), of_quantity(table, "log_error_rounded")
    every = 2 * np.diff(sorted(set(rounded["at"]))).min(initial=1)
    rounded = rounded[rounded["at"] % every == 0]
    line, marks = STYLES[0].replace(marker=""), STYLES[2].without_line
    figure, axes = panels(1, len(shown), 3.0, NARROW, sharey=True)
    for ax, n in zip(axes[0], shown, strict=True):
        at_size = exact[exact["setting"] == sizes[n]]
        plot_lines(ax, at_size, "at", "value", line, band=True)
        plot_lines(ax, rounded[rounded["setting"] == sizes[n]], "at", "value", marks)
        plot_stated(ax, at_size)
        ax.set(xlabel="loops $t$", title=f"{n:g} examples", ylim=(-60, 2))
    ends, last = at_size.groupby("at")["value"].mean(), at_size["at"].max()
    left, right = axes[0, 0], axes[0, -1]
    far = ends[last] < left.get_ylim()[0]
    below = f"↓ $10^{{{ends[last]:.0f}}}$ at {last:g}" if far else ""
    for ax, x, y, name, look in (
        (left, 0.73, 0.82, "bound", {}),
        (right, 0.73, 0.58, "bound", {}),
        (left, 0.48, 0.4, "exact", {}),
        (right, 0.16, 0.16, "exact", {}),
        (left, 0.68, 0.61, "rounded", {"color": marks.colour}),
        (right, 0.43, 0.37, "rounded", {"color": marks.colour}),
        (right, 0.66, 0.03, below, {}),
    ):
        ax.text(x, y, name, transform=ax.transAxes, ha="center", va="center", **look)
    left.yaxis.set_major_formatter(lambda power, _: f"$10^{{{power:g}}}$")
    left.set_ylabel("squared error over that at the start")
    return titled(
        figure,
        "The error of the looped transformer, and its bound",
        f"{INTERVALS}, {seeds_of(table)}",
    )
