"""The direct simulator: every patch in R^d and every neuron (eq. 2, 14-18)."""

import math
from collections.abc import Iterable
from typing import NamedTuple

import torch
from torch import Tensor

from rarefeat.core.errors import RarefeatError
from rarefeat.studies.fine_labels.config import Detectors, EasyData, Learner
from rarefeat.studies.fine_labels.objective import cross_entropy, fine_tuning
from rarefeat.studies.fine_labels.scalar_simulator import DIVERGED, DetectorState

SIFT = 5
"""Steps between two looks at which neurons can still be switched on."""


class Network(NamedTuple):
    """One replica: n neurons, each of one class."""

    weights: Tensor
    """w, (n, d)."""
    bias: Tensor
    """b, (n,)."""
    owner: Tensor
    """The class a neuron belongs to, (n,)."""
    classes: int
    """G."""

    def part(self, kept: Tensor) -> "Network":
        """Those neurons alone, bool (n,)."""
        return Network(self.weights[kept], self.bias[kept], self.owner[kept], self.classes)


class StepDiagnostics(NamedTuple):
    """What a step shows that the scalar simulator takes for granted (Theorem F.1; Q7)."""

    loss: Tensor
    on_noise: Tensor
    """Activations of a neuron on a noise patch."""


def initialise(
    classes: int, d: int, detectors: Detectors, sigma_0: float, generator: torch.Generator
) -> Network:
    """w(0) ~ N(0, sigma_0^2 I_d), b(0) = -threshold sigma_0, m neurons a class."""
    n = classes * detectors.m
    weights = sigma_0 * torch.randn(n, d, generator=generator)
    owner = torch.arange(classes).repeat_interleave(detectors.m)
    return Network(weights, torch.full((n,), -detectors.threshold * sigma_0), owner, classes)


def can_activate(network: Network, data: EasyData) -> Tensor:
    """Neurons that some patch could switch on, (n,): the others answer no easy sample and so never move again.

    Feature patches have amplitudes up to sqrt(1 + iota); of the noise along w, eight standard deviations are allowed for, which
    a patch and neuron in 10^15 exceeds.
    """
    most = math.sqrt(1 + data.iota) * network.weights[:, : data.features].amax(-1)
    return most + 8 * data.sigma_zeta * network.weights.norm(dim=-1) > -network.bias


def answers(network: Network, x: Tensor) -> Tensor:
    """ReLU(<w_r, x_p> + b_r), (n, P, d) samples -> (n, P, neurons)."""
    return torch.relu(x @ network.weights.T + network.bias)


def scores(network: Network, answers: Tensor) -> Tensor:
    """F_c(X), the sum over patches and over the neurons of c (eq. 14 with a = 1): (n, P, neurons) -> (n, G)."""
    summed = answers.sum(1)
    return summed.new_zeros(len(summed), network.classes).index_add_(1, network.owner, summed)


def step(
    network: Network,
    learner: Learner,
    x: Tensor,
    classes: Tensor,
    noise: Tensor,
    tune: Tensor | None = None,
) -> tuple[Network, StepDiagnostics]:
    """One update (16) and (18).

    Args:
        x: (N, P, d). classes: (N,), or where tune, the superclass. noise: bool (N, P), patches without a feature.
        tune: fine-tune by the maximum rule; the superclass of each class, (G,).
    """
    N, P = x.shape[:2]
    answer = answers(network, x)
    F = scores(network, answer)[None]
    loss, pull = (
        cross_entropy(F, classes[None]) if tune is None else fine_tuning(F, classes[None], tune)
    )
    active = answer > 0
    coefficient = (active * pull[0][:, None, network.owner]).flatten(0, 1)
    moved = learner.eta / (N * P) * (coefficient.T @ x.flatten(0, 1))
    after = network._replace(
        weights=network.weights + moved, bias=network.bias - moved.norm(dim=-1) / learner.kappa_b
    )
    return after, StepDiagnostics(loss[0], active[noise].sum())


def train(
    network: Network,
    data: EasyData,
    learner: Learner,
    batches: Iterable[tuple[Tensor, Tensor, Tensor]],
    tune: Tensor | None = None,
) -> tuple[Network, StepDiagnostics]:
    """Train on every batch in turn, (x, classes, noise) as of `step`; what was observed, stacked over the steps.

    Neurons that are not `can_activate` rest where they are, and are left out of the products.

    Raises:
        RarefeatError: the responses are no longer finite.
    """
    seen = []
    for t, (x, classes, noise) in enumerate(batches):
        if t % SIFT == 0:
            kept = can_activate(network, data)
        moving, observed = step(network.part(kept), learner, x, classes, noise, tune)
        network = network._replace(
            weights=network.weights.masked_scatter(kept[:, None], moving.weights),
            bias=network.bias.masked_scatter(kept, moving.bias),
        )
        if not observed.loss.isfinite():
            raise RarefeatError(DIVERGED)
        seen.append(observed)
    return network, StepDiagnostics(*(torch.stack(column) for column in zip(*seen, strict=True)))


def summary(initial: Network, trained: Network, data: EasyData) -> DetectorState:
    """The scalar simulator's state of a network (S = 1): of each class and feature, means over the detectors S(v) at t = 0."""
    features = data.features
    threshold = -initial.bias[0].item()
    start = initial.weights[:, :features].double()
    member = (math.sqrt(1 + data.iota) * start > threshold).double()
    moved = trained.weights[:, :features].double() - start
    fallen = (initial.bias.double() - trained.bias.double())[:, None].expand_as(moved)

    def total(values: Tensor) -> Tensor:
        return values.new_zeros(initial.classes, features).index_add_(
            0, initial.owner, values * member
        )

    number = total(torch.ones_like(start))
    mean = (total(part)[None] / number.clamp(min=1) for part in (start - threshold, moved, fallen))
    return DetectorState(number[None], *mean, threshold)
