"""The oracle's three masks and the controls of magnitude pruning, on planted neurons."""

import torch

from rarefeat.core.pruning import (
    largest_mask,
    neuron_mask,
    oracle_gated_mask,
    oracle_mask,
    oracle_partial_mask,
    random_mask,
)

M = torch.eye(6)[None, :, :4]  # d1 = 6, d = 4; the last feature is the minority


def planted(minority, majority=(1.0, 3.0)):
    """Neurons along the minority feature and along a majority one, with these norms: (1, n, 6)."""
    columns = [3] * len(minority) + [0] * len(majority)
    return torch.tensor([*minority, *majority])[None, :, None] * torch.eye(6)[columns][None]


def test_the_gated_oracle_lets_go_of_neurons_that_have_grown_up_to_the_majority():
    weights = planted([0.5, 1.9, 2.1, 1e6])
    assert oracle_mask(weights, M, 1)[0, :, 0].tolist() == [True] * 4 + [False] * 2
    assert oracle_gated_mask(weights, M, 1)[0, :, 0].tolist() == [True, True, False, False, False, False]


def test_the_gate_is_the_mean_norm_of_pure_majority_neurons_alone():
    weights = planted([1.0, 1.0])
    weights[0, 2] = torch.tensor([50.0, 50.0, 0.0, 0.0, 0.0, 0.0])  # a mixture of two majority features, as large as can be
    assert oracle_gated_mask(0.9 * weights, M, 1)[0, :2, 0].all()
    weights[0, 3] *= 0.1
    assert not oracle_gated_mask(weights, M, 1).any()


def test_without_a_pure_majority_neuron_the_gated_oracle_prunes_nothing():
    assert not oracle_gated_mask(planted([0.1, 0.2], ()), M, 1).any()


def test_the_partial_oracle_takes_the_smaller_half_rounded_down():
    assert oracle_partial_mask(planted([3.0, 1.0, 2.0, 4.0]), M, 1)[0, :, 0].tolist() == [False, True, True] + [False] * 3
    assert oracle_partial_mask(planted([3.0, 1.0, 2.0]), M, 1)[0, :3, 0].tolist() == [False, True, False]
    assert not oracle_partial_mask(planted([1.0]), M, 1).any()
    assert not oracle_partial_mask(planted([]), M, 1).any()


def test_each_replica_has_a_mask_of_its_own():
    both = torch.cat([planted([1.0, 0.5, 9.0]), planted([5.0, 4.0, 0.5])])
    dictionary = M.repeat(2, 1, 1)
    for mask in (oracle_mask, oracle_gated_mask, oracle_partial_mask):
        together = mask(both, dictionary, 1)
        assert together.shape == (2, 5, 1)
        for index in range(2):
            assert torch.equal(together[index : index + 1], mask(both[index : index + 1], M, 1))


def test_the_controls_prune_as_many_neurons_as_magnitude_pruning_and_others():
    weights = planted([1.0, 4.0, 2.0, 3.0], ())
    assert neuron_mask(weights, 0.5)[0, :, 0].tolist() == [True, False, True, False]
    assert largest_mask(weights, 0.5)[0, :, 0].tolist() == [False, True, False, True]
    assert random_mask(torch.tensor([[0.1, 0.2, 0.9, 0.3]]), 0.5)[0, :, 0].tolist() == [True, True, False, False]
