"""Losses of two batches of embeddings, one replica at a time.

A loss is a function of (f_x, f_y), float (K, m) each, and returns one number. It is also given what
it names of: `tau`, the temperature of the config; `features`, float (K, d), those of the samples;
and `negatives`, float (K, m), embeddings of other samples, or None.
Axes: K positive pairs, m neurons, d features.
"""

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, mse_loss, normalize, relu

from rarefeat.errors import RarefeatError


def infonce(f_x: Tensor, f_y: Tensor, tau: float, negatives: Tensor | None = None) -> Tensor:
    """Compute InfoNCE with stop-gradient, eq. (1) of imbalance_and_pruning.

    f_x, f_y (K, m), negatives (K, m).
    """
    f_y = f_y.detach()
    if negatives is None:
        logits = f_x @ f_y.mT
    else:
        logits = (f_x @ negatives.detach().mT).diagonal_scatter((f_x * f_y).sum(-1))
    return -torch.log_softmax(logits / tau, -1).diagonal().mean()


def symmetric_infonce(f_x: Tensor, f_y: Tensor, tau: float) -> Tensor:
    """Compute the mean of InfoNCE in both directions, with all gradients, as in CLIP.

    f_x, f_y (K, m). Radford et al. 2021, figure 3.
    """
    logits = f_x @ f_y.mT / tau
    forth, back = (-torch.log_softmax(item, -1).diagonal().mean() for item in (logits, logits.mT))
    return (forth + back) / 2


def nt_xent(f_x: Tensor, f_y: Tensor, tau: float) -> Tensor:
    """Compute NT-Xent: InfoNCE of cosines among all 2 K views.

    f_x, f_y (K, m). Chen et al. 2020 (SimCLR), eq. (1).
    """
    K = len(f_x)
    views = normalize(torch.cat([f_x, f_y]), dim=-1, eps=1e-12)
    itself = torch.eye(2 * K, dtype=torch.bool, device=f_x.device)
    logits = (views @ views.mT / tau).masked_fill(itself, -torch.inf)
    return cross_entropy(logits, (torch.arange(2 * K, device=f_x.device) + K) % (2 * K))


def spectral(f_x: Tensor, f_y: Tensor) -> Tensor:
    """Compute the spectral contrastive loss: -2 E<f, f+> + E<f, f->^2.

    f_x, f_y (K, m). HaoChen et al. 2021, eq. (6).
    """
    K, products = len(f_x), f_x @ f_y.mT
    positives = products.diagonal()
    negatives = (products.square().sum() - positives.square().sum()) / (K * (K - 1))
    return negatives - 2 * positives.mean()


def barlow_twins(f_x: Tensor, f_y: Tensor, redundancy: float = 5e-3) -> Tensor:
    """Compute the Barlow Twins loss of the correlations between neurons of the two views.

    f_x, f_y (K, m). Zbontar et al. 2021, eq. (1).
    """

    def standardise(f: Tensor) -> Tensor:
        return (f - f.mean(0)) * torch.rsqrt(f.var(0, correction=0) + 1e-5)

    correlation = standardise(f_x).mT @ standardise(f_y) / len(f_x)
    same = correlation.diagonal()
    others = correlation.square().sum() - same.square().sum()
    return (same - 1).square().sum() + redundancy * others


def vicreg(
    f_x: Tensor,
    f_y: Tensor,
    invariance: float = 25.0,
    variance: float = 25.0,
    covariance: float = 1.0,
) -> Tensor:
    """Compute VICReg: views that agree, neurons that vary, and no covariance among them.

    f_x, f_y (K, m). Bardes et al. 2022, eq. (1) to (6), with the mean over both views of the
    variance term.
    """
    (K, m), total = f_x.shape, invariance * mse_loss(f_x, f_y)
    for f in (f_x, f_y):
        centred = f - f.mean(0)
        matrix = centred.mT @ centred / (K - 1)
        total += variance / 2 * relu(1 - (matrix.diagonal() + 1e-4).sqrt()).mean()
        total += covariance * (matrix.square().sum() - matrix.diagonal().square().sum()) / m
    return total


def supervised(f_x: Tensor, f_y: Tensor, features: Tensor) -> Tensor:
    """Compute the squared error of the first d neurons as estimates of the features: a control.

    f_x, f_y (K, m), features (K, d).
    """
    d = features.shape[-1]
    if f_x.shape[-1] < d:
        raise RarefeatError(
            f"loss: supervised needs a neuron for each of d = {d} features, got {f_x.shape[-1]}"
        )
    return (mse_loss(f_x[:, :d], features) + mse_loss(f_y[:, :d], features)) / 2


LOSSES = {
    loss.__name__: loss
    for loss in (infonce, symmetric_infonce, nt_xent, spectral, barlow_twins, vicreg, supervised)
}
"""Losses by name."""
