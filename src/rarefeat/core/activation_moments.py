"""What neurons answer on average: over a batch of positive pairs, and as a running mean over steps."""

from typing import NamedTuple

import torch
from torch import Tensor


class Moments(NamedTuple):
    """Means over the K samples of a batch, (S, m) each, from which every score is read."""

    first: Tensor
    """E |h(X)|."""
    second: Tensor
    """E h(X)^2."""
    fourth: Tensor
    """E h(X)^4."""
    fires: Tensor
    """Share of samples with h(X) != 0."""
    agreement: Tensor
    """E h(X) h(Y) over positive pairs."""
    agreement_squared: Tensor
    """E (h(X) h(Y))^2 over positive pairs."""
    residual: Tensor
    """E (1 - l'_p) 1{h(X) != 0}, l'_p the softmax weight of the positive."""
    linear_second: Tensor
    """E s^2 of s = sum_r <w, z_r>, what the neuron would answer without a bias, which no gate can silence."""
    linear_fourth: Tensor
    norm: Tensor
    """||w||."""
    growth: Tensor
    """log of ||w|| over what it was a step before."""


def batch_moments(
    f_x: Tensor, f_y: Tensor, linear: Tensor, residual: Tensor, norms: Tensor, before: Tensor
) -> Moments:
    """The means of one batch.

    Args:
        f_x, f_y: embeddings of the positive pairs, (S, K, m). linear: s of the first views, (S, K, m).
        residual: 1 - l'_p of each pair, (S, K). norms, before: ||w|| now and a step before, (S, m).
    """
    square, pairs, opened = f_x.square(), f_x * f_y, (f_x != 0).to(f_x.dtype)
    linear_square = linear.square()
    tiny = torch.finfo(norms.dtype).tiny
    return Moments(
        f_x.abs().mean(1), square.mean(1), square.square().mean(1), opened.mean(1), pairs.mean(1), pairs.square().mean(1),
        (opened * residual[..., None]).mean(1), linear_square.mean(1), linear_square.square().mean(1), norms,
        (norms.clamp_min(tiny) / before.clamp_min(tiny)).log(),
    )  # fmt: skip


def update_running_moments(mean: Moments | None, batch: Moments, step: int, memory: int) -> Moments:
    """The running mean after a step, counted from 0: over all steps while these are at most `memory`, then with that memory."""
    if mean is None:
        return batch
    share = 1 / min(step + 1, memory)
    return Moments(*(old + share * (new - old) for old, new in zip(mean, batch, strict=True)))
