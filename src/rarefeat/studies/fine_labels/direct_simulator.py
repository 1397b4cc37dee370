"""Direct simulator of Hong et al.: every patch in R^d and every neuron; and the loss of both.

hong_fine_grained_labels, eq. (2), (14)-(18) and Appendix G.4.
Axes: S replicas, n samples (N of a batch), P patches, d coordinates, r neurons, G classes.
"""

import math
from collections.abc import Iterable
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from rarefeat.errors import RarefeatError
from rarefeat.studies.fine_labels.config import Detectors, EasyData, Learner

SELECT_STEPS = 5
"""Steps between two selections of the neurons that can be active."""
DIVERGED = "training diverged: responses are no longer finite; lower eta or T"


class Network(NamedTuple):
    """Network of one replica, whose neurons belong to one class each."""

    weights: Float[Tensor, "r d"]
    bias: Float[Tensor, " r"]
    owner: Int[Tensor, " r"]
    """Class of each neuron."""
    classes: int
    """G."""

    def select(self, neurons: Bool[Tensor, " r"]) -> "Network":
        """Return the network of some neurons alone."""
        return Network(*(tensor[neurons] for tensor in self[:3]), self.classes)


class StepDiagnostics(NamedTuple):
    """Diagnostics of a step that the scalar simulator takes for granted (Theorem F.1; Q7)."""

    loss: Float[Tensor, "..."]
    """Loss of the batch (nat)."""
    on_noise: Int[Tensor, "..."]
    """Number of activations of a neuron on a noise patch."""


def cross_entropy(
    scores: Float[Tensor, "S n G"], classes: Int[Tensor, "S n"]
) -> tuple[Float[Tensor, " S"], Float[Tensor, "S n G"]]:
    """Compute the mean loss, and minus its gradient with respect to the scores, eq. (15)-(17)."""
    log_logits = torch.log_softmax(scores, -1)
    index = classes[..., None]
    descent = -log_logits.exp()
    descent.scatter_add_(-1, index, torch.ones_like(index, dtype=descent.dtype))
    return -log_logits.gather(-1, index)[..., 0].mean(-1), descent


def strongest(
    scores: Float[Tensor, "S n G"], superclass: Int[Tensor, " G"]
) -> tuple[Float[Tensor, "S n 2"], Int[Tensor, "S n 2"]]:
    """Return Fhat, the largest score of a class of either superclass, and which class that is."""
    both = [scores.masked_fill(superclass != s, -torch.inf).max(-1) for s in range(2)]
    return tuple(torch.stack(parts, -1) for parts in zip(*both, strict=True))


def fine_tuning(
    scores: Float[Tensor, "S n G"], truth: Int[Tensor, "S n"], superclass: Int[Tensor, " G"]
) -> tuple[Float[Tensor, " S"], Float[Tensor, "S n G"]]:
    """Compute the cross-entropy of Fhat on the superclasses, and minus its gradient (G.4)."""
    fhat, winner = strongest(scores, superclass)
    loss, descent = cross_entropy(fhat, truth)
    return loss, torch.zeros_like(scores).scatter_(-1, winner, descent)


def initialise(
    classes: int, d: int, detectors: Detectors, sigma_0: float, generator: torch.Generator
) -> Network:
    """Draw w(0) ~ N(0, sigma_0^2 I_d), with b(0) = -threshold sigma_0."""
    n = classes * detectors.m
    weights = sigma_0 * torch.randn(n, d, generator=generator)
    owner = torch.arange(classes).repeat_interleave(detectors.m)
    return Network(weights, torch.full((n,), -detectors.threshold * sigma_0), owner, classes)


def can_activate(network: Network, data: EasyData) -> Bool[Tensor, " r"]:
    """Return whether some patch can activate each neuron; the others never change.

    Of the noise along w, eight standard deviations are allowed for; one in 10^15 exceeds them.
    """
    largest = math.sqrt(1 + data.iota) * network.weights[:, : data.features].amax(-1)
    return largest + 8 * data.sigma_zeta * network.weights.norm(dim=-1) > -network.bias


def activations(network: Network, x: Float[Tensor, "n P d"]) -> Float[Tensor, "n P r"]:
    """Compute ReLU(<w_r, x_p> + b_r)."""
    return torch.relu(x @ network.weights.T + network.bias)


def scores(network: Network, activations: Float[Tensor, "n P r"]) -> Float[Tensor, "n G"]:
    """Compute F_c(X) of eq. (14) with a = 1, the sum over patches and neurons of c."""
    summed = activations.sum(1)
    return summed.new_zeros(len(summed), network.classes).index_add_(1, network.owner, summed)


def step(
    network: Network, learner: Learner, x: Float[Tensor, "N P d"], classes: Int[Tensor, " N"],
    noise: Bool[Tensor, "N P"], tune: Int[Tensor, " G"] | None = None,
) -> tuple[Network, StepDiagnostics]:  # fmt: skip
    """Take one step, eq. (16) and (18); of fine-tuning with the superclasses `tune`."""
    N, P = x.shape[:2]
    outputs = activations(network, x)
    F, y = scores(network, outputs)[None], classes[None]
    loss, descent = cross_entropy(F, y) if tune is None else fine_tuning(F, y, tune)
    active = outputs > 0
    coefficient = (active * descent[0][:, None, network.owner]).flatten(0, 1)
    change = learner.eta / (N * P) * (coefficient.T @ x.flatten(0, 1))
    bias = network.bias - change.norm(dim=-1) / learner.kappa_b
    network = network._replace(weights=network.weights + change, bias=bias)
    return network, StepDiagnostics(loss[0], active[noise].sum())


def train(
    network: Network, data: EasyData, learner: Learner,
    batches: Iterable[tuple[Tensor, Tensor, Tensor]], tune: Int[Tensor, " G"] | None = None,
) -> tuple[Network, StepDiagnostics]:  # fmt: skip
    """Train on batches of samples, with the neurons that can be active in the products alone."""
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
    return network, StepDiagnostics(*map(torch.stack, zip(*rows, strict=True)))
