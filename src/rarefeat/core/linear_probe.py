"""A linear regression head on frozen embeddings."""

import torch
from torch import Tensor


def linear_probe(
    train_features: Tensor, train_labels: Tensor, test_features: Tensor, test_labels: Tensor
) -> tuple[float, float]:
    """Ordinary least squares with intercept (the minimum-norm solution where features are dependent): test MSE and R^2.

    Args: (n, m), (n,), (n', m), (n',). R^2 is 1 - MSE / variance of the test labels.
    """
    x, y = train_features.double(), train_labels.double()
    x_mean, y_mean = x.mean(0), y.mean()
    head = torch.linalg.lstsq(x - x_mean, (y - y_mean)[:, None], driver="gelsd").solution
    residual = test_labels.double() - y_mean - ((test_features.double() - x_mean) @ head)[:, 0]
    mse = residual.square().mean()
    return mse.item(), (1 - mse / test_labels.double().var(correction=0)).item()


def pair_cosine_similarity(f_x: Tensor, f_y: Tensor) -> tuple[float, float]:
    """Mean cosine similarity of positive pairs, (n, m) twice, and the share of pairs with an embedding that is exactly zero.

    A pair with a zero embedding counts as 0: what is mapped to nothing has not been recognised.
    """
    f_x, f_y = f_x.double(), f_y.double()
    norms = f_x.norm(dim=-1) * f_y.norm(dim=-1)
    empty = norms == 0
    cosine = torch.where(empty, 0.0, (f_x * f_y).sum(-1) / torch.where(empty, 1.0, norms))
    return cosine.mean().item(), empty.double().mean().item()
