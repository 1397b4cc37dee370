"""Metrics of a trained network: accuracies, cosines and rare patterns.

Here are also the scores that choose sub-networks.
"""

import math
from typing import Literal

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from rarefeat.studies.two_layer import theory
from rarefeat.studies.two_layer.config import Problem
from rarefeat.studies.two_layer.data import LabelledPatterns, labels_of
from rarefeat.studies.two_layer.reduced_training import TwoLayerNetwork, frozen_features

Score = Literal["random", "kink", "norm", "effective_rate"]
SCORES: tuple[Score, ...] = ("random", "kink", "norm", "effective_rate")
RANDOM_SCORES: tuple[Score, ...] = ("random", "kink")
"""Scores that leave something to chance."""
NEAR = 0.95
"""Cosine to a target from which on the pictures mark a neuron."""


def accuracy(g: Tensor, y: Tensor) -> float:
    """Return the fraction of samples with the right sign; g = 0 counts as class -1."""
    return float(((g > 0) == (y > 0)).double().mean())


def cosines(neurons: TwoLayerNetwork, relevant: Tensor) -> Tensor:
    """Return cos(w_i, sum_{j in A} M_j), (N,); NaN where w_i = 0."""
    norm = neurons.norm()
    return torch.where(
        norm > 0, neurons.w[:, relevant].sum(1) / (math.sqrt(len(relevant)) * norm), torch.nan
    )


def largest_cosine(neurons: TwoLayerNetwork, relevant: Tensor) -> float:
    """Return the largest cosine to sum_{j in A} M_j over neurons with w_i != 0 (A.7.1); NaN if
    there is none.
    """
    values = cosines(neurons, relevant)
    values = values[values.isfinite()]
    return float(values.max()) if len(values) else math.nan


def similarities(neurons: TwoLayerNetwork, targets: Tensor) -> Tensor:
    """Return cosines among the neurons with w_i != 0 and targets in the dictionary's span.

    Targets have shape (r, D), the cosines (N' + r, N' + r).
    """
    live = neurons.select(neurons.norm() > 0)
    rows = torch.cat(
        [
            torch.cat([live.w, live.outside], 1),
            torch.nn.functional.pad(targets, (0, live.outside.shape[1])),
        ]
    )
    rows = torch.nn.functional.normalize(rows.double(), dim=1)
    return (rows @ rows.T).clamp(-1, 1)


def embedding(cosines: Tensor) -> Tensor:
    """Embed a cosine matrix in the plane by multidimensional scaling, (N, N) -> (N, 2).

    Classical scaling of squared distances 2 - 2 cos is unique up to reflections, which are fixed by
    the last target lying to the right and above.
    """
    squared = 2 - 2 * cosines.double()
    centred = squared - squared.mean(0) - squared.mean(1, keepdim=True) + squared.mean()
    values, vectors = torch.linalg.eigh(-centred / 2)
    plane = vectors[:, [-1, -2]] * values[[-1, -2]].clamp(min=0).sqrt()
    return plane * torch.where(plane[-1] < 0, -1.0, 1.0)


def picture(states: dict[int, TwoLayerNetwork], targets: Tensor, kinds: list[str]) -> pd.DataFrame:
    """Embed the neurons at some steps in the plane.

    targets (r, D).
    """
    last = states[max(states)]
    size = last.norm()
    unit = last.w / size.clamp(min=1e-30)[:, None]
    near = (unit @ torch.nn.functional.normalize(targets, dim=1).T).amax(1) > NEAR
    tables = []
    for step, neurons in sorted(states.items()):
        plane = embedding(similarities(neurons, targets))
        live = neurons.norm() > 0
        points = pd.DataFrame({"x": plane[:, 0], "y": plane[:, 1]})
        points["kind"] = ["neuron"] * int(live.sum()) + kinds
        points["near"] = [*near[live].int().tolist(), *[0] * len(kinds)]
        tables.append(points.assign(step=step, point=range(len(points))))
    return pd.concat(tables, ignore_index=True)[["step", "point", "kind", "near", "x", "y"]]


def live_share(neurons: TwoLayerNetwork, x: Tensor) -> float:
    """Return the fraction of neurons whose output differs between some inputs (n, D)."""
    h = frozen_features(neurons, x)
    return float((h.amax(0) > h.amin(0)).double().mean())


def rare_ratio(neurons: TwoLayerNetwork, relevant: Tensor, frequency: list[float]) -> float:
    """Compute the weight of the rarest relevant pattern over that of the most frequent ones.

    It is the least-squares slope over neurons: sum_i w_ir w_ic / sum_i w_ic^2, with w_ic the mean
    over the most frequent patterns.

    relevant (k,).
    """
    often = torch.tensor(frequency)
    rarest = neurons.w[:, relevant[often.argmin()]].double()
    common = neurons.w[:, relevant[often == often.max()]].double().mean(1)
    size = common.square().sum()
    return float((rarest * common).sum() / size) if size > 0 else math.nan


def decisive(sample: LabelledPatterns, problem: Problem, relevant: Tensor) -> Tensor:
    """Return which samples hold the rarest relevant pattern and would change class without it.

    relevant (k,) -> (n,).
    """
    rarest = relevant[torch.tensor(problem.frequency).argmin()]
    without = sample.patterns.clone()
    without[:, rarest] = 0
    return (sample.patterns[:, rarest] > 0) & (
        labels_of(without[:, relevant], problem) != sample.labels
    )


def kinks(neurons: TwoLayerNetwork, x: Tensor, count: Tensor) -> Tensor:
    """Return the pattern count at which each neuron's pre-activation crosses 0.

    x (n, D), count (n,) -> (N,).
    """
    slope, at_0 = lines(neurons, x, count)
    return torch.where(slope != 0, -at_0 / slope, torch.nan)


def lines(neurons: TwoLayerNetwork, x: Tensor, count: Tensor) -> tuple[Tensor, Tensor]:
    """Fit each neuron's pre-activation by a least-squares line in the pattern count.

    x (n, D), count (n,).
    """
    centred = count - count.mean()
    z = x @ neurons.w.T + neurons.b
    slope = centred @ z / centred.square().sum()
    return slope, z.mean(0) - slope * count.mean()


def head_kernel(
    neurons: TwoLayerNetwork, x: Tensor, count: Tensor, problem: Problem
) -> list[float]:
    """Return the eigenvalues of the head's kernel on the counts 0 to k of a parity.

    They set the pace at which plain gradient descent on the head learns the stairs
    (theory.count_kernel).

    x (n, D), count (n,).
    """
    slope, at_0 = (values.double().numpy() for values in lines(neurons, x, count))
    probability, _ = theory.parity_counts(problem.k, problem.p_o, problem.negatives or 0.5)
    return theory.count_kernel(slope, at_0, np.arange(problem.k + 1), probability).tolist()


def ticket(
    neurons: TwoLayerNetwork,
    score: Score,
    size: int,
    x: Tensor,
    count: Tensor,
    k: int,
    random: torch.Generator,
) -> Tensor:
    """Choose neurons of the step-2 network by a score.

    x (n, D), count (n,) -> (size,).
    """
    order = torch.randperm(len(neurons.b), generator=random)
    if score == "random":
        return order[:size]
    if score == "norm":
        return neurons.norm().argsort(descending=True, stable=True)[:size]
    if score == "effective_rate":
        h = frozen_features(neurons, x).double()
        fourth = h.pow(4).mean(0)
        rate = torch.where(fourth > 0, h.square().mean(0).square() / fourth.clamp(min=1e-300), 0.0)
        return rate.argsort(descending=True, stable=True)[:size]
    crossing = kinks(neurons, x, count)[order]
    inside = (crossing > 0) & (crossing < k)
    return torch.cat([order[inside], order[~inside]])[:size]


def coverage(neurons: TwoLayerNetwork, centres: Tensor) -> Tensor:
    """Return the largest cosine of a neuron to each centre, (r, D) -> (r,).

    Neurons with w_i = 0 are left out; NaN if there is no other.
    """
    norm = neurons.norm()
    live = norm > 0
    if not live.any():
        return torch.full((len(centres),), torch.nan)
    unit = torch.nn.functional.normalize(centres, dim=1)
    return (neurons.w[live] / norm[live, None] @ unit.T).amax(0)
