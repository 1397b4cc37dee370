"""Theorems 5.5.1 and 5.5.2: losses by enumeration, and heads that beat the stated ones."""

import itertools

import pytest
import torch

from rarefeat.studies.theorems import parity_in_context as exact
from rarefeat.studies.theorems.problems import ParityInContext

PROBLEM = ParityInContext(
    d=[4], k=2, M=8, prompts=20, starts=8, jitter=0.5, steps=800, lr=0.02, penalty=0.01
)


def enumerated_losses(heads, gamma):
    """The hinge loss of each pair, head by head and value by value."""
    signs, V = heads
    losses = []
    for i, j in itertools.combinations(range(V.shape[1]), 2):
        loss = 0.0
        for (first, second), p in zip(
            ((1, 1), (1, -1), (-1, 1), (-1, -1)),
            (0.25 + gamma, 0.25, 0.25, 0.25 - gamma),
            strict=True,
        ):
            # z has 2 gamma at both features; V is in units of 1 / (4 gamma).
            pre = [2 * gamma * (v[i] * first + v[j] * second) / (4 * gamma) for v in V]
            g = sum(a * max(float(h), 0.0) for a, h in zip(signs, pre, strict=True))
            loss += p * max(0.0, 1 - float(first * second * g))
        losses.append(loss)
    return torch.tensor(losses, dtype=torch.double)


def test_stated_heads_are_those_of_the_example():
    signs, V = exact.stated_heads(8, 3)
    assert signs.tolist() == [-1, -1, -1, 1] * 2
    assert V[1].tolist() == [-1, -1, 1, 1, -1, -1, 1, 1]
    assert V[3].tolist() == [-3] * 8
    assert torch.equal(V[4:], -V[:4])


@pytest.mark.parametrize("digits", [1, 2])
def test_hinge_losses_are_those_of_enumeration(digits):
    heads = exact.stated_heads(4, digits)
    torch.testing.assert_close(exact.hinge_losses(heads, 0.1), enumerated_losses(heads, 0.1))


def test_four_ranked_heads_have_no_loss_by_enumeration():
    heads = exact.ranked_heads(torch.tensor([3, 0, 7, 2, 5, 1, 6, 4]))
    assert len(heads[0]) == 4
    assert enumerated_losses(heads, 0.15).max() < 1e-12


def test_a_smaller_norm_without_loss_at_four_features():
    """One negative head for each feature: 44 where the stated heads have 48."""
    one = torch.full((4, 4), -0.5).fill_diagonal_(1.5).double()
    two = torch.full((4,), 2.0).double()
    heads = torch.tensor([-1.0] * 4 + [1.0] * 2).double(), torch.stack([*one, two, -two])
    assert enumerated_losses(heads, 0.1).max() < 1e-12
    assert heads[1].square().sum() == 44
    assert exact.stated_heads(4, 2)[1].square().sum() == 48


def test_search_finds_less_at_four_features_and_not_at_two():
    stream = torch.Generator().manual_seed(0)
    assert exact.least_norm(2, PROBLEM, stream) == pytest.approx(1, abs=1e-3)
    assert exact.least_norm(4, PROBLEM, stream) < 0.95


def test_evaluated_prompts_approach_the_limit_with_many_examples():
    models = {"larger": exact.stated_heads(4, 2), "smaller": exact.stated_heads(4, 1)}
    tasks = torch.tensor([[2, 3]]).expand(200, 2)
    many = PROBLEM.model_copy(update={"M": 4000})
    found = exact.evaluate_prompts(models, tasks, many, 0.2, torch.Generator().manual_seed(0))
    # Features 2 and 3 differ in the lowest digit alone.
    assert found["larger"] > 0.95
    few = exact.evaluate_prompts(models, tasks, PROBLEM, 0.2, torch.Generator().manual_seed(0))
    assert few["larger"] < found["larger"]


def test_noise_ratio_is_that_of_ranks():
    rows = exact.measure(4, [0], "test", PROBLEM.model_copy(update={"steps": 2}))
    ratio = next(row for row in rows if row.quantity == "smaller_noise")
    assert ratio.stated == pytest.approx(2 / 3)
    assert float(ratio.value) == pytest.approx(2 / 3, abs=0.05)
