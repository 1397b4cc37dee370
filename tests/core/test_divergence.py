"""One sense of `diverged` for every study."""

import math

import torch

from rarefeat.core.divergence import diverged


def test_a_loss_above_twice_that_of_chance_has_diverged():
    chance = math.log(128)
    loss = torch.tensor([0.0, chance, 1.99 * chance, 2.01 * chance, math.inf, math.nan])
    assert diverged(loss, 128).tolist() == [False, False, False, True, True, True]


def test_weights_that_are_not_finite_have_diverged_whatever_the_loss():
    weights = torch.zeros(3, 4, 5)
    weights[1, 2, 3], weights[2, 0, 0] = math.nan, math.inf
    assert diverged(torch.ones(3), 128, weights).tolist() == [False, True, True]
