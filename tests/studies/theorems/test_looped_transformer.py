"""The looped transformer against automatic derivatives, its error against iteration and bounds."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rarefeat.studies.theorems import looped_transformer as exact


def problems(n, d=4, B=3, seed=0):
    stream = torch.Generator().manual_seed(seed)
    X = torch.randn(B, n, d, generator=stream, dtype=torch.double)
    theta = torch.nn.functional.normalize(
        torch.randn(B, d, generator=stream, dtype=torch.double), dim=-1
    )
    alpha = torch.linspace(-2, 3, B, dtype=torch.double)
    return X, theta, torch.einsum("bnd,bd->bn", X, theta), alpha


def by_derivative(X, y, eta, T):
    """Gradient descent with torch's derivative of the loss of Definition 8.9."""
    theta, found = torch.zeros(len(X), X.shape[-1], dtype=X.dtype), []
    for _ in range(T):
        theta = theta.detach().requires_grad_()
        (0.5 * (y - torch.einsum("bnd,bd->bn", X, theta)).square().sum()).backward()
        theta = theta.detach() - eta[:, None] * theta.grad
        found.append(theta)
    return torch.stack(found, 1)


def test_the_transformer_is_gradient_descent():
    X, _, y, alpha = problems(9)
    eta = 1 / torch.linalg.eigvalsh(X.mT @ X)[:, -1]
    out = exact.looped_transformer_outputs(X, y, alpha, eta, 30) / alpha[:, None, None]
    for path in (out, exact.gradient_descent_iterates(X, y, eta, 30)):
        torch.testing.assert_close(path[:, 1:], by_derivative(X, y, eta, 30), rtol=0, atol=1e-13)


def test_a_row_that_attends_to_itself_is_another_iteration(monkeypatch):
    X, _, y, alpha = problems(9)
    eta = 1 / torch.linalg.eigvalsh(X.mT @ X)[:, -1]
    right = exact.looped_transformer_outputs(X, y, alpha, eta, 5)

    def unmasked(Z):
        mask = torch.zeros(Z.shape[-2], Z.shape[-2], dtype=Z.dtype)
        mask[-1] = 1
        keep = torch.ones(Z.shape[-1], dtype=Z.dtype)
        keep[-1] = 0
        return (mask * (Z @ Z.mT)) @ Z * keep

    monkeypatch.setattr(exact, "attention", unmasked)
    assert (exact.looped_transformer_outputs(X, y, alpha, eta, 5) - right).abs().max() > 1e-3


@pytest.mark.parametrize("power", [1, 2])
def test_errors_without_rounding_are_those_of_the_iteration(power):
    X, theta, y, _ = problems(8)
    values, parts = exact.spectrum(X, theta)
    found = exact.log_decay(values, parts, 12, power)
    path = exact.gradient_descent_iterates(X, y, 1 / values[:, -1], 12)
    error = (
        (path - theta[:, None]).square().sum(-1)
        if power == 2
        else 1 - torch.einsum("btd,bd->bt", path, theta)
    )
    torch.testing.assert_close(found, error.log(), rtol=1e-8, atol=1e-8)


@settings(max_examples=25)
@given(n=st.integers(5, 40), d=st.integers(2, 4), seed=st.integers(0, 10**6))
def test_no_problem_breaks_the_bounds(n, d, seed):
    X, theta, _, _ = problems(n, d, 2, seed)
    values, parts = exact.spectrum(X, theta)
    t = torch.arange(51, dtype=torch.double)
    kappa = values[:, -1:] / values[:, :1]
    assert (exact.log_decay(values, parts, 50, 2) <= -t / kappa + 1e-9).all()
    assert (exact.log_decay(values, parts, 50, 1) <= -t / (2 * kappa) + 1e-9).all()
