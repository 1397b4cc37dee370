"""Closed forms against enumeration and Monte Carlo."""

import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, optimize, special
from scipy.special import ndtr
from scipy.stats import binom

from rarefeat.studies.two_layer import reduced_training, theory
from rarefeat.studies.two_layer.config import Problem
from rarefeat.studies.two_layer.data import DataDistribution, correlation, moments
from rarefeat.studies.two_layer.metrics import cosines, largest_cosine, rare_ratio
from rarefeat.studies.two_layer.printed import PRINTED
from rarefeat.workflow.project import load


def test_the_staircase_of_the_parity_of_five():
    probability, labels = theory.parity_counts(5, 0.5)
    assert probability.sum() == pytest.approx(1)
    assert [theory.staircase(probability, labels, s) for s in (0, 1, 3, 5)] == pytest.approx(
        [1 / 2, 27 / 32, 59 / 64, 1]
    )


@settings(max_examples=40)
@given(
    st.lists(st.tuples(st.floats(0.01, 1), st.sampled_from([-1, 1])), min_size=2, max_size=9),
    st.integers(0, 8),
)
def test_the_staircase_is_the_best_of_all_sign_patterns(
    steps: list[tuple[float, int]], changes: int
):
    weights, labels = map(np.array, zip(*steps, strict=True))
    probability = weights / weights.sum()
    signs = np.array(list(itertools.product([-1, 1], repeat=len(labels))))
    few = (np.diff(signs, axis=1) != 0).sum(1) <= changes
    best = ((signs[few] == labels) @ probability).max()
    assert theory.staircase(probability, labels, changes) == pytest.approx(best)


def test_the_law_of_the_counts_is_that_of_the_samples():
    problem = Problem(labels="parity", d=20, D=20, k=5, p_o=0.3, negatives=0.7)
    law = DataDistribution(problem, "test", 0)
    sample = law.draw(40000, "train")
    probability, labels = theory.parity_counts(5, 0.3, 0.7)
    counts = sample.patterns[:, law.relevant].sum(1).long()
    found = torch.bincount(counts, minlength=6).double() / len(counts)
    assert np.abs(found.numpy() - probability).max() < 0.01
    assert torch.equal(sample.labels, torch.from_numpy(labels)[counts].float())


@pytest.mark.parametrize("d", [20, 100, 500])
def test_the_initial_cosine(d: int):
    m, draws = 60, 400
    w = torch.randn(draws, m, d, generator=torch.Generator().manual_seed(0))
    found = (w[..., 0] / w.norm(dim=2)).amax(1)
    error = float(found.std()) / math.sqrt(draws)
    assert float(found.mean()) == pytest.approx(theory.initial_cosine(d, m), abs=4 * error)


def one_step_residue_cosine(d: int, m: int, residue: float) -> float:
    """Return the expected largest cosine after step 1 if initial weights are not fully erased.

    The 2m neurons are w_i = a_i v + r u_i with a_i ~ N(0, 1), v the unit vector along sum_{j in A}
    M_j and u_i ~ N(0, I_d). The tangent of the angle to v's complement is (a_i + r g_i) / (r
    chi_{d-1}) = sqrt(1 + r^2) / r times that of an isotropic vector, and of the pair (a_i, -a_i)
    with one u_i the better one counts, which is |a_i| where r is small against 1: so the largest of
    m folded values.
    """
    grow = math.sqrt(1 + residue**2) / residue
    half = (d - 1) / 2

    def survival(cosine: float) -> float:
        """Return 1 - F^m at the isotropic cosine whose grown tangent has this cosine."""
        tangent = cosine / math.sqrt(1 - cosine**2) / grow
        isotropic = tangent / math.sqrt(1 + tangent**2)
        folded = 2 * special.betainc(half, half, (1 + isotropic) / 2) - 1
        return 1 - folded**m

    value, _ = integrate.quad(survival, 0, 1 - 1e-12, limit=400)
    return value


def residue_of(cosine: float, d: int, m: int) -> float:
    """Return the residue of which `one_step_residue_cosine` is a cosine."""

    def excess(log: float) -> float:
        return one_step_residue_cosine(d, m, math.exp(log)) - cosine

    return math.exp(optimize.brentq(excess, math.log(1e-4), math.log(50)))


@pytest.mark.parametrize(("d", "residue"), [(50, 0.1), (300, 0.1), (300, 0.3)])
def test_the_cosine_with_a_residue(d: int, residue: float):
    m, draws = 40, 300
    random = torch.Generator().manual_seed(0)
    a = torch.randn(draws, m, generator=random)
    u = residue * torch.randn(draws, m, d, generator=random)
    best = []
    for sign in (1, -1):
        w = u.clone()
        w[..., 0] += sign * a
        best.append((w[..., 0] / w.norm(dim=2)).amax(1))
    found = torch.maximum(*best)
    error = float(found.std()) / math.sqrt(draws)
    expected = one_step_residue_cosine(d, m, residue)
    # Folding takes the better of a pair by |a| alone: right to second order in the residue.
    assert float(found.mean()) == pytest.approx(expected, abs=4 * error + 0.5 * residue**2)
    assert residue_of(expected, d, m) == pytest.approx(residue, rel=1e-4)


def test_printed_cosines_are_those_of_closed_forms():
    """Those of Table A.4 are of d = 100, although its text has d = 500."""
    chosen, residues, at_100 = load().sections["two_layer"].by_name, {}, {}
    for item in (item for item in PRINTED if item.quantity == "cosine"):
        setting, imbalanced = chosen[item.setting], item.table == "A.4"
        problem, d, m = setting.problem, setting.problem.d, setting.m
        if item.column == "RF":
            ratio = item.printed / theory.initial_cosine(100 if imbalanced else d, m)
            assert 0.8 < ratio < 1.4, item
            assert not imbalanced or item.printed > 2 * theory.initial_cosine(d, m)
        if item.column == "One Step" and problem.labels == "parity":
            residues[item.setting] = residue_of(item.printed, d, m)
            at_100[item.setting] = residue_of(item.printed, 100, m)
            gamma = (1 - problem.p_o) / 2
            erased = theory.step_one_cosine(setting.n, problem.D, problem.k, gamma, 0.5)
            assert erased > 0.98 or problem.negatives != 0.5
    # Rows that differ in d alone have about one residue, and those of Table A.4 at d = 100.
    alike = [residues[name] for name in ("parity", "dimension_100", "dimension_2000")]
    assert max(alike) < 1.3 * min(alike)
    for name in ("class_ratio_0.8", "class_ratio_0.9"):
        assert 0.8 < at_100[name] / residues["dimension_100"] < 1.4
        assert residues[name] < 0.6 * residues["dimension_100"]


def two_steps(problem: Problem, n: int, m: int, seed: int = 0):
    law = DataDistribution(problem, "test", seed)
    sample = law.draw(n, "train")
    mean, sigma = moments(sample.patterns)
    gamma = correlation(sample, law.relevant)
    sigma_a = sigma**2 / (gamma * problem.k**2)
    random = torch.Generator().manual_seed(seed)
    neurons = reduced_training.initial(m, problem.d, problem.D, problem.k, sigma_a, random)
    passed = [neurons]
    x = (sample.patterns - mean) / sigma
    for step in reduced_training.erasing_steps(problem.k, m, gamma, sigma, noise=False):
        by = reduced_training.gradient(passed[-1], x, sample.labels)
        passed.append(reduced_training.descend(passed[-1], by, step))
    return law, passed, gamma


def test_the_step_one_cosine():
    problem = Problem(labels="parity", d=100, D=100, k=5, negatives=0.5)
    law, passed, gamma = two_steps(problem, n=8000, m=100)
    assert gamma == pytest.approx(0.25, abs=0.02)
    b, sigma_w = passed[0].b.numpy(), 1 / 5
    # Of a neuron with bias b: Pr[0 < z < 1] for z ~ N(b, sigma_w^2), since E||x||^2 = 1.
    beta = ndtr((1 - b) / sigma_w) - ndtr(-b / sigma_w)
    tangent = np.array([theory.step_one_cosine(8000, 100, 5, 0.25, share) for share in beta])
    found = cosines(passed[1], law.relevant).abs().numpy()
    # Neurons share the sample, so that the mean over them keeps its error: chi^2 of 95 directions,
    # some 15 % of the tangent.
    assert 1 - np.median(found) == pytest.approx(1 - np.median(tangent), rel=0.4)
    expected = theory.step_one_cosine(8000, 100, 5, 0.25, 1.0)
    median = float(cosines(passed[2], law.relevant).abs().nanmedian())
    assert median == pytest.approx(expected, abs=0.3 * (1 - expected))
    assert largest_cosine(passed[2], law.relevant) > largest_cosine(passed[0], law.relevant)


@pytest.mark.parametrize("frequency", [0.2, 0.5])
def test_the_rare_pattern_after_two_steps(frequency: float):
    problem = Problem(labels="majority", d=30, D=30, k=5, frequency=[1, 1, frequency, 1, 1])
    law, passed, _ = two_steps(problem, n=40000, m=40)
    found = rare_ratio(passed[2], law.relevant, problem.frequency)
    assert found == pytest.approx(theory.rare_pattern_ratio(5, 0.5, frequency), abs=0.03)
    assert theory.rare_pattern_ratio(5, 0.5, 1.0) == pytest.approx(1)


def test_the_interval_is_a_threshold():
    probability = binom(30, 2 / 3).sf(20 - 1)  # the accuracy of the constant +1
    assert 1 - probability == pytest.approx(0.415, abs=1e-3)
    problem = Problem(labels="interval", d=40, D=40, k=30, p_A=2 / 3, interval=[20, 30])
    labels = DataDistribution(problem, "test", 0).draw(20000, "train").labels
    assert float((labels > 0).float().mean()) == pytest.approx(probability, abs=0.015)


def test_the_lower_bounds():
    N, B = np.array([10.0, 1000.0]), np.array([1.0, 4.0])
    some = theory.fixed_feature_bound(N, B, 5, 0.5)
    assert some == pytest.approx(0.5 * (1 - np.sqrt(2 * N) * B / 32))
    assert (theory.fixed_feature_bound_mean(N, B, 100, 5, 0.5) >= some).all()


def test_the_mean_bound_holds_for_all_parities_of_a_small_cube():
    """Every A of a cube of 2^6 corners.

    The mean of the best hinge losses is above the bound, near it for parities.
    """
    D, k, B, N = 6, 3, 0.4, 5
    z = torch.tensor(list(itertools.product([-1.0, 1.0], repeat=D)))
    subsets = list(itertools.combinations(range(D), k))
    parities = torch.stack([z[:, list(A)].prod(1) for A in subsets])
    psi = parities[:N].T
    losses = []
    for y in parities:
        w = torch.zeros(N, requires_grad=True)
        optimiser = torch.optim.SGD([w], lr=0.05)
        for _ in range(200):
            optimiser.zero_grad()
            (1 - y * (psi @ w)).clamp(min=0).mean().backward()
            optimiser.step()
            with torch.no_grad():
                w *= min(1.0, B / max(float(w.norm()), 1e-12))
        losses.append(float((1 - y * (psi @ w.detach())).clamp(min=0).mean()))
    bound = float(theory.fixed_feature_bound_mean(np.array(N), np.array(B), D, k, 1.0))
    assert bound <= np.mean(losses) <= 1
    assert np.mean(losses) == pytest.approx(1 - B * N / len(subsets), abs=0.01)


def test_the_kernel_of_the_head_on_the_counts():
    values = theory.count_kernel(
        np.full(3, 0.1), np.array([0.0, -0.2, -0.4]), np.arange(6), np.full(6, 1 / 6)
    )
    assert values.sum() == pytest.approx(1)
    assert (values[3:] < 1e-12).all()  # three features span three directions
    assert (values[:3] > 0).all()
