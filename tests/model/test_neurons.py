import math

import pytest
import torch
from conftest import seeded
from hypothesis import given
from hypothesis import strategies as st

from rarefeat.model.neurons import (
    alignment_metrics,
    feature_share,
    lucky_neurons,
    minority_overlap,
    ordinary_neurons,
)
from rarefeat.model.sparse_coding import dictionary as draw_dictionary

seeds = st.integers(0, 2**31)
sizes = st.integers(3, 12)


def layer(d, seed, m=20, S=2, d1=None):
    """Random weights (S, m, d1) and dictionaries (S, d1, d), float64."""
    g = seeded(seed)
    d1 = d1 or d + 5
    M = torch.stack([draw_dictionary(d1, d, g) for _ in range(S)]).double()
    return torch.randn(S, m, d1, generator=g, dtype=torch.float64), M


def hand_made():
    """Five neurons in R^5 and four features, the last two the minority: (1, 5, 5), (1, 5, 4)."""
    weights = torch.tensor(
        [
            [2.0, 0.0, 0.0, 0.0, 0.0],  # pure majority
            [0.0, 0.0, 0.0, -0.1, 0.0],  # pure minority
            [0.0, 0.6, 0.8, 0.0, 0.0],  # a mixture
            [0.0, 0.0, 0.4, 0.0, 2.0],  # mostly outside the features
            [0.0, 0.0, 0.0, 0.0, 0.0],  # dead
        ]
    )
    return weights[None], torch.eye(5)[None, :, :4]


@given(sizes, seeds)
def test_feature_share_equals_projection_of_eq_34(d, seed):
    weights, M = layer(d, seed)
    projected = weights @ M @ M.mT
    expected = projected.square().sum(-1) / weights.square().sum(-1)
    torch.testing.assert_close(feature_share(weights, M), expected, rtol=1e-5, atol=1e-6)


def naive_sets(weights, M, ratio, gamma):
    """Eq. (26)-(28) in loops: weights (m, d1), M (d1, d) -> two sets of (i, j)."""
    d = M.shape[1]
    c1, c2 = (1 / ratio) ** 2 * 2 * (1 + gamma), ratio**2 * 2 * (1 - gamma)
    ordinary, lucky = set(), set()
    for i, w in enumerate(weights):
        projected = M @ M.T @ w
        scale = math.log(d) / d * float(projected @ projected)
        squared = [float(w @ M[:, j]) ** 2 for j in range(d)]
        for j in range(d):
            if squared[j] >= c2 * scale:
                ordinary.add((i, j))
            if squared[j] >= c1 * scale and all(
                squared[k] <= c2 * scale for k in range(d) if k != j
            ):
                lucky.add((i, j))
    return ordinary, lucky


def as_set(mask):
    return {tuple(index) for index in mask.nonzero().tolist()}


@given(sizes, seeds, st.floats(0.05, 1), st.floats(0, 0.2))
def test_neuron_sets_equal_definition_b_1(d, seed, ratio, gamma):
    weights, M = layer(d, seed, m=30)
    weights[:, :d] = M.mT  # pure neurons among them
    ordinary, lucky = (
        select(weights, M, ratio, gamma) for select in (ordinary_neurons, lucky_neurons)
    )
    for s in range(2):
        assert (as_set(ordinary[s]), as_set(lucky[s])) == naive_sets(weights[s], M[s], ratio, gamma)


def test_neuron_sets_are_not_empty_for_many_features():
    """At d = 40 and ratio 1 lucky neurons exist, so the comparison above is not of empty sets."""
    weights, M = layer(40, 1, m=400)
    ordinary, lucky = ordinary_neurons(weights, M, 1.0), lucky_neurons(weights, M, 1.0)
    assert 0 < lucky.sum() < ordinary.sum() < ordinary.numel()
    for s in range(2):
        assert (as_set(ordinary[s]), as_set(lucky[s])) == naive_sets(weights[s], M[s], 1.0, 0.01)


def test_alignment_metrics_by_hand():
    weights, M = hand_made()
    cosine = 0.4 / math.sqrt(4.16)
    one = alignment_metrics(weights, M, 1)
    assert one["aligned_neurons"].tolist() == [1.0]
    assert one["max_alignment"].tolist() == pytest.approx([1.0])
    assert one["majority_alignment"].tolist() == pytest.approx([(1.0 + 0.6 + 0.8) / 3])
    assert one["pure_neurons"].tolist() == [2.0]
    assert one["pure_minority_neurons"].tolist() == [1.0]
    assert one["feature_share"].tolist() == pytest.approx([(3 + cosine**2) / 5])
    assert one["energy_ratio"].tolist() == pytest.approx([0.03 / (4 + 0.36 + 0.64 + 0.16)])
    two = alignment_metrics(weights, M, 2)
    assert two["aligned_neurons"].tolist() == [1.0]  # one for each of the two features
    assert two["max_alignment"].tolist() == pytest.approx([0.9])
    assert two["majority_alignment"].tolist() == pytest.approx([0.8])
    assert two["pure_minority_neurons"].tolist() == [1.0]


@pytest.mark.parametrize(
    ("cosine", "aligned", "pure"), [(0.299, 0, 0), (0.301, 1, 0), (0.899, 1, 0), (0.901, 1, 1)]
)
def test_alignment_thresholds(cosine, aligned, pure):
    weights = torch.tensor([[[0.0, cosine, math.sqrt(1 - cosine**2)]]])
    metrics = alignment_metrics(weights, torch.eye(3)[None, :, :2], 1)
    assert metrics["aligned_neurons"].item() == aligned
    assert metrics["pure_neurons"].item() == metrics["pure_minority_neurons"].item() == pure


@pytest.mark.parametrize(
    ("neurons", "minority", "overlap"),
    [([0, 1], 1, 0.5), ([1], 1, 1.0), ([0, 2, 4], 1, 0.0), ([0, 1, 2, 4], 2, 0.5)],
)
def test_overlap_of_neuron_mask_by_hand(neurons, minority, overlap):
    """With two minority features, the mixture is aligned with one of them."""
    mask = torch.isin(torch.arange(5), torch.tensor(neurons))[None]
    assert minority_overlap(mask, *hand_made(), minority).item() == overlap


def test_overlap_of_empty_mask_is_nan_per_replica():
    weights, M = (part.repeat(2, 1, 1) for part in hand_made())
    neurons = torch.zeros(2, 5, dtype=torch.bool)
    single = torch.zeros(2, 5, 5, dtype=torch.bool)
    neurons[1, :2] = single[1, 1, 3:] = single[1, 0, 4] = True
    for mask, share in ((neurons, 1 / 2), (single, 2 / 3)):
        value = minority_overlap(mask, weights, M, 1)
        assert math.isnan(value[0])
        assert value[1].item() == pytest.approx(share)
