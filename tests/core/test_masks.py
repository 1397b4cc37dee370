"""The oracle's masks and the controls of magnitude pruning, on planted neurons."""

from pathlib import Path

import torch

from rarefeat.core.arms import (
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


def test_the_gated_oracle_lets_go_of_neurons_that_have_grown_up_to_the_majority():
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


def test_the_gate_is_the_mean_norm_of_pure_majority_neurons_alone():
    weights = planted([1.0, 1.0])
    weights[0, 2] = torch.tensor(
        [50.0, 50.0, 0.0, 0.0, 0.0, 0.0]
    )  # a mixture of two majority features, as large as can be
    assert mask_oracle_gated(PruningContext(0.9 * weights, M, 1))[0, :2].all()
    weights[0, 3] *= 0.1
    assert not mask_oracle_gated(PruningContext(weights, M, 1)).any()


def test_without_a_pure_majority_neuron_the_gated_oracle_prunes_nothing():
    assert not mask_oracle_gated(PruningContext(planted([0.1, 0.2], ()), M, 1)).any()


def test_the_partial_oracle_takes_the_smaller_half_rounded_down():
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


def test_the_nearest_oracle_takes_as_many_neurons_whatever_their_cosines_and_norms():
    weights = planted([9.0, 0.1])
    weights[0, 2, 3] = 0.01
    for alpha, chosen in (
        (0.5, [True, True, False, False]),
        (0.75, [True, True, True, False]),
        (0.0, [False] * 4),
    ):
        assert mask_oracle_nearest(PruningContext(weights, M, 1, alpha))[0].tolist() == chosen


def test_the_controls_prune_as_many_neurons_as_magnitude_pruning_and_others():
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


def test_the_glossary_has_every_arm_with_its_description():
    glossary = Path("docs/glossary.md").read_text(encoding="utf-8")
    assert all(f"| `{name}` | {arm.description} |" in glossary for name, arm in ARMS.items())
