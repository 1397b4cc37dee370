"""The best-scaled loss: what no scale of the embeddings can beat, and why an excess of o(1) is out of reach here."""

import math

import pytest
import torch

from rarefeat.core.contrastive import best_scaled_infonce, infonce, infonce_floor


def loss(f_x, f_y, scale, tau=1.0):
    return infonce(scale * f_x, scale * f_y, tau).mean().item()


def test_no_scale_does_better_and_it_does_not_depend_on_the_scale_given():
    generator = torch.Generator().manual_seed(0)
    f_x = torch.randn(3, 16, 5, generator=generator, dtype=torch.float64)
    f_y = f_x + 0.7 * torch.randn(3, 16, 5, generator=generator, dtype=torch.float64)
    best = best_scaled_infonce(f_x, f_y, 0.5)
    tried = [loss(f_x, f_y, math.exp(x), 0.5) for x in torch.linspace(-4, 3, 200).tolist()]
    assert best <= min(tried) + 1e-9
    assert best == pytest.approx(min(tried), abs=1e-3)
    assert best_scaled_infonce(7 * f_x, 7 * f_y, 0.5) == pytest.approx(best, abs=1e-6)


def test_embeddings_that_say_nothing_have_the_loss_of_chance():
    assert best_scaled_infonce(torch.zeros(2, 8, 3), torch.zeros(2, 8, 3), 1.0) == pytest.approx(math.log(8))


def test_pairs_that_are_told_apart_need_no_loss():
    assert best_scaled_infonce(torch.eye(6)[None], torch.eye(6)[None], 1.0) < 1e-6


def test_an_empty_anchor_costs_more_than_its_floor_under_any_odd_encoder():
    """Signs of the features themselves, no noise: the excess over what identical latents make unavoidable is half a nat."""
    generator = torch.Generator().manual_seed(1)
    p = math.log(math.log(9)) / 9
    active = torch.rand(40, 128, 9, generator=generator) < p
    signs = active * (1 - 2 * torch.randint(2, active.shape, generator=generator)).float()
    excess = best_scaled_infonce(signs, signs, 1.0) - infonce_floor(signs).mean().item()
    assert 0.4 < excess < 0.8
