"""Scores of neurons that know no dictionary: from one batch of embeddings, or a running mean over steps of what they average.

A rule prunes the lowest scores first. Definitions and reasons: docs/method/selection.md.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from rarefeat.core.quantities import smaller_auc

SILENT_LAST = torch.finfo(torch.float32).max
"""A rate or a residual of a silent neuron, of which neither says anything."""


class Averages(NamedTuple):
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


def averages(f_x: Tensor, f_y: Tensor, linear: Tensor, residual: Tensor, norms: Tensor, before: Tensor) -> Averages:
    """The means of one batch.

    Args:
        f_x, f_y: embeddings of the positive pairs, (S, K, m). linear: s of the first views, (S, K, m).
        residual: 1 - l'_p of each pair, (S, K). norms, before: ||w|| now and a step before, (S, m).
    """
    square, pairs, opened = f_x.square(), f_x * f_y, (f_x != 0).to(f_x.dtype)
    linear_square = linear.square()
    tiny = torch.finfo(norms.dtype).tiny
    return Averages(
        f_x.abs().mean(1), square.mean(1), square.square().mean(1), opened.mean(1), pairs.mean(1), pairs.square().mean(1),
        (opened * residual[..., None]).mean(1), linear_square.mean(1), linear_square.square().mean(1), norms,
        (norms.clamp_min(tiny) / before.clamp_min(tiny)).log(),
    )  # fmt: skip


def running(mean: Averages | None, batch: Averages, step: int, memory: int) -> Averages:
    """The running mean after a step, counted from 0: over all steps while these are at most `memory`, then with that memory."""
    if mean is None:
        return batch
    share = 1 / min(step + 1, memory)
    return Averages(*(old + share * (new - old) for old, new in zip(mean, batch, strict=True)))


def rate(mean: Tensor, mean_of_square: Tensor) -> Tensor:
    """(E a)^2 / E a^2, (S, m): the frequency of an `a` that is one value or else 0; SILENT_LAST where it is always 0."""
    return torch.where(mean_of_square > 0, mean.square() / mean_of_square, SILENT_LAST)


def score(name: str, of: Averages, draw: Tensor) -> Tensor:
    """A score of every neuron, (S, m).

    A silent neuron, of which a rate or a residual says nothing, comes last.

    Args:
        draw: (S, m), uniform, one for each training, for `random`.
    """
    match name:
        case "norm":
            return of.norm
        case "firing_rate":
            return of.fires
        case "contribution":
            return of.agreement
        case "residual":
            # The largest first: what is not yet told apart.
            return torch.where(of.fires > 0, -of.residual / of.fires, SILENT_LAST)
        case "growth":
            # The largest first: what still grows.
            return -of.growth
        case "effective_rate":
            return rate(of.second, of.fourth)
        case "hoyer_rate":
            return rate(of.first, of.second)
        case "paired_rate":
            return rate(of.agreement, of.agreement_squared)
        case "random":
            return draw
    raise ValueError(f"no score {name!r}")


def judged(values: Tensor, wanted: Tensor) -> tuple[float, float]:
    """How a score of one replica finds the wanted neurons, (m,), bool (m,): AUC, and precision at their number.

    Both NaN where no neuron, or every one, is wanted. Ties go to the lower index in the precision, and count half in the AUC.
    """
    auc = smaller_auc(values, wanted)
    if auc != auc:
        return auc, auc
    return auc, wanted[values.argsort(stable=True)[: int(wanted.sum())]].double().mean().item()
