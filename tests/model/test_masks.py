"""The oracle's masks and the controls of magnitude pruning, on planted neurons."""

from pathlib import Path

import torch

from rarefeat.model.arms import (
    ARMS,
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


def test_oracle_gated_releases_large_neurons():
    weights = planted([0.5, 1.9, 2.1, 1e6])
    assert mask_oracle_all(PruningContext(weights, M, 1))[0].tolist() == [True] * 4 + [False] * 2
    assert mask_oracle_gated(PruningContext(weights, M, 1))[0].tolist() == [
        True,
        True,
        False,
        False,
        False,
        False,
    ]


def test_oracle_gated_level_is_mean_pure_majority_norm():
    weights = planted([1.0, 1.0])
    weights[0, 2] = torch.tensor(
        [50.0, 50.0, 0.0, 0.0, 0.0, 0.0]
    )  # a mixture of two majority features, as large as can be
    assert mask_oracle_gated(PruningContext(0.9 * weights, M, 1))[0, :2].all()
    weights[0, 3] *= 0.1
    assert not mask_oracle_gated(PruningContext(weights, M, 1)).any()


def test_oracle_gated_is_empty_without_pure_majority():
    assert not mask_oracle_gated(PruningContext(planted([0.1, 0.2], ()), M, 1)).any()


def test_oracle_partial_masks_smaller_half():
    assert (
        mask_oracle_partial(PruningContext(planted([3.0, 1.0, 2.0, 4.0]), M, 1))[0].tolist()
        == [False, True, True] + [False] * 3
    )
    assert mask_oracle_partial(PruningContext(planted([3.0, 1.0, 2.0]), M, 1))[0, :3].tolist() == [
        False,
        True,
        False,
    ]
    assert not mask_oracle_partial(PruningContext(planted([1.0]), M, 1)).any()
    assert not mask_oracle_partial(PruningContext(planted([]), M, 1)).any()


def test_oracle_nearest_masks_alpha_m_neurons():
    weights = planted([9.0, 0.1])
    weights[0, 2, 3] = 0.01
    for alpha, chosen in (
        (0.5, [True, True, False, False]),
        (0.75, [True, True, True, False]),
        (0.0, [False] * 4),
    ):
        assert mask_oracle_nearest(PruningContext(weights, M, 1, alpha))[0].tolist() == chosen


def test_controls_mask_as_many_other_neurons():
    weights = planted([1.0, 4.0, 2.0, 3.0], ())
    assert mask_smallest_norms(PruningContext(weights, M, 1, 0.5))[0].tolist() == [
        True,
        False,
        True,
        False,
    ]
    assert mask_largest_norms(PruningContext(weights, M, 1, 0.5))[0].tolist() == [
        False,
        True,
        False,
        True,
    ]
    draw = torch.tensor([[0.1, 0.2, 0.9, 0.3]])
    assert mask_random_neurons(PruningContext(weights, M, 1, 0.5, draw))[0].tolist() == [
        True,
        True,
        False,
        False,
    ]


def test_glossary_describes_every_arm():
    glossary = Path("docs/glossary.md").read_text(encoding="utf-8")
    assert all(f"| `{name}` | {arm.description} |" in glossary for name, arm in ARMS.items())
