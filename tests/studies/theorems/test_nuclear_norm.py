"""Accuracies in closed form against samples, and the norm against singular values."""

import math

import pytest
import torch

from rarefeat.studies.theorems import nuclear_norm as exact
from rarefeat.studies.theorems.problems import NuclearProblem

PROBLEM = NuclearProblem(penalty=[0.0, 0.01], steps=200, lr=0.5, test=2000)


@pytest.mark.parametrize(
    "w", [(1, 0), (1, 0.3), (1, 1), (1, 2.5), (1, -0.4), (1, -3), (-1, 0.2), (-2, -5)]
)
@pytest.mark.parametrize("agrees", [0.7, 0.3])
def test_accuracies_are_those_of_a_sample(w, agrees):
    w = torch.tensor(w, dtype=torch.double)
    X, y = exact.sample(200_000, agrees, torch.Generator().manual_seed(0))
    right = float(((X @ w) * y > 0).double().mean())
    assert float(exact.accuracy(w, agrees)) == pytest.approx(right, abs=0.005)


def test_the_line_of_the_text():
    t = torch.linspace(0, 1, 5, dtype=torch.double)
    w = torch.stack([torch.ones(5, dtype=torch.double), t], 1)
    torch.testing.assert_close(exact.accuracy(w, 0.7), 1 - 0.15 * t)
    torch.testing.assert_close(exact.accuracy(w, 0.3), 1 - 0.35 * t)
    # 0.76 out of domain goes with 0.90 in domain.
    w = torch.tensor([1.0, (1 - 0.76) / 0.35], dtype=torch.double)
    assert float(exact.accuracy(w, 0.7)) == pytest.approx(0.897, abs=1e-3)


def test_the_nuclear_norm_is_the_sum_of_singular_values():
    F = torch.randn(4, 9, 2, generator=torch.Generator().manual_seed(1), dtype=torch.double)
    torch.testing.assert_close(exact.nuclear_norm(F), torch.linalg.svdvals(F).sum(-1))


def test_one_step_is_that_of_the_derivative_by_hand():
    """Without a penalty, for two logits: A moves along (1, -1) times the logistic gradient."""
    X, y = exact.sample(50, 0.7, torch.Generator().manual_seed(2))
    zero, w = (
        exact.trained(
            PROBLEM.model_copy(update={"penalty": [0.0], "steps": steps}),
            *("logits", X, y, torch.Generator().manual_seed(3)),
        )[0]
        for steps in (0, 1)
    )
    gradient = -(torch.sigmoid(-y * (X @ zero)) * y) @ X / 50
    torch.testing.assert_close(w, zero - 2 * 0.5 * gradient)


@pytest.mark.parametrize("model", ["logits", "head", "fixed_head"])
def test_every_reading_learns(model):
    for row in exact.measure({"model": model, "n": 100}, [0, 1], PROBLEM):
        if row["quantity"] == "id_accuracy":
            assert row["value"] > 0.9
            assert not math.isnan(row["stated"])
