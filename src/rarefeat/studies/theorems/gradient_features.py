"""Chapter 3 of Shi's dissertation: Theorems 3.12, 3.18, 3.22 and B.42, features from a gradient.

A two-layer network learns mixtures of Gaussians with labels as XOR, or the sign of a sum of
parities, by Algorithm 1. Axes: n samples, d coordinates, h = 4 m neurons, r features D_j.
"""

import math
from typing import NamedTuple

import pandas as pd
import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

from rarefeat.model.randomness import generator
from rarefeat.studies.theorems.problems import Gaussians, GradientFeatures, TwoLayerTraining
from rarefeat.studies.theorems.results import Numbers, Row

QUANTITIES = {
    "cosine_start": "largest cosine of an initial neuron to the feature that is met worst",
    "cosine_first": "the same after the first step; stated: 1",
    "error": "error on fresh samples after the last step; stated: 0",
    "loss": "hinge loss there",
    "error_frozen": "error of the least squares on the initial neurons",
    "stated_loss": "hinge loss of the network g* of Lemmas 3.17 and 3.21; stated: 0",
}
OTHER_LAW = {
    "three": {"3.17", "3.18", "B.42", "3.18-frozen"},
    "separated": {"3.21", "3.22", "3.22-frozen", "B.42"},
    "noisy": {"3.21", "3.22", "3.22-frozen", "3.18", "3.17"},
}
"""Claims that do not speak of a law of the data."""
TEST = 20_000
"""Fresh samples that an error is a mean over."""


X, Y, Scalar = Float[Tensor, "n d"], Float[Tensor, " n"], Float[Tensor, ""]


class Network(NamedTuple):
    """A two-layer network (3.1), whose biases are not trained."""

    a: Float[Tensor, " h"]
    W: Float[Tensor, "h d"]
    b: Float[Tensor, " h"]

    def hidden(self, x: X) -> Float[Tensor, "n h"]:
        """Return the neurons' outputs."""
        return (x @ self.W.mT - self.b).relu()


def features(law: TwoLayerTraining) -> Float[Tensor, "r d"]:
    """Return the unit features D_j of a law."""
    if isinstance(law, Gaussians):
        axes = torch.eye(2, law.d)
        return torch.cat([axes[:1], -axes[:1], axes[1:], -axes[1:]])
    D = torch.zeros(law.r, law.d)
    for j in range(law.r):
        D[j, j * law.k : (j + 1) * law.k] = law.k**-0.5
    return D


def draw_samples(law: TwoLayerTraining, count: int, stream: torch.Generator) -> tuple[X, Y]:
    """Draw samples of a law and their labels."""
    if isinstance(law, Gaussians):
        cluster = torch.randint(4, (count,), generator=stream)
        noise = law.sigma * torch.randn(count, law.d, generator=stream)
        return noise + math.sqrt(law.d) * features(law)[cluster], 1.0 - 2 * (cluster >= 2)
    signs = 2.0 * torch.randint(2, (count, law.r, law.k), generator=stream) - 1
    kind = (torch.rand(count, generator=stream) / law.p_A).long()
    which = functional.one_hot((kind // 2).clamp(max=law.r - 1), law.r)
    one = which * (1.0 - 2 * (kind % 2))[:, None]
    signs = torch.where((kind < 2 * law.r)[:, None, None], one[..., None], signs)
    uniform = torch.rand(count, law.d - law.r * law.k, generator=stream)
    others = (uniform < law.p_o).float() - (uniform > 1 - law.p_o).float()
    return torch.cat([signs.flatten(1), others], 1), signs.prod(2).sum(1).sign()


def initial_network(law: TwoLayerTraining, stream: torch.Generator) -> Network:
    """Return the symmetric network (3.9), whose output is 0."""
    W = law.sigma_w * torch.randn(law.m, law.d, generator=stream)
    a = law.sigma_a * torch.randn(law.m, generator=stream)
    b = torch.full((law.m,), law.b * law.sigma_w)
    a, W, b = torch.cat([a, -a]), torch.cat([W, -W]), torch.cat([b, -b])
    return Network(torch.cat([a, -a]), torch.cat([W, W]), torch.cat([b, b]))


def descend(network: Network, x: X, y: Y, rate: float, decay: float) -> Network:
    """Return the network after a step on the hinge loss of a batch."""
    hidden = network.hidden(x)
    slope = -y * (y * (hidden @ network.a) < 1) / len(y)
    gradient_W = ((hidden > 0) * slope[:, None]).mT @ x * network.a[:, None]
    shrink = 1 - rate * decay
    return network._replace(
        a=shrink * network.a - rate * (hidden.mT @ slope), W=shrink * network.W - rate * gradient_W
    )


def least_cosine(network: Network, D: Float[Tensor, "r d"]) -> Scalar:
    """Return the largest cosine of a neuron to the feature that is met worst."""
    return (functional.normalize(network.W, dim=1) @ D.mT).amax(0).min()


def frozen_error(
    network: Network, law: TwoLayerTraining, test: tuple[X, Y], stream: torch.Generator
) -> Scalar:
    """Return the error of the least squares on the initial neurons, the first layer frozen."""
    x, y = draw_samples(law, law.first_batch, stream)
    # The second half of the neurons repeats the first.
    H, tested = (network.hidden(values)[:, : 2 * law.m] for values in (x, test[0]))
    gram = H.mT @ H
    gram += 1e-3 * gram.diagonal().mean() * torch.eye(len(gram))
    return (tested @ torch.linalg.solve(gram, H.mT @ y) * test[1] <= 0).float().mean()


def stated_loss(law: TwoLayerTraining, x: X, y: Y) -> Scalar:
    """Return the hinge loss of the network g* of Lemmas 3.17 (tau = 8) and 3.21."""
    along = x @ features(law).mT
    if isinstance(law, Gaussians):
        scale = math.sqrt(8 * math.log(law.d)) * max(law.sigma, 1.0)
        output = (along - 2 * scale).relu() @ torch.tensor([1.0, 1.0, -1.0, -1.0]) / scale
    else:
        root, output = math.sqrt(law.k), 0.0
        for i in range(law.k + 1):
            tent = sum(
                weight * (along - (2 * i - law.k + shift) / root).relu()
                for weight, shift in ((1, -1), (-2, 0), (1, 1))
            )
            output = output + (-1) ** (i + 1) * root * tent.sum(1)
    return (1 - y * output).relu().mean()


def measure(point: str, seeds: list[int], draws: str, problem: GradientFeatures) -> list[Row]:
    """Train by Algorithm 1 on a law, and measure features and errors."""
    law, rows = problem.laws()[point], []
    D = features(law)
    for seed in seeds:
        stream = generator(draws, seed, point)
        start = initial_network(law, stream)
        x, y = draw_samples(law, law.first_batch, stream)
        # lambda = 1 / eta in the first step, so that only the gradient is left.
        first = network = descend(start, x, y, law.first_rate, 1 / law.first_rate)
        for step in range(law.steps):
            rate = law.rate * (1 - step / law.steps)
            network = descend(network, *draw_samples(law, law.batch, stream), rate, 0.0)
        test = draw_samples(law, TEST, stream)
        output = network.hidden(test[0]) @ network.a
        rows += [
            Row(seed, "cosine_start", least_cosine(start, D)),
            Row(seed, "cosine_first", least_cosine(first, D), 1.0),
            Row(seed, "error", (output * test[1] <= 0).float().mean(), 0.0),
            Row(seed, "loss", (1 - output * test[1]).relu().mean()),
            Row(seed, "error_frozen", frozen_error(start, law, test, stream)),
            Row(seed, "stated_loss", stated_loss(law, *test), 0.0),
        ]
    return rows


def claims(v: Numbers) -> dict[str, pd.Series]:
    """Return what the claims look at, on a law of the data."""
    gain = v("error_frozen") - v("error")
    return {
        "3.13": v("cosine_first"),
        "3.13-start": v("cosine_first") - v("cosine_start"),
        "3.12": v("loss") - v("stated_loss"),
        "3.17": v("stated_loss"),
        "3.18": v("error"),
        "B.42": v("error"),
        "3.18-frozen": gain,
        "3.21": v("stated_loss"),
        "3.22": v("error"),
        "3.22-frozen": gain,
    }
