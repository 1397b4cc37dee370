"""Sums, quadratures and minima of section 6.4 against moments, samples and another solver."""

import math
from fractions import Fraction

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression

from rarefeat.studies.theorems import spurious_features as exact
from rarefeat.studies.theorems.problems import SpuriousProblem

RNG = np.random.default_rng(5)


def drawn(n, count, gamma):
    """Features of D_gamma, (n, count)."""
    return RNG.random((n, count)) * np.where(RNG.random((n, count)) < 0.5 + gamma, 1, -1)


@pytest.mark.parametrize(("gamma", "n"), [(0.5, 7), (0.2, 12), (-0.3, 40)])
def test_a_sum_has_the_moments_of_its_parts(gamma, n):
    law = exact.summed(exact.feature(gamma), n)
    mean = law.probability @ law.values
    assert mean == pytest.approx(n * gamma)
    assert law.probability @ (law.values - mean) ** 2 == pytest.approx(
        n * (1 / 3 - gamma**2), rel=1e-3
    )
    nodes = exact.quadrature(law)
    for power in (1, 2, 5, 9):
        assert nodes.probability @ nodes.values**power == pytest.approx(
            law.probability @ law.values**power, rel=1e-8
        )


def test_ridge_equals_another_solver_on_a_sample():
    given = exact.Instance(r=37, d=37 + 160, gamma=0.495, penalty=0.05)
    found = exact.ridge(given)
    n = 15_000
    z = np.hstack([drawn(n, given.r, 0.5), drawn(n, given.d - given.r, given.gamma)])
    y = np.where(RNG.random(n) < 0.5, 1, -1)
    other = LogisticRegression(
        C=1 / (n * given.penalty), fit_intercept=False, tol=1e-8, max_iter=1000
    ).fit(z * y[:, None], y)
    assert other.coef_[0, :37].mean() == pytest.approx(found.alpha, rel=0.02)
    assert other.coef_[0, 37:].mean() == pytest.approx(found.beta, rel=0.02)


def test_the_ridge_is_stationary():
    given = exact.Instance(r=40, d=300, gamma=0.48, penalty=0.3)
    best = exact.ridge(given)
    a, b = (
        exact.quadrature(exact.summed(exact.feature(0.5), 40)),
        exact.quadrature(exact.summed(exact.feature(0.48), 260)),
    )

    def objective(alpha, beta):
        margin = alpha * a.values[:, None] + beta * b.values
        return (np.outer(a.probability, b.probability) * np.log1p(np.exp(-margin))).sum() + 0.15 * (
            40 * alpha**2 + 260 * beta**2
        )

    here = objective(*best)
    for change in ((1e-3, 0), (-1e-3, 0), (0, 1e-3), (0, -1e-3)):
        assert objective(best.alpha + change[0], best.beta + change[1]) > here


@pytest.mark.parametrize("gamma", [0.2, -0.2])
def test_accuracies_are_those_of_a_sample(gamma):
    given, weights = exact.Instance(r=5, d=14, gamma=0.2, penalty=1.0), exact.Ridge(0.3, 0.25)
    n = 200_000
    margin = 0.3 * drawn(n, 5, 0.5).sum(1) + 0.25 * drawn(n, 9, gamma).sum(1)
    assert exact.accuracy(given, weights, gamma) == pytest.approx((margin >= 0).mean(), abs=0.004)
    assert exact.accuracy(given, exact.Ridge(1.0, 0.0), gamma) == pytest.approx(1.0)


def test_a_small_accuracy_is_that_of_its_closed_form():
    """Two invariant features beside forty that agree but seldom, at equal weights."""
    given, weights = exact.Instance(r=2, d=42, gamma=0.49, penalty=1.0), exact.Ridge(1.0, 1.0)
    n, found = 40, exact.accuracy(given, weights, -0.49)
    # Of forty spurious features, k disagree: the sum of 42 - k uniform parts less that of k is
    # above 0 where all 42, these
    # turned round, sum to more than k (Irwin and Hall).
    tail = [
        math.comb(n, k) * 0.01 ** (n - k) * 0.99**k * float(irwin_hall_above(42, k))
        for k in range(n + 1)
    ]
    assert found == pytest.approx(sum(tail), rel=0.02)
    assert found < 1e-16


def irwin_hall_above(n, x):
    """Probability that the sum of n uniform numbers exceeds x, in rational arithmetic."""
    terms = [(-1) ** k * math.comb(n, k) * Fraction(x - k) ** n for k in range(x + 1)]
    return 1 - sum(terms, Fraction(0)) / math.factorial(n)


def test_spurious_features_cost_loss_at_every_angle():
    """Spurious features raise the loss, and the least loss is that of a search over all angles."""
    alone = exact.support_loss(4, 0, 0.3, 1.0)
    mixed = exact.support_loss(3, 1, 0.3, 1.0)
    assert alone < mixed < exact.support_loss(0, 4, 0.3, 1.0)
    z = np.hstack([drawn(100_000, 3, 0.5), drawn(100_000, 1, 0.3)])
    angles = np.linspace(-math.pi, math.pi, 61)
    losses = [
        np.log1p(np.exp(-(math.cos(a) / 3**0.5 * z[:, :3].sum(1) + math.sin(a) * z[:, 3]))).mean()
        for a in angles
    ]
    assert mixed == pytest.approx(min(losses), abs=2e-3)


def test_instances_are_those_that_the_proposition_allows():
    problem = SpuriousProblem(r=[37, 42], more=1.2)
    for seed in range(3):
        given = exact.draw_instance(problem, 1.0, torch.Generator().manual_seed(seed))
        assert 37 <= given.r <= 42
        assert 3 / math.sqrt(given.r) < given.gamma < 0.5
        assert given.d > given.r / given.gamma**2 + given.r
        weights = exact.ridge(given)
        assert 0 < weights.beta < weights.alpha < 1 / math.sqrt(given.r)
