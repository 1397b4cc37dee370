"""One sense of `diverged` for every study."""

import math

import torch

from rarefeat.model.divergence import diverged
from rarefeat.stages.pretrain import have_all_diverged


def test_diverged_above_twice_chance_loss():
    chance = math.log(128)
    loss = torch.tensor([0.0, chance, 1.99 * chance, 2.01 * chance, math.inf, math.nan])
    assert diverged(loss, 128).tolist() == [False, False, False, True, True, True]


def test_diverged_with_weights_not_finite():
    weights = torch.zeros(3, 4, 5)
    weights[1, 2, 3], weights[2, 0, 0] = math.nan, math.inf
    assert diverged(torch.ones(3), 128, weights).tolist() == [False, True, True]


def test_all_have_diverged_above_a_norm_of_a_million():
    weights, loss = torch.tensor([[[1e6], [0.0]]]), torch.zeros(1)
    assert have_all_diverged(1.01 * weights, loss)
    assert not have_all_diverged(0.99 * weights, loss)
