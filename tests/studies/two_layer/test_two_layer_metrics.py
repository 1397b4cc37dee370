"""Measures on networks made by hand, and laws that hold for any."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rarefeat.studies.two_layer import metrics
from rarefeat.studies.two_layer.config import Problem
from rarefeat.studies.two_layer.data import LabelledPatterns
from rarefeat.studies.two_layer.reduced_training import TwoLayerNetwork


def neurons(
    w: list[list[float]], b: list[float] | None = None, outside: list[list[float]] | None = None
) -> TwoLayerNetwork:
    weight = torch.tensor(w)
    return TwoLayerNetwork(
        weight,
        torch.tensor(b or [0.0] * len(w)),
        torch.ones(len(w)),
        torch.zeros(len(w), 0) if outside is None else torch.tensor(outside),
    )


A = torch.tensor([0, 1])


def test_the_largest_cosine_is_guarded_against_zero_vectors():
    network = neurons([[1.0, 1.0, 0.0], [0.0, 0.0, 0.0]])
    assert metrics.largest_cosine(network, A) == pytest.approx(1)
    assert math.isnan(metrics.largest_cosine(neurons([[0.0, 0.0, 0.0]]), A))
    assert metrics.largest_cosine(neurons([[1e-12, 1e-12, 0.0]]), A) == pytest.approx(1, abs=1e-5)


def test_what_lies_outside_counts_in_the_norm():
    network = neurons([[1.0, 1.0, 0.0]], outside=[[1.0, 1.0]])
    assert metrics.largest_cosine(network, A) == pytest.approx(0.5**0.5)


@settings(max_examples=40)
@given(st.integers(0, 10**6), st.floats(1e-6, 1e6))
def test_cosines_do_not_know_scales(seed: int, scale: float):
    random = torch.Generator().manual_seed(seed)
    w, outside = (torch.randn(6, width, generator=random) for width in (4, 3))
    one = TwoLayerNetwork(w, torch.zeros(6), torch.ones(6), outside)
    found = metrics.cosines(one, A)
    other = metrics.cosines(one._replace(w=scale * one.w, outside=scale * one.outside), A)
    torch.testing.assert_close(found, other, rtol=1e-4, atol=1e-6)
    assert found.abs().max() <= 1 + 1e-6


def test_accuracy_counts_signs():
    g, y = torch.tensor([1.0, -2.0, 0.0, 3.0]), torch.tensor([1.0, -1.0, -1.0, -1.0])
    assert metrics.accuracy(g, y) == 0.75
    assert metrics.hinge_loss(g, y) == (0 + 0 + 1 + 4) / 4


def test_the_picture_keeps_angles_that_fit_a_plane():
    angle = torch.tensor([0.3, 1.4, 2.5, 4.0])
    points = torch.stack([angle.cos(), angle.sin()], 1)
    plane = metrics.embedding(points @ points.T)
    distances = torch.cdist(points, points).double()
    torch.testing.assert_close(torch.cdist(plane, plane), distances, rtol=0, atol=1e-5)


def test_similarities_leave_out_what_has_no_direction():
    network = neurons([[1.0, 0.0, 0.0], [0.0, 0.0, 0.0], [0.0, 2.0, 0.0]])
    cosines = metrics.similarities(network, torch.tensor([[1.0, 1.0, 0.0]]))
    assert cosines.shape == (3, 3)
    assert cosines[0, 2] == pytest.approx(0.5**0.5)


PROBLEM = Problem(labels="majority", d=4, D=4, k=3, frequency=[1, 1, 0.1])


def test_decisive_samples_change_class_without_the_rare_pattern():
    relevant = torch.tensor([0, 1, 3])
    patterns = torch.tensor([[1.0, 0, 0, 1], [1, 1, 0, 1], [1, 0, 0, 0], [0, 0, 1, 1]])
    sample = LabelledPatterns(patterns, torch.tensor([1.0, 1.0, -1.0, -1.0]))
    assert metrics.decisive(sample, PROBLEM, relevant).tolist() == [True, False, False, False]


def test_the_rare_ratio_is_the_slope():
    w = [[2.0, 2.0, 9.0, 0.5], [-4.0, -4.0, 9.0, -1.0], [0.0, 0.0, 1.0, 0.0]]
    relevant, frequency = torch.tensor([0, 1, 3]), [1, 1, 0.1]
    assert metrics.rare_ratio(neurons(w), relevant, frequency) == pytest.approx(0.25)
    assert math.isnan(metrics.rare_ratio(neurons(w[2:]), relevant, frequency))


def test_kinks_lie_where_the_line_crosses():
    count = torch.tensor([0.0, 1, 2, 3])
    x = count[:, None]
    found = metrics.kinks(neurons([[1.0], [2.0], [0.0]], [-1.5, 2.0, 0.3]), x, count)
    assert found[:2].tolist() == pytest.approx([1.5, -1.0])
    assert found[2].isnan()


@settings(max_examples=30)
@given(st.integers(0, 10**6), st.sampled_from(metrics.SCORES), st.integers(1, 12))
def test_a_ticket_is_that_many_different_neurons(seed: int, score: str, size: int):
    random = torch.Generator().manual_seed(seed)
    count = torch.randint(6, (50,), generator=random).float()
    w, b = torch.randn(12, 1, generator=random), torch.randn(12, generator=random)
    some = TwoLayerNetwork(w, b, torch.ones(12), torch.zeros(12, 0))
    some.w[3] = 0
    kept = metrics.ticket(some, score, size, count[:, None], count, 5, random)
    assert len(set(kept.tolist())) == size
    if score == "norm":
        norm = some.norm()
        rest = [i for i in range(12) if i not in kept.tolist()]
        assert not rest or norm[kept].min() >= norm[rest].max()
    if score == "kink":
        at = metrics.kinks(some, count[:, None], count)
        inside = ((at > 0) & (at < 5)).nonzero()[:, 0].tolist()
        assert len(set(kept.tolist()) & set(inside)) == min(size, len(inside))


def test_coverage_of_centres():
    centres = torch.tensor([[1.0, 1.0], [1.0, -1.0]])
    found = metrics.coverage(neurons([[3.0, 3.0], [1.0, 0.0], [0.0, 0.0]]), centres)
    assert found.tolist() == pytest.approx([1.0, 0.5**0.5])
    assert metrics.coverage(neurons([[0.0, 0.0]]), centres).isnan().all()
