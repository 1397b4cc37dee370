"""Metrics of frozen embeddings: linear regression heads, and the similarity of pairs.

Axes: n samples of the training set, n_test of the test set, m neurons.
"""

import math

import torch
from jaxtyping import Float, Real
from torch import Tensor


def linear_probe(
    train_features: Float[Tensor, "n m"],
    train_labels: Real[Tensor, " n"],
    test_features: Float[Tensor, "n_test m"],
    test_labels: Real[Tensor, " n_test"],
) -> tuple[float, float]:
    """Fit a linear head by least squares with intercept, and return its test MSE and R^2.

    Where features are linearly dependent, the head is the solution of minimum norm.
    """
    x, y = train_features.double(), train_labels.double()
    x_mean, y_mean = x.mean(0), y.mean()
    head = torch.linalg.lstsq(x - x_mean, (y - y_mean)[:, None], driver="gelsd").solution
    residual = test_labels.double() - y_mean - ((test_features.double() - x_mean) @ head)[:, 0]
    mse = residual.square().mean()
    return mse.item(), (1 - mse / test_labels.double().var(correction=0)).item()


Head = tuple[Float[Tensor, " m"], Float[Tensor, ""]]
"""Weights and intercept of a linear head."""


def ridge_heads(
    features: Float[Tensor, "n m"], labels: Real[Tensor, " n"], penalties: list[float]
) -> list[Head]:
    """Minimise the mean squared error + penalty v |head|^2, with a free intercept.

    v is the summed variance of the features, so that the penalty does not depend on their scale.
    """
    is_used = (features != 0).any(0)  # a neuron that is never active has weight 0 in all solutions
    x, y = features[:, is_used], labels - labels.mean()
    mean = x.mean(0)
    U, s, Vh = torch.linalg.svd(x - mean, full_matrices=False)
    is_positive = s > s[:1] * max(x.shape) * torch.finfo(s.dtype).eps
    along = U.T @ y

    def solution(penalty: float) -> Head:
        shrunk = torch.where(is_positive, s / (s.square() + penalty * s.square().sum()), 0.0)
        head = torch.zeros_like(features[0])
        head[is_used] = Vh.T @ (shrunk * along)
        return head, labels.mean() - mean @ head[is_used]

    return [solution(penalty) for penalty in penalties]


def sign_error(head: Head, features: Float[Tensor, "n m"], labels: Real[Tensor, " n"]) -> float:
    """Compute the fraction of samples on the wrong side of 0, or on it, for labels of +1 and -1."""
    weights, intercept = head
    return ((features @ weights + intercept) * labels <= 0).double().mean().item()


def pair_cosine_similarity(
    f_x: Float[Tensor, "n m"], f_y: Float[Tensor, "n m"]
) -> tuple[float, float]:
    """Compute the mean cosine similarity of positive pairs and the fraction of empty pairs."""
    f_x, f_y = f_x.double(), f_y.double()
    norms = f_x.norm(dim=-1) * f_y.norm(dim=-1)
    empty = norms == 0
    cosine = torch.where(empty, 0.0, (f_x * f_y).sum(-1) / torch.where(empty, 1.0, norms))
    return cosine.mean().item(), empty.double().mean().item()


def effective_rank(embeddings: Float[Tensor, "n m"]) -> float:
    """Compute the exponential of the entropy of the singular values, as shares, of centred
    embeddings; NaN where all are equal.

    Roy & Vetterli 2007; RankMe (Garrido et al. 2023) takes off no mean.
    """
    centred = embeddings.double() - embeddings.double().mean(0)
    if not centred.isfinite().all() or not centred.any():
        return math.nan
    values = torch.linalg.svdvals(centred)
    return torch.special.entr(values / values.sum()).sum().exp().item()
