"""Losses equal their definitions, values of a library, and closed forms."""

import inspect

import pytest
import torch
from conftest import refusal

from rarefeat.model import contrastive
from rarefeat.training.losses import (
    LOSSES,
    barlow_twins,
    infonce,
    nt_xent,
    spectral,
    supervised,
    symmetric_infonce,
    vicreg,
)

GRID = torch.arange(40, dtype=torch.float32).reshape(8, 5)
VIEWS = torch.sin(GRID), torch.sin(1.1 * GRID + 0.3)


def random_views(K: int = 6, m: int = 4) -> list[torch.Tensor]:
    g = torch.Generator().manual_seed(0)
    return [torch.randn(K, m, generator=g, dtype=torch.float64) for _ in range(3)]


@pytest.mark.parametrize("separate", [False, True])
@pytest.mark.parametrize("tau", [0.5, 1.0])
def test_infonce_has_gradient_of_closed_form(tau, separate):
    f_x, f_y, other = random_views()
    negatives = other if separate else None
    x, y = f_x.clone().requires_grad_(), f_y.clone().requires_grad_()
    loss = infonce(x, y, tau, negatives)
    loss.backward()
    batched = None if negatives is None else negatives[None]
    p = contrastive.probabilities(f_x[None], f_y[None], tau, batched)
    expected = contrastive.embedding_gradient(f_y[None], p, tau, batched)[0]
    torch.testing.assert_close(x.grad, expected)
    assert y.grad is None
    torch.testing.assert_close(loss, contrastive.infonce(f_x[None], f_y[None], tau, batched)[0])


@pytest.mark.parametrize(
    ("loss", "options", "value"),
    [
        (nt_xent, {"tau": 0.5}, 3.9803524),
        (barlow_twins, {}, 8.7995510),
        (vicreg, {}, 39.990364),
    ],
)
def test_loss_equals_value_of_lightly(loss, options, value):
    """Values of lightly 1.6.0: NTXentLoss, BarlowTwinsLoss and VICRegLoss of VIEWS."""
    assert float(loss(*VIEWS, **options)) == pytest.approx(value, rel=1e-5)


def test_spectral_equals_its_double_sum():
    f_x, f_y, _ = random_views()
    K = len(f_x)
    positives = sum(float(f_x[i] @ f_y[i]) for i in range(K)) / K
    others = [float(f_x[i] @ f_y[j]) ** 2 for i in range(K) for j in range(K) if i != j]
    assert float(spectral(f_x, f_y)) == pytest.approx(sum(others) / len(others) - 2 * positives)


def test_symmetric_infonce_is_mean_of_directions():
    f_x, f_y, _ = random_views()
    mean = (infonce(f_x, f_y, 0.7) + infonce(f_y, f_x, 0.7)) / 2
    torch.testing.assert_close(symmetric_infonce(f_x, f_y, 0.7), mean)
    torch.testing.assert_close(symmetric_infonce(f_x, f_y, 0.7), symmetric_infonce(f_y, f_x, 0.7))


def test_supervised_is_zero_at_features_alone():
    features = torch.randn(6, 3, generator=torch.Generator().manual_seed(1))
    f = torch.cat([features, torch.ones(6, 2)], 1)
    assert float(supervised(f, f, features)) == 0
    assert float(supervised(f + 1, f, features)) > 0
    assert "needs a neuron for each" in refusal(supervised, f[:, :2], f[:, :2], features)


@pytest.mark.parametrize("loss", LOSSES.values())
def test_losses_fall_along_their_gradient(loss):
    f_x, f_y, _ = random_views(32, 6)
    names = inspect.signature(loss).parameters
    extra = {"tau": 0.5} if "tau" in names else {}
    if "features" in names:
        extra["features"] = torch.ones(32, 3, dtype=torch.float64)
    x = f_x.clone().requires_grad_()
    before = loss(x, f_y, **extra)
    (slope,) = torch.autograd.grad(before, x)
    assert loss(f_x - 1e-3 * slope / slope.norm(), f_y, **extra) < before
