"""Statistics of the neurons' activations over a batch, and their running means.

Axes: S replicas, K positive pairs of a batch, m neurons.
"""

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor


class Moments(NamedTuple):
    """Activation statistics, of shape (S, m) each: means over the K pairs of a batch."""

    first: Float[Tensor, "S m"]
    """E |h(X)|."""
    second: Float[Tensor, "S m"]
    """E h(X)^2."""
    fourth: Float[Tensor, "S m"]
    """E h(X)^4."""
    fires: Float[Tensor, "S m"]
    """Fraction of samples with h(X) != 0."""
    agreement: Float[Tensor, "S m"]
    """E h(X) h(Y) over positive pairs."""
    agreement_squared: Float[Tensor, "S m"]
    """E (h(X) h(Y))^2 over positive pairs."""
    residual: Float[Tensor, "S m"]
    """E (1 - l'_p) 1{h(X) != 0}, with l'_p the softmax weight of the positive."""
    linear_second: Float[Tensor, "S m"]
    """E s^2 of s = sum_r <w, z_r>, the activation without a bias, which no gate can silence."""
    linear_fourth: Float[Tensor, "S m"]
    """E s^4 of the activation without a bias."""
    norm: Float[Tensor, "S m"]
    """||w||."""
    growth: Float[Tensor, "S m"]
    """log of ||w|| over its value a step before."""


def batch_moments(
    f_x: Float[Tensor, "S K m"],
    f_y: Float[Tensor, "S K m"],
    linear: Float[Tensor, "S K m"],
    residual: Float[Tensor, "S K"],
    norms: Float[Tensor, "S m"],
    previous_norms: Float[Tensor, "S m"] | None,
) -> Moments:
    """Compute the activation statistics of one batch; without norms a step before, no growth."""
    previous_norms = norms if previous_norms is None else previous_norms
    square, pairs, opened = f_x.square(), f_x * f_y, (f_x != 0).to(f_x.dtype)
    linear_square = linear.square()
    tiny = torch.finfo(norms.dtype).tiny
    return Moments(
        first=f_x.abs().mean(1),
        second=square.mean(1),
        fourth=square.square().mean(1),
        fires=opened.mean(1),
        agreement=pairs.mean(1),
        agreement_squared=pairs.square().mean(1),
        residual=(opened * residual[..., None]).mean(1),
        linear_second=linear_square.mean(1),
        linear_fourth=linear_square.square().mean(1),
        norm=norms,
        growth=(norms.clamp_min(tiny) / previous_norms.clamp_min(tiny)).log(),
    )


def update_running_moments(mean: Moments | None, batch: Moments, step: int, memory: int) -> Moments:
    """Move the means 1 / min(step + 1, memory) of the way to the statistics of one more batch."""
    if mean is None:
        return batch
    weight = 1 / min(step + 1, memory)
    return Moments(*(old + weight * (new - old) for old, new in zip(mean, batch, strict=True)))
