"""Theorems 5.4.1 to 5.4.3 against drawn prompts, every choice of directions, and derivatives."""

import itertools

import pytest
import torch

from rarefeat.studies.theorems import low_rank_attention as exact

N, M, SIGMA = 6, 4, 0.7
EIGENVALUES = torch.tensor([1.5, 0.8, 0.5, 0.2], dtype=torch.double)
D = len(EIGENVALUES)


def stream():
    return torch.Generator().manual_seed(3)


def normal(*shape, generator):
    return torch.randn(*shape, generator=generator, dtype=torch.double)


def rotated():
    Q = torch.linalg.qr(normal(D, D, generator=stream())).Q
    return Q, Q * EIGENVALUES.sqrt()


def attention_of_rank(r):
    return (rotated()[0] * exact.optimum(EIGENVALUES, N, r)) @ rotated()[0].T


def prompts(root, w, n, sigma, P, generator):
    """E of section 5.4.2, (P, d + 1, n + 1), and the label of the query, (P,)."""
    x = normal(P, n + 1, D, generator=generator) @ root.T
    y = torch.einsum("pnd,pd->pn", x, w) + sigma * normal(P, n + 1, generator=generator)
    y[:, -1] = 0
    return torch.cat([x, y[..., None]], -1).mT, torch.einsum("pd,pd->p", x[:, -1], w)


def predicted(E, U, rho):
    """The corner of linear self-attention with its residual, eq. (5.1), by eq. (5.3)."""
    W_PV, W_KQ = torch.zeros(2, D + 1, D + 1, dtype=torch.double)
    W_PV[-1, -1], W_KQ[:D, :D] = 1, U
    return (E + W_PV @ E @ (E.mT @ W_KQ @ E / rho))[:, -1, -1]


@pytest.mark.parametrize("r", [0, 2, 4])
def test_the_loss_in_evaluation_is_that_of_the_whole_attention(r):
    Q, root = rotated()
    w = torch.tensor([1.0, -0.5, 0.8, 2.0], dtype=torch.double)
    v = exact.optimum(EIGENVALUES, N, r)
    E, label = prompts(root, (Q @ w).expand(200_000, D), M, SIGMA, 200_000, stream())
    errors = (predicted(E, attention_of_rank(r), M) - label).square()
    stated = exact.evaluation_loss(EIGENVALUES, v, w, M, SIGMA)
    assert abs(errors.mean() - stated) < 5 * errors.std() / len(errors) ** 0.5
    if r == 2:
        # All of w as s, which the theorem's text can be read as, is another number.
        shrunk = (w.square() * EIGENVALUES * (EIGENVALUES * v - 1).square()).sum()
        wrong = stated + (w.square() * v.square() * EIGENVALUES**3).sum() / M + shrunk
        assert abs(errors.mean() - wrong) > 10 * errors.std() / len(errors) ** 0.5


def test_the_same_prompts_through_the_last_row_alone():
    Q, root = rotated()
    w = Q @ torch.tensor([1.0, -0.5, 0.8, 2.0], dtype=torch.double)
    U = torch.stack([attention_of_rank(r) for r in (1, 3)])
    found = exact.simulated_losses(root, U, w, M, SIGMA, 500, stream())
    draws = stream()
    x = normal(500, M + 1, D, generator=draws) @ root.T
    y = torch.zeros(500, M + 1, dtype=torch.double)
    y[:, :M] = x[:, :M] @ w + SIGMA * normal(500, M, generator=draws)
    E = torch.cat([x, y[..., None]], -1).mT
    for loss, matrix in zip(found, U, strict=True):
        torch.testing.assert_close(loss, (predicted(E, matrix, M) - x[:, M] @ w).square().mean())


def test_the_loss_in_pretraining_is_that_of_drawn_tasks():
    _, root = rotated()
    U, draws = attention_of_rank(3) + 0.05, stream()
    w = normal(100_000, D, generator=draws)
    E, label = prompts(root, w, N, 0.0, 100_000, draws)
    errors = (predicted(E, U, N) - label).square() / 2
    stated = exact.pretraining_loss(U, root @ root.T, N)
    assert abs(errors.mean() - stated) < 5 * errors.std() / len(errors) ** 0.5


def test_optimum_is_stationary_with_the_best_directions():
    Q, root = rotated()
    covariance = root @ root.T
    full = exact.optimum(EIGENVALUES, N, D)
    for r in range(1, D):
        choices = []
        for kept in itertools.combinations(range(D), r):
            chosen = torch.zeros(D, dtype=torch.double).index_fill(0, torch.tensor(kept), 1)
            loss = exact.pretraining_loss((Q * full * chosen) @ Q.T, covariance, N)
            choices.append(float(loss))
        best = float(exact.pretraining_loss(attention_of_rank(r), covariance, N))
        assert best == pytest.approx(min(choices))
        assert sorted(choices)[1] > best * 1.01
        assert exact.descended_loss(covariance, N, r, stream()) == pytest.approx(best, rel=1e-6)
    U = ((Q * full) @ Q.T).requires_grad_()
    exact.pretraining_loss(U, covariance, N).backward()
    assert U.grad.abs().max() < 1e-12


def test_increments_are_differences_of_losses():
    w = torch.tensor([1.0, -0.5, 0.0, 0.0], dtype=torch.double)
    loss = [
        exact.evaluation_loss(EIGENVALUES, exact.optimum(EIGENVALUES, N, r), w, M, SIGMA)
        for r in range(D + 1)
    ]
    for r in (2, 3):
        more = exact.increment(EIGENVALUES, w, N, M, SIGMA, r)
        torch.testing.assert_close(loss[r + 1] - loss[r], more)
