"""Result 2-8 on scikit-learn's digits (A.7.4): do the neurons of a two-layer network that tells 0
from 1 form two clusters?

Axes: n images, p = 64 pixels, m neurons.
"""

import math
from collections.abc import Iterator, Mapping

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float
from matplotlib.figure import Figure
from sklearn.cluster import KMeans
from sklearn.datasets import load_digits
from sklearn.metrics import silhouette_score
from torch import Tensor
from torch.nn import functional

from rarefeat.claims.measurements import Measurement, measurement
from rarefeat.errors import RarefeatError
from rarefeat.figures.labels import INTERVALS, seeds_of
from rarefeat.figures.panels import panels, plot_points, titled
from rarefeat.figures.style import GREY, NARROW, STYLES
from rarefeat.model.randomness import generator
from rarefeat.studies.theorems.plots import SHARE
from rarefeat.studies.theorems.problems import DigitProblem
from rarefeat.studies.theorems.results import (
    Row,
    by_setting,
    of_quantity,
    recorded_steps,
    result_schema,
    setting_rows,
    settings_on,
)

STUDY = "digit_neurons"
QUANTITIES = {
    "accuracy": "training accuracy after `at` steps",
    "clusters": "number of k-means clusters of the neurons' directions with the largest mean"
    " silhouette, of 2 to 8; stated: 2",
    "silhouette": "that silhouette",
    "aligned": "share of neurons with an absolute cosine above 0.9 to the difference of the class"
    " means",
    "median_cosine": "median of that absolute cosine",
}
SCHEMA = result_schema(STUDY, QUANTITIES)
OTHER = "scikit-learn's digits for MNIST; rate and size of the initial weights are not printed"
MOST_CLUSTERS = 8
RECORDED = 9
"""Steps at which neurons are recorded."""
CLEAR = 0.25
"""Silhouette below which clusters have no substantial structure (Kaufman & Rousseeuw 1990)."""


def images() -> tuple[Float[Tensor, "n p"], Float[Tensor, " n"]]:
    """Return zeros and ones, pixels less their mean image, of mean norm 1, and labels -1 and 1."""
    bunch = load_digits(n_class=2)
    x = torch.from_numpy(bunch.data).float()
    x = x - x.mean(0)
    return x / x.norm(dim=1).mean(), torch.from_numpy(bunch.target).float() * 2 - 1


def scores(
    w: Float[Tensor, "m p"], b: Float[Tensor, " m"], a: Float[Tensor, " m"], x: Float[Tensor, "n p"]
) -> Float[Tensor, " n"]:
    """Return g(x) = sum of a_i min(1, max(<w_i, x> + b_i, 0)) (section 2.3)."""
    return (x @ w.T + b).clamp(0, 1) @ a


def trained(
    problem: DigitProblem, sigma: float, x: Float[Tensor, "n p"], y: Float[Tensor, " n"],
    stream: torch.Generator,
) -> list[tuple[int, Float[Tensor, "m p"], float]]:  # fmt: skip
    """Train by SGD with momentum on the hinge loss; return recorded steps, neurons and accuracy."""
    m, d = problem.m, x.shape[1]
    w = sigma * torch.randn(m, d, generator=stream) / math.sqrt(d)
    b, a = torch.zeros(m), sigma * torch.randn(m, generator=stream) / math.sqrt(m)
    parameters = [weights.requires_grad_() for weights in (w, b, a)]
    optimiser = torch.optim.SGD(parameters, lr=problem.lr, momentum=problem.momentum)
    recorded, history = recorded_steps(problem.steps, RECORDED), []
    for step in range(problem.steps + 1):
        if step in recorded:
            with torch.no_grad():
                right = float((scores(w, b, a, x) * y > 0).double().mean())
            history.append((step, w.detach().clone(), right))
        rows = torch.randint(len(x), (problem.batch,), generator=stream)
        optimiser.zero_grad()
        functional.relu(1 - y[rows] * scores(w, b, a, x[rows])).mean().backward()
        optimiser.step()
    if not w.isfinite().all():
        raise RarefeatError(
            "training on the digits diverged: the weights are no longer finite; lower lr"
        )
    return history


def clusters(w: Float[Tensor, "m p"], seed: int) -> tuple[int, float]:
    """Return the number of k-means clusters of the neurons' directions with the largest mean
    silhouette, and that silhouette.
    """
    direction = functional.normalize(w, dim=1).double().numpy()
    silhouettes = {}
    for number in range(2, min(MOST_CLUSTERS, len(w) - 1) + 1):
        assigned = KMeans(number, n_init=4, random_state=seed).fit_predict(direction)
        several = len(np.unique(assigned)) > 1
        silhouettes[number] = silhouette_score(direction, assigned) if several else -1.0
    best = max(silhouettes, key=silhouettes.get)
    return best, float(silhouettes[best])


def measure(cell: dict, seeds: list[int], problem: DigitProblem) -> list[dict]:
    """Measure clusters of each seed's neurons, and their cosines to the difference of the class
    means.
    """
    x, y = images()
    between = functional.normalize(x[y > 0].mean(0) - x[y < 0].mean(0), dim=0)
    rows = []
    for seed in seeds:
        stream = generator(STUDY, seed, "network")
        for step, w, right in trained(problem, cell["sigma"], x, y, stream):
            number, silhouette = clusters(w, seed)
            cosine = functional.cosine_similarity(w, between, dim=1).abs()
            rows += [
                Row(seed, "accuracy", right, at=step),
                Row(seed, "clusters", number, 2.0, step),
                Row(seed, "silhouette", silhouette, at=step),
                Row(seed, "aligned", (cosine > 0.9).double().mean(), at=step),
                Row(seed, "median_cosine", cosine.median(), at=step),
            ]
    return setting_rows(rows, cell)


def claims(table: pd.DataFrame) -> Iterator[Measurement]:
    """Measure the claims at the end of training, that on the silhouette before it, too."""
    for setting, v in by_setting(table).items():
        here = {"setting": setting}
        before = {**here, "when": "before training"}
        yield measurement("2-8-two", STUDY, here, v("clusters"), remark=OTHER)
        yield measurement("2-8-clear", STUDY, here, v("silhouette"), remark=OTHER)
        yield measurement("2-8-clear", STUDY, before, v("silhouette", 0.0), remark=OTHER)


def plot(tables: Mapping[str, pd.DataFrame]) -> Figure:
    """Plot how clear the clusters of neurons are after training, by initial size."""
    (table,) = tables.values()
    sizes = settings_on(table, "sigma")
    names = {setting: f"{sigma:g} / 8" for sigma, setting in sizes.items()}
    rows = of_quantity(table[table["at"] == table["at"].max()], "silhouette")
    rows, order = rows.assign(place=rows["setting"].map(names)), list(names.values())
    figure, ((ax,),) = panels(height=1.2 + 0.22 * max(len(names), 2), width=NARROW)
    plot_points(ax, rows, "value", "place", STYLES[0], bounds=SHARE, order=order, horizontal=True)
    ax.axvline(CLEAR, color=GREY, lw=0.7, zorder=0)
    note = {"transform": ax.get_xaxis_transform(), "ha": "right", "va": "bottom"}
    ax.text(CLEAR, 1, "no substantial \nstructure ", **note)
    ax.set(xlim=(-0.02, 1.02), xlabel="silhouette", ylabel="s.d. of the\ninitial weights")
    return titled(
        figure,
        "Silhouette of the clusters of neurons on digits",
        f"after {table['at'].max():g} steps; {INTERVALS}, {seeds_of(table)}",
    )
