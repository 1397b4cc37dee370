"""Statistics of the neurons' activations over a batch, and their running means.

Axes: S replicas, K positive pairs of a batch, m neurons.
"""

from typing import NamedTuple

import torch
from torch import Tensor


class Moments(NamedTuple):
    """Activation statistics, of shape (S, m) each: means over the K pairs of a batch."""

    first: Tensor
    """E |h(X)|."""
    second: Tensor
    """E h(X)^2."""
    fourth: Tensor
    """E h(X)^4."""
    fires: Tensor
    """Fraction of samples with h(X) != 0."""
    agreement: Tensor
    """E h(X) h(Y) over positive pairs."""
    agreement_squared: Tensor
    """E (h(X) h(Y))^2 over positive pairs."""
    residual: Tensor
    """E (1 - l'_p) 1{h(X) != 0}, with l'_p the softmax weight of the positive."""
    linear_second: Tensor
    """E s^2 of s = sum_r <w, z_r>, the activation without a bias, which no gate can silence."""
    linear_fourth: Tensor
    """E s^4 of the activation without a bias."""
    norm: Tensor
    """||w||."""
    growth: Tensor
    """log of ||w|| over its value a step before."""


def batch_moments(
    f_x: Tensor,
    f_y: Tensor,
    linear: Tensor,
    residual: Tensor,
    norms: Tensor,
    previous_norms: Tensor,
) -> Moments:
    """Compute the activation statistics of one batch.

    f_x, f_y (S, K, m), linear (S, K, m), residual (S, K), norms, previous_norms (S, m).
    """
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
    """Update the running means with the statistics of one more batch."""
    if mean is None:
        return batch
    weight = 1 / min(step + 1, memory)
    return Moments(*(old + weight * (new - old) for old, new in zip(mean, batch, strict=True)))
