"""Growth of the rare feature in every neuron of a replica, pair by pair.

Below its gate the projection x_i = <w_i, M_rare> of a neuron moves by eta (A_i x_i + k_i) in a
step, without decay. The leak A_i is what reaches a neuron's own keys through gates that are open:
the mean over anchors of sum_r gate z_rare, times that sum of the positive minus that of the
negatives by their softmax weights. The kick k_i is the change without the feature in any weight.
The same gradient makes the norm grow by eta g_i. The cosine therefore grows where A_i > g_i,
whatever the decay is, which takes the same share of both (docs/method/fate.md). Axes: P passes over
the sample, n pairs, m neurons.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from rarefeat.training.step import ForwardOutput, Kernel, StepConfig, TrainState

PASSES = 10
"""Passes over the sample, each with its own noise, that the terms are means of."""
TOPS = (5, 15)
"""Numbers of pairs whose part in the leak of a neuron is told."""


class NeuronGrowth(NamedTuple):
    """Terms of the growth of the rare feature in the neurons of a replica, per unit of eta."""

    projection: Tensor
    """x_i, (m,)."""
    norm: Tensor
    """||w_i||, (m,)."""
    leak: Tensor
    """A_i, (m,)."""
    kicks: Tensor
    """k_i by pass, (P, m)."""
    own_growth: Tensor
    """g_i, (m,)."""
    pairs: Tensor
    """A_i by pair, whose sum over pairs is A_i, (n, m); n is 0 for fresh pairs."""

    @property
    def excess(self) -> Tensor:
        """A_i - g_i, the rate at which the cosine grows without a kick, (m,)."""
        return self.leak - self.own_growth

    @property
    def pulls(self) -> Tensor:
        """Growth of the absolute cosine by the leak of each pair, (n, m)."""
        return self.pairs * self.projection.abs() / self.norm

    def kick_size(self) -> float:
        """Compute the root mean square of k_i / ||w_i|| over neurons; 0 if it is all noise.

        The square of a mean over P passes is too large by its variance, which is subtracted.
        """
        kicks = self.kicks / self.norm
        noise = kicks.var(0) / len(kicks)
        return float((kicks.mean(0).square() - noise).mean().clamp_min(0).sqrt())

    def slope(self) -> float:
        """Compute the mean of A_i, weighted by the squares of x_i."""
        squares = self.projection.square()
        return float((self.leak * squares).sum() / squares.sum().clamp_min(1e-30))

    def largest_kick(self) -> float:
        """Compute the largest |k_i| / ||w_i||."""
        return float((self.kicks.mean(0).abs() / self.norm).max())

    def rank(self, neuron: int) -> int:
        """Return the place of a neuron in the order of the excess, 1 for the largest."""
        return 1 + int((self.excess > self.excess[neuron]).sum())

    def concentration(self, k: int) -> float:
        """Compute the part of a neuron's leak that its k strongest pairs have.

        The neuron is that of the largest excess. All positive contributions count as the whole; NaN
        where no pair comes back.
        """
        best = int(self.excess.argmax())
        pulls = self.pairs[:, best].clamp_min(0).sort(descending=True).values
        return float(pulls[:k].sum() / pulls.sum()) if len(pulls) else float("nan")


def measure_neuron_growth(
    kernel: Kernel,
    state: TrainState,
    config: StepConfig,
    sigma: float,
    d: int,
    passes: Iterable[Iterator[tuple[Tensor, Tensor]]],
    noise: torch.Generator,
    n: int,
) -> NeuronGrowth:
    """Measure the growth of the rare feature in every neuron of one replica."""
    K, m = config.K, state.weights.shape[1]
    without = state.weights.clone()
    without[..., d - 1] = 0
    both = TrainState(torch.cat([state.weights, without]), *(torch.cat([x, x]) for x in state[1:]))
    leaks, kicks, growths, pairs = [], [], [], torch.zeros(n, m, dtype=torch.float64)
    for batches in passes:
        sums, n_batches = torch.zeros(3, m, dtype=torch.float64), 0
        for indices, latents in batches:
            attended = kernel.attended_tokens(latents, sigma, [noise])
            rare = attended[..., d - 1, None]
            dense = kernel.forward(attended.expand(2, -1, -1, -1).contiguous(), both)
            c = kernel.loss_gradient(dense, dense, both.bias, config).coefficients
            # The derivative of a key by x_i, in the place of the key: gates and softmax stay.
            output = ForwardOutput(dense.pre[:1], dense.f[:1])
            opened = (output.pre.abs() >= state.bias[:, None, None]) * rare
            keys = output._replace(f=opened.sum(2))
            of_keys = kernel.loss_gradient(keys, output, state.bias, config).coefficients
            by_pair = -(of_keys * rare[:, :K]).sum(2)[0].double()
            if n:
                pairs.index_add_(0, indices, by_pair)
            sums[0] += by_pair.sum(0)
            sums[1] -= (c[1:] * rare[:, :K]).sum((0, 1, 2)).double()
            sums[2] -= (c[0] * dense.pre[0, :K]).sum((0, 1)).double()
            n_batches += 1
        for means, total in zip((leaks, kicks, growths), sums / n_batches, strict=True):
            means.append(total)
    weights = state.weights[0].double()
    norm = weights.norm(dim=-1)
    return NeuronGrowth(
        weights[:, d - 1],
        norm,
        torch.stack(leaks).mean(0),
        torch.stack(kicks),
        torch.stack(growths).mean(0) / norm.square(),
        pairs / (len(kicks) * n_batches),
    )


def top_pairs(growth: NeuronGrowth, k: int) -> Tensor:
    """Return the k pairs with the largest pull on any one neuron, (k,).

    The rule knows the state at the step `looked` alone, and not which neuron will learn the
    feature.
    """
    return growth.pulls.amax(1).topk(k).indices


def summarise_growth(growth: NeuronGrowth) -> dict[str, float]:
    """Return the columns of `tables.FATE` on the growth of the rare feature."""
    best = int(growth.excess.argmax())
    return {
        "leak": growth.slope(),
        "kick": growth.largest_kick(),
        "kick_size": growth.kick_size(),
        "excess": float(growth.excess[best]),
        "largest_leak": float(growth.leak.max()),
        "own_growth": float(growth.own_growth[best]),
        **{f"top_{k}": growth.concentration(k) for k in TOPS},
    }
