"""Lemma F.3 and Propositions 7.3, F.8, F.9 against searches that use none of them."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.special import expit
from scipy.stats import chi2

from rarefeat.studies.theorems import task_mixture as exact
from rarefeat.studies.theorems.problems import Mixture


def test_quadrature_has_the_moments_of_chi_squared():
    x, p = exact.chi_squared(3)
    for moment in range(1, 5):
        assert p @ x**moment == pytest.approx(chi2.moment(moment, 3))
    assert p @ np.logaddexp(0, -x) == pytest.approx(
        quad(lambda t: np.logaddexp(0, -t) * chi2.pdf(t, 3), 0, 200)[0], rel=1e-5
    )


def test_the_programme_is_solved_as_by_trying_all_weights():
    w = np.array([0.7, 0.3])
    (z, p), (own, q) = exact.chi_squared(2), exact.chi_squared(2)

    def cost(alpha, one, two):
        margins = (alpha * z[:, None] + a * own for a in (one, two))
        return sum(
            weight * (np.outer(p, q) * np.logaddexp(0, -margin)).sum()
            for weight, margin in zip(w, margins, strict=True)
        )

    # The budget is spent: 2 alpha + 2 one + 2 two = 4.
    tried = {
        (alpha, one): cost(alpha, one, 2 - alpha - one)
        for alpha in np.linspace(0, 1, 21)
        for one in np.linspace(0, 1, 41)
        if 0 <= 2 - alpha - one <= 1
    }
    best = min(tried, key=tried.get)
    found = exact.closed_form_weights(4, 2, w)
    assert found[0] == pytest.approx(best[0], abs=0.03)
    assert found[1] == pytest.approx(best[1], abs=0.03)
    assert cost(*found) <= tried[best] + 1e-9


@pytest.mark.parametrize(("r", "s", "T"), [(4, 2, 2), (4, 2, 8), (8, 2, 4), (8, 6, 3), (6, 3, 1)])
def test_even_mixtures_are_in_closed_form(r, s, T):
    found = exact.closed_form_weights(r, s, np.full(T, 1 / T))
    assert found[0] == pytest.approx(1, abs=1e-5)
    assert found[1:] == pytest.approx(np.full(T, exact.even(r, s, T, 1.0)), abs=1e-4)
    if r == 2 * s:
        assert exact.even(r, s, T, 1.0) == pytest.approx(1 / T)


def test_the_rare_task_is_dropped_where_its_slope_says_so():
    """A rare task has weight 0 up to the frequency where its slope at 0 equals the others'.

    The others have weight 1/3 (T = 4, r = 2 s = 4).
    """
    (z, p), (own, q) = exact.chi_squared(2), exact.chi_squared(2)
    others = (np.outer(p, q) * expit(-(z[:, None] + own / 3)) * own).sum()
    rho = others / ((p * expit(-z)).sum() * 2)
    for share, dropped in ((rho * 0.99, True), (rho * 1.02, False)):
        w = np.array([1, 1, 1, share])
        assert (exact.closed_form_weights(4, 2, w / w.sum())[-1] < 1e-6) == dropped
    assert 0.4 < rho < 0.45


@settings(max_examples=20)
@given(seed=st.integers(0, 10**6))
def test_the_projection_is_in_the_class_and_nearest(seed):
    stream = torch.Generator().manual_seed(seed)
    G = torch.randn(5, 5, generator=stream, dtype=torch.double)
    G = G + G.mT
    near = exact.project_to_class(G, 2)
    values = torch.linalg.eigvalsh(near)
    assert values.min() > -1e-9
    assert values.max() < 1 + 1e-9
    assert values.sum() < 2 + 1e-6
    other = torch.randn(5, 2, generator=stream, dtype=torch.double)
    other = other / torch.linalg.matrix_norm(other, 2)
    # Obtuse angle: no member of the class is nearer.
    assert ((G - near) * (other @ other.mT - near)).sum() < 1e-6


@pytest.fixture(scope="module")
def sampled():
    mixture = Mixture(
        r=4, s=2, weights=[1.0, 1.0], spurious=2, samples=6000, gamma=[0.2, 2.0], labels=[2, 4]
    )
    rows = exact.measure({"mixture": "here"}, [0], mixture)
    return {(row["quantity"], row["at"]): (row["value"], row["stated"]) for row in rows}


def test_a_search_that_knows_no_features_finds_the_lemma(sampled):
    for quantity in ("shared_weight", "even_weight", "spurious_weight"):
        found, stated = sampled[quantity, 0]
        assert found == pytest.approx(stated, abs=0.01), quantity


def test_fine_tuning_grows_the_target_as_far_as_the_ball_allows(sampled):
    found, stated = sampled["tuned_root_weight", 0.2]
    assert stated == pytest.approx(math.sqrt(0.5) + 0.2 / math.sqrt(2))
    assert found == pytest.approx(stated, abs=0.01)
    found, stated = sampled["tuned_root_weight", 2.0]
    assert stated == 1
    assert found == pytest.approx(1, abs=0.01)


def test_probes_find_what_has_weight_and_nothing_else():
    scale = torch.tensor([1.0, 1.0, 0.5, 0.5], dtype=torch.double)
    stream = torch.Generator().manual_seed(0)
    assert exact.risk(scale, 4, stream) < 1e-6
    assert 0.5 < exact.risk(scale, 2, stream) < 1
    # Half of the label is in features without weight: sqrt(1 / 2) of its deviation stays, on
    # average over directions.
    dropped = torch.tensor([1.0, 1.0, 0.0, 0.0], dtype=torch.double)
    many = exact.risk(dropped, 400, stream)
    assert many == pytest.approx(2 / 3, abs=0.05)


def test_the_complexity_is_below_its_leading_term_and_near():
    scale = torch.ones(40, dtype=torch.double)
    found, stated = exact.complexity(scale, 20, 10, torch.Generator().manual_seed(1))
    assert stated == pytest.approx(2.0)
    assert 0.98 * stated < found < stated
