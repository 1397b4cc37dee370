"""Losses of two batches of embeddings, one replica at a time.

A loss of your own is a function with these parameters, and options of its own. It is differentiated
by autograd.

Parameters
----------
f_x, f_y : float Tensor of shape (K, m)
    Embeddings of the first and of the second views.
tau : float, if it is named
    Temperature of the config.
features : float Tensor of shape (K, d), if it is named
    Features of the samples.
negatives : float Tensor of shape (K, m) or None, if it is named
    Embeddings of other samples, where the views have negatives of their own.

Returns
-------
float Tensor of shape ()
    The loss.

Axes: K positive pairs, m neurons, d features.
"""

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import cross_entropy, mse_loss, normalize, relu

from rarefeat.errors import RarefeatError

Embeddings = Float[Tensor, "K m"]
Loss = Float[Tensor, ""]


def infonce(
    f_x: Embeddings, f_y: Embeddings, tau: float, negatives: Embeddings | None = None
) -> Loss:
    """Compute InfoNCE with stop-gradient (imbalance_and_pruning, eq. 1)."""
    f_y = f_y.detach()
    if negatives is None:
        logits = f_x @ f_y.mT
    else:
        logits = (f_x @ negatives.detach().mT).diagonal_scatter((f_x * f_y).sum(-1))
    return -torch.log_softmax(logits / tau, -1).diagonal().mean()


def symmetric_infonce(f_x: Embeddings, f_y: Embeddings, tau: float) -> Loss:
    """Compute the mean of InfoNCE in both directions, with all gradients (CLIP, Radford et al.
    2021, figure 3).
    """
    logits = f_x @ f_y.mT / tau
    forth, back = (-torch.log_softmax(item, -1).diagonal().mean() for item in (logits, logits.mT))
    return (forth + back) / 2


def nt_xent(f_x: Embeddings, f_y: Embeddings, tau: float) -> Loss:
    """Compute NT-Xent, InfoNCE of cosines among all 2 K views (SimCLR, Chen et al. 2020, eq. 1)."""
    K = len(f_x)
    views = normalize(torch.cat([f_x, f_y]), dim=-1, eps=1e-12)
    itself = torch.eye(2 * K, dtype=torch.bool, device=f_x.device)
    logits = (views @ views.mT / tau).masked_fill(itself, -torch.inf)
    return cross_entropy(logits, (torch.arange(2 * K, device=f_x.device) + K) % (2 * K))


def spectral(f_x: Embeddings, f_y: Embeddings) -> Loss:
    """Compute the spectral loss -2 E<f, f+> + E<f, f->^2 (HaoChen et al. 2021, eq. 6)."""
    K, products = len(f_x), f_x @ f_y.mT
    positives = products.diagonal()
    negatives = (products.square().sum() - positives.square().sum()) / (K * (K - 1))
    return negatives - 2 * positives.mean()


def barlow_twins(f_x: Embeddings, f_y: Embeddings, redundancy: float = 5e-3) -> Loss:
    """Compute the Barlow Twins loss (Zbontar et al. 2021, eq. 1).

    It is sum_i (1 - C_ii)^2 + redundancy sum_{i != j} C_ij^2, with C the correlations between
    neurons of the two views.
    """

    def standardise(f: Embeddings) -> Embeddings:
        return (f - f.mean(0)) * torch.rsqrt(f.var(0, correction=0) + 1e-5)

    correlation = standardise(f_x).mT @ standardise(f_y) / len(f_x)
    same = correlation.diagonal()
    others = correlation.square().sum() - same.square().sum()
    return (same - 1).square().sum() + redundancy * others


def vicreg(
    f_x: Embeddings,
    f_y: Embeddings,
    invariance: float = 25.0,
    variance: float = 25.0,
    covariance: float = 1.0,
) -> Loss:
    """Compute VICReg: views that agree, neurons that vary, and no covariance among them.

    Bardes et al. 2022, eq. 1 to 6, with the mean over both views of the variance term.
    """
    (K, m), total = f_x.shape, invariance * mse_loss(f_x, f_y)
    for f in (f_x, f_y):
        centred = f - f.mean(0)
        matrix = centred.mT @ centred / (K - 1)
        total += variance / 2 * relu(1 - (matrix.diagonal() + 1e-4).sqrt()).mean()
        total += covariance * (matrix.square().sum() - matrix.diagonal().square().sum()) / m
    return total


def supervised(f_x: Embeddings, f_y: Embeddings, features: Float[Tensor, "K d"]) -> Loss:
    """Compute the squared error of the first d neurons as estimates of the features: a control."""
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
