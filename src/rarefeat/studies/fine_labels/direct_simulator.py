"""Direct simulator of Hong et al.: every patch in R^d and every neuron.

hong_fine_grained_labels, eq. (2), (14)-(18).
"""

import math
from collections.abc import Iterable
from typing import NamedTuple

import torch
from torch import Tensor

from rarefeat.errors import RarefeatError
from rarefeat.studies.fine_labels.config import Detectors, EasyData, Learner
from rarefeat.studies.fine_labels.objective import cross_entropy, fine_tuning
from rarefeat.studies.fine_labels.scalar_simulator import DIVERGED, DetectorState

SELECT_STEPS = 5
"""Steps between two selections of the neurons that can be active."""


class Network(NamedTuple):
    """Network of one replica: n neurons, each of one class."""

    weights: Tensor
    """w, (n, d)."""
    bias: Tensor
    """b, (n,)."""
    owner: Tensor
    """Class of each neuron, (n,)."""
    classes: int
    """G."""

    def select(self, neurons: Tensor) -> "Network":
        """Return the network of some neurons alone, bool (n,)."""
        return Network(self.weights[neurons], self.bias[neurons], self.owner[neurons], self.classes)


class StepDiagnostics(NamedTuple):
    """Diagnostics of a step that the scalar simulator takes for granted (Theorem F.1; Q7)."""

    loss: Tensor
    """Loss of the batch (nat)."""
    on_noise: Tensor
    """Number of activations of a neuron on a noise patch."""


def initialise(
    classes: int, d: int, detectors: Detectors, sigma_0: float, generator: torch.Generator
) -> Network:
    """Draw w(0) ~ N(0, sigma_0^2 I_d), with b(0) = -threshold sigma_0."""
    n = classes * detectors.m
    weights = sigma_0 * torch.randn(n, d, generator=generator)
    owner = torch.arange(classes).repeat_interleave(detectors.m)
    return Network(weights, torch.full((n,), -detectors.threshold * sigma_0), owner, classes)


def can_activate(network: Network, data: EasyData) -> Tensor:
    """Return whether some patch can activate each neuron, (n,).

    The others are active on no easy sample, and hence never change. Feature patches have amplitudes
    up to sqrt(1 + iota). Of the noise along w, eight standard deviations are allowed for; one patch
    and neuron in 10^15 exceeds them.
    """
    largest = math.sqrt(1 + data.iota) * network.weights[:, : data.features].amax(-1)
    return largest + 8 * data.sigma_zeta * network.weights.norm(dim=-1) > -network.bias


def activations(network: Network, x: Tensor) -> Tensor:
    """Compute ReLU(<w_r, x_p> + b_r), samples (n, P, d) -> (n, P, neurons)."""
    return torch.relu(x @ network.weights.T + network.bias)


def scores(network: Network, activations: Tensor) -> Tensor:
    """Compute F_c(X) of eq. (14) with a = 1, the sum over patches and neurons of c, (n, P, neurons)
    -> (n, G).
    """
    summed = activations.sum(1)
    return summed.new_zeros(len(summed), network.classes).index_add_(1, network.owner, summed)


def step(
    network: Network,
    learner: Learner,
    x: Tensor,
    classes: Tensor,
    noise: Tensor,
    tune: Tensor | None = None,
) -> tuple[Network, StepDiagnostics]:
    """Take one step, eq. (16) and (18).

    x (N, P, d), classes (N,), noise (N, P), tune (G,).
    """
    N, P = x.shape[:2]
    outputs = activations(network, x)
    F = scores(network, outputs)[None]
    loss, descent = (
        cross_entropy(F, classes[None]) if tune is None else fine_tuning(F, classes[None], tune)
    )
    active = outputs > 0
    coefficient = (active * descent[0][:, None, network.owner]).flatten(0, 1)
    change = learner.eta / (N * P) * (coefficient.T @ x.flatten(0, 1))
    next_network = network._replace(
        weights=network.weights + change, bias=network.bias - change.norm(dim=-1) / learner.kappa_b
    )
    return next_network, StepDiagnostics(loss[0], active[noise].sum())


def train(
    network: Network,
    data: EasyData,
    learner: Learner,
    batches: Iterable[tuple[Tensor, Tensor, Tensor]],
    tune: Tensor | None = None,
) -> tuple[Network, StepDiagnostics]:
    """Train on batches of samples.

    Neurons that cannot be active keep their weights, and are left out of the products.

    tune (G,).
    """
    rows = []
    for t, (x, classes, noise) in enumerate(batches):
        if t % SELECT_STEPS == 0:
            neurons = can_activate(network, data)
        selected, diagnostics = step(network.select(neurons), learner, x, classes, noise, tune)
        network = network._replace(
            weights=network.weights.masked_scatter(neurons[:, None], selected.weights),
            bias=network.bias.masked_scatter(neurons, selected.bias),
        )
        if not diagnostics.loss.isfinite():
            raise RarefeatError(DIVERGED)
        rows.append(diagnostics)
    return network, StepDiagnostics(*(torch.stack(column) for column in zip(*rows, strict=True)))


def summarise(initial: Network, trained: Network, data: EasyData) -> DetectorState:
    """Return the state of the scalar simulator that describes a network (S = 1), by means over the
    detectors S(v) at t = 0.
    """
    features = data.features
    threshold = -initial.bias[0].item()
    start = initial.weights[:, :features].double()
    is_member = (math.sqrt(1 + data.iota) * start > threshold).double()
    displacement = trained.weights[:, :features].double() - start
    decrement = (initial.bias.double() - trained.bias.double())[:, None].expand_as(displacement)

    def total(values: Tensor) -> Tensor:
        return values.new_zeros(initial.classes, features).index_add_(
            0, initial.owner, values * is_member
        )

    number = total(torch.ones_like(start))
    means = (
        total(values)[None] / number.clamp(min=1)
        for values in (start - threshold, displacement, decrement)
    )
    return DetectorState(number[None], *means, threshold)
