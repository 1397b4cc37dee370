"""Metrics of a network: accuracies, cosines, rare patterns, and scores that choose sub-networks.

Axes: n samples, N neurons, D patterns, of which k are relevant, r directions.
"""

import math

import numpy as np
import pandas as pd
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn.functional import normalize, pad

from rarefeat.studies.two_layer import theory
from rarefeat.studies.two_layer.config import Problem
from rarefeat.studies.two_layer.data import LabelledPatterns, labels_of
from rarefeat.studies.two_layer.reduced_training import (
    Inputs,
    TwoLayerNetwork,
    Values,
    frozen_features,
)

Relevant = Int[Tensor, " k"]
"""Numbers of the relevant patterns."""
SCORES = ("random", "kink", "norm", "effective_rate")
RANDOM_SCORES = ("random", "kink")
"""Scores that leave something to chance."""
NEAR = 0.95
"""Cosine to a target from which on the pictures mark a neuron."""


def accuracy(g: Values, y: Values) -> float:
    """Return the fraction of samples with the right sign; g = 0 counts as class -1."""
    return float(((g > 0) == (y > 0)).double().mean())


def hinge_loss(g: Values, y: Values) -> float:
    """Return the mean of max(1 - y g, 0)."""
    return float((1 - y * g).clamp(min=0).mean())


def cosines(neurons: TwoLayerNetwork, relevant: Relevant) -> Float[Tensor, " N"]:
    """Return cos(w_i, sum_{j in A} M_j); NaN where w_i = 0."""
    norm = neurons.norm()
    along = neurons.w[:, relevant].sum(1) / (math.sqrt(len(relevant)) * norm)
    return torch.where(norm > 0, along, torch.nan)


def largest_cosine(neurons: TwoLayerNetwork, relevant: Relevant) -> float:
    """Return the largest of these cosines over neurons with w_i != 0 (A.7.1); NaN without any."""
    values = cosines(neurons, relevant)
    values = values[values.isfinite()]
    return float(values.max()) if len(values) else math.nan


def similarities(neurons: TwoLayerNetwork, targets: Float[Tensor, "r D"]) -> Float[Tensor, "M M"]:
    """Return cosines among the neurons with w_i != 0 and targets in the dictionary's span."""
    live = neurons.select(neurons.norm() > 0)
    rows = torch.cat(
        [torch.cat([live.w, live.outside], 1), pad(targets, (0, live.outside.shape[1]))]
    )
    rows = normalize(rows.double(), dim=1)
    return (rows @ rows.T).clamp(-1, 1)


def embedding(cosines: Float[Tensor, "M M"]) -> Float[Tensor, "M 2"]:
    """Embed cosines in the plane by classical scaling, with the last target up and right."""
    squared = 2 - 2 * cosines.double()
    centred = squared - squared.mean(0) - squared.mean(1, keepdim=True) + squared.mean()
    values, vectors = torch.linalg.eigh(-centred / 2)
    plane = vectors[:, [-1, -2]] * values[[-1, -2]].clamp(min=0).sqrt()
    return plane * torch.where(plane[-1] < 0, -1.0, 1.0)


def picture(
    states: dict[int, TwoLayerNetwork], targets: Float[Tensor, "r D"], kinds: list[str]
) -> pd.DataFrame:
    """Embed the neurons at some steps in the plane, with targets and the kind of each."""
    last = states[max(states)]
    unit = last.w / last.norm().clamp(min=1e-30)[:, None]
    near = (unit @ normalize(targets, dim=1).T).amax(1) > NEAR
    tables = []
    for step, neurons in states.items():
        x, y = embedding(similarities(neurons, targets)).T
        marked = near[neurons.norm() > 0].int().tolist()
        of_points = {"kind": ["neuron"] * len(marked) + kinds, "near": marked + [0] * len(kinds)}
        tables.append(
            pd.DataFrame({"step": step, "point": range(len(x)), **of_points, "x": x, "y": y})
        )
    return pd.concat(tables, ignore_index=True)


def live_share(neurons: TwoLayerNetwork, x: Inputs) -> float:
    """Return the fraction of neurons whose output differs between some inputs."""
    h = frozen_features(neurons, x)
    return float((h.amax(0) > h.amin(0)).double().mean())


def rare_ratio(neurons: TwoLayerNetwork, relevant: Relevant, frequency: list[float]) -> float:
    """Return the slope over neurons of the rarest pattern's weight in the most frequent ones'."""
    often = torch.tensor(frequency)
    rarest = neurons.w[:, relevant[often.argmin()]].double()
    common = neurons.w[:, relevant[often == often.max()]].double().mean(1)
    size = common.square().sum()
    return float((rarest * common).sum() / size) if size > 0 else math.nan


def decisive(sample: LabelledPatterns, problem: Problem, relevant: Relevant) -> Bool[Tensor, " n"]:
    """Return which samples hold the rarest relevant pattern and would change class without it."""
    rarest = torch.tensor(problem.frequency).argmin()
    present = sample.patterns[:, relevant]
    without = present.clone()
    without[:, rarest] = 0
    return (present[:, rarest] > 0) & (labels_of(without, problem) != sample.labels)


def lines(
    neurons: TwoLayerNetwork, x: Inputs, count: Values
) -> tuple[Float[Tensor, " N"], Float[Tensor, " N"]]:
    """Return slope and value at 0 of each neuron's pre-activation, a line in the pattern count."""
    centred = count - count.mean()
    z = x @ neurons.w.T + neurons.b
    slope = centred @ z / centred.square().sum()
    return slope, z.mean(0) - slope * count.mean()


def kinks(neurons: TwoLayerNetwork, x: Inputs, count: Values) -> Float[Tensor, " N"]:
    """Return the pattern count at which each neuron's pre-activation crosses 0."""
    slope, at_0 = lines(neurons, x, count)
    return torch.where(slope != 0, -at_0 / slope, torch.nan)


def head_kernel(
    neurons: TwoLayerNetwork, x: Inputs, count: Values, problem: Problem
) -> list[float]:
    """Return the eigenvalues of the head's kernel on a parity's counts (theory.count_kernel)."""
    slope, at_0 = (values.double().numpy() for values in lines(neurons, x, count))
    probability, _ = theory.parity_counts(problem.k, problem.p_o, problem.negatives or 0.5)
    return theory.count_kernel(slope, at_0, np.arange(problem.k + 1), probability).tolist()


def ticket(
    neurons: TwoLayerNetwork, score: str, size: int, x: Inputs, count: Values, k: int,
    random: torch.Generator,
) -> Int[Tensor, " size"]:  # fmt: skip
    """Choose neurons of the step-2 network by a score."""
    order = torch.randperm(len(neurons.b), generator=random)
    if score == "norm":
        order = neurons.norm().argsort(descending=True, stable=True)
    if score == "effective_rate":
        h = frozen_features(neurons, x).double()
        fourth = h.pow(4).mean(0)
        rate = torch.where(fourth > 0, h.square().mean(0).square() / fourth.clamp(min=1e-300), 0.0)
        order = rate.argsort(descending=True, stable=True)
    if score == "kink":
        crossing = kinks(neurons, x, count)[order]
        inside = (crossing > 0) & (crossing < k)
        order = torch.cat([order[inside], order[~inside]])
    return order[:size]


def coverage(neurons: TwoLayerNetwork, centres: Float[Tensor, "r D"]) -> Float[Tensor, " r"]:
    """Return the largest cosine of a neuron with w_i != 0 to each centre; NaN without any."""
    norm = neurons.norm()
    live = norm > 0
    if not live.any():
        return torch.full((len(centres),), torch.nan)
    return (neurons.w[live] / norm[live, None] @ normalize(centres, dim=1).T).amax(0)
