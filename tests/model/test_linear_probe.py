import math

import numpy as np
import pytest
import torch
from conftest import seeded
from sklearn.linear_model import LinearRegression
from sklearn.metrics import mean_squared_error, r2_score

from rarefeat.model.linear_probe import effective_rank, linear_probe, pair_cosine_similarity


def regression(n, m, seed, dtype=torch.float64):
    """Train and test features and labels with an offset, a linear part and noise."""
    g = seeded(seed)
    w = torch.randn(m, generator=g, dtype=torch.float64)
    parts = []
    for size in (n, 3 * n):
        x = torch.randn(size, m, generator=g, dtype=torch.float64) + 2
        parts += [
            x.to(dtype),
            (5 + x @ w + 0.3 * torch.randn(size, generator=g, dtype=torch.float64)).to(dtype),
        ]
    return parts


def by_sklearn(x, y, test_x, test_y):
    x, y, test_x, test_y = (part.double().numpy() for part in (x, y, test_x, test_y))
    predicted = LinearRegression().fit(x, y).predict(test_x)
    return mean_squared_error(test_y, predicted), r2_score(test_y, predicted)


def damage(x, kind):
    match kind:
        case "dead":
            return torch.cat([x, torch.zeros(len(x), 2, dtype=x.dtype)], 1)
        case "constant":
            return torch.cat([x, torch.full((len(x), 1), 3.0, dtype=x.dtype)], 1)
        case "opposite":
            return torch.cat([x, -x[:, :1]], 1)
    return x


@pytest.mark.parametrize("kind", ["plain", "dead", "constant", "opposite"])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_linear_probe_equals_sklearn(kind, dtype):
    x, y, test_x, test_y = regression(40, 5, 0, dtype)
    mse, r2 = linear_probe(damage(x, kind), y, damage(test_x, kind), test_y)
    expected = by_sklearn(damage(x, kind), y, damage(test_x, kind), test_y)
    assert (mse, r2) == pytest.approx(expected, rel=1e-6 if dtype == torch.float32 else 1e-8)


def test_linear_probe_uses_minimum_norm_solution():
    x, y, test_x, test_y = regression(10, 25, 2)
    centred, offset = (x - x.mean(0)).numpy(), y.mean().item()
    head = np.linalg.pinv(centred) @ (y.numpy() - offset)
    predicted = offset + (test_x - x.mean(0)).numpy() @ head
    mse, r2 = linear_probe(x, y, test_x, test_y)
    assert mse == pytest.approx(mean_squared_error(test_y, predicted), rel=1e-8)
    assert r2 == pytest.approx(r2_score(test_y, predicted), rel=1e-8)


def test_pair_cosine_by_hand():
    f_x = torch.tensor([[1.0, 0.0], [3.0, 4.0], [2.0, 2.0], [1.0, 0.0]])
    f_y = torch.tensor([[5.0, 0.0], [4.0, 3.0], [-1.0, -1.0], [0.0, 7.0]])
    similarity, empty = pair_cosine_similarity(f_x, f_y)
    assert similarity == pytest.approx((1 + 24 / 25 - 1 + 0) / 4)
    assert empty == 0.0


@pytest.mark.parametrize(("zero_x", "zero_y"), [(True, False), (False, True), (True, True)])
def test_pair_cosine_counts_empty_pair_as_zero(zero_x, zero_y):
    f_x, f_y = torch.ones(4, 3), torch.ones(4, 3)
    f_x[0] *= not zero_x
    f_y[0] *= not zero_y
    similarity, empty = pair_cosine_similarity(f_x, f_y)
    assert similarity == pytest.approx(0.75)
    assert empty == 0.25


def test_pair_cosine_of_tiny_embeddings_is_not_empty():
    tiny = torch.full((3, 4), 1e-25)
    assert pair_cosine_similarity(tiny, tiny) == (pytest.approx(1.0), 0.0)


def test_effective_rank_counts_directions_without_the_mean():
    axes = torch.cat([torch.eye(6)[:4], -torch.eye(6)[:4]])
    assert effective_rank(axes) == pytest.approx(4)
    assert effective_rank(axes + 100) == pytest.approx(4, rel=1e-4)
    assert effective_rank(7 * axes) == pytest.approx(4)
    assert effective_rank(axes[:, :1]) == pytest.approx(1)
    assert 1 < effective_rank(axes * torch.tensor([9.0, 1, 1, 1, 1, 1])) < 4
    assert math.isnan(effective_rank(torch.ones(9, 2)))
