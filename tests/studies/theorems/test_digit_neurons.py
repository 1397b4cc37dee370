"""Clusters on planted neurons; training on the digits."""

import pytest
import torch

from rarefeat.errors import RarefeatError
from rarefeat.studies.theorems import digit_neurons as exact
from rarefeat.studies.theorems.problems import DigitProblem

PROBLEM = DigitProblem(m=12, steps=60, batch=60, momentum=0.95, lr=0.1)


def test_images_are_centred_and_of_two_classes():
    x, y = exact.images()
    assert x.mean(0).abs().max() < 1e-5
    assert float(x.norm(dim=1).mean()) == pytest.approx(1, abs=1e-5)
    assert set(y.tolist()) == {-1.0, 1.0}


@pytest.mark.parametrize("number", [2, 4])
def test_planted_clusters_are_counted(number):
    stream = torch.Generator().manual_seed(0)
    centres = torch.randn(number, 64, generator=stream)
    w = centres.repeat(10, 1) + 0.1 * torch.randn(10 * number, 64, generator=stream)
    # Directions are compared, not sizes.
    w = w * torch.rand(len(w), 1, generator=stream)
    found, silhouette = exact.clusters(w, 0)
    assert found == number
    assert silhouette > 0.7
    assert exact.clusters(torch.randn(40, 64, generator=stream), 0)[1] < 0.1


def test_a_score_is_a_sum_of_clipped_neurons():
    w, b, a = torch.eye(3), torch.tensor([0.0, 0.5, -1.0]), torch.tensor([1.0, 2.0, 4.0])
    x = torch.tensor([[0.5, -1.0, 3.0]])
    assert float(exact.scores(w, b, a, x)) == pytest.approx(0.5 * 1 + 0 * 2 + 1 * 4)


def test_small_weights_gather():
    rows = exact.measure({"sigma": 0.1}, [1], PROBLEM)
    first, last = (
        {row["quantity"]: row["value"] for row in rows if row["at"] == step} for step in (0, 60)
    )
    assert last["accuracy"] > 0.95
    assert last["median_cosine"] > first["median_cosine"] + 0.3


def test_a_training_that_diverges_says_so():
    x, y = exact.images()
    with pytest.raises(RarefeatError, match="digits diverged"):
        exact.trained(PROBLEM, 1.0, x * torch.nan, y, torch.Generator().manual_seed(0))
