"""The oracle's masks and the controls of magnitude pruning, on planted neurons."""

import torch

from rarefeat.model.arms import (
    PruningContext,
    mask_largest_norms,
    mask_oracle_all,
    mask_oracle_gated,
    mask_oracle_nearest,
    mask_oracle_partial,
    mask_random_neurons,
    mask_smallest_norms,
)

M = torch.eye(6)[None, :, :4]  # d1 = 6, d = 4; the last feature is the minority


def planted(minority, majority=(1.0, 3.0)):
    """Neurons along the minority feature and along a majority one, with these norms: (1, n, 6)."""
    columns = [3] * len(minority) + [0] * len(majority)
    return torch.tensor([*minority, *majority])[None, :, None] * torch.eye(6)[columns][None]


def masked(rule, weights, *rest) -> list[int]:
    return rule(PruningContext(weights, M, 1, *rest))[0].nonzero()[:, 0].tolist()


def test_oracle_gated_releases_large_neurons():
    weights = planted([0.5, 1.9, 2.1, 1e6])
    assert masked(mask_oracle_all, weights) == [0, 1, 2, 3]
    assert masked(mask_oracle_gated, weights) == [0, 1]


def test_oracle_gated_level_is_mean_pure_majority_norm():
    weights = planted([1.0, 1.0])
    # A mixture of two majority features, as large as can be, does not count.
    weights[0, 2] = torch.tensor([50.0, 50.0, 0.0, 0.0, 0.0, 0.0])
    assert masked(mask_oracle_gated, 0.9 * weights) == [0, 1]
    weights[0, 3] *= 0.1
    assert masked(mask_oracle_gated, weights) == []
    assert masked(mask_oracle_gated, planted([0.1, 0.2], ())) == [], "there is no pure majority"


def test_oracle_partial_masks_smaller_half():
    for norms, expected in (([3.0, 1.0, 2.0, 4.0], [1, 2]), ([3.0, 1.0, 2.0], [1]), ([1.0], [])):
        assert masked(mask_oracle_partial, planted(norms)) == expected
    assert masked(mask_oracle_partial, planted([])) == []


def test_oracle_nearest_masks_alpha_m_neurons():
    weights = planted([9.0, 0.1])
    weights[0, 2, 3] = 0.01
    for alpha, expected in ((0.5, [0, 1]), (0.75, [0, 1, 2]), (0.0, [])):
        assert masked(mask_oracle_nearest, weights, alpha) == expected
    assert mask_oracle_nearest(PruningContext(weights.flip(1), M, 2, 0.5))[0, 2:].all()


def test_controls_mask_as_many_other_neurons():
    weights, draw = planted([1.0, 4.0, 2.0, 3.0], ()), torch.tensor([[0.1, 0.2, 0.9, 0.3]])
    assert masked(mask_smallest_norms, weights, 0.5) == [0, 2]
    assert masked(mask_largest_norms, weights, 0.5) == [1, 3]
    assert masked(mask_random_neurons, weights, 0.5, draw) == [0, 1]
