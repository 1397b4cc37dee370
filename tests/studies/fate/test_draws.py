"""Ways of drawing training pairs: what each keeps, and what it takes away."""

import pytest
import torch
from conftest import of_size

from rarefeat.model.randomness import generator
from rarefeat.model.sparse_coding import aggregated_sign
from rarefeat.studies.fate.draws import (
    CellSettings,
    Sample,
    draw_latent_pairs,
    holds_rare,
    plant_ties,
    redraw_signs,
    redraw_tokens,
    sign_ties,
)

REUSE = of_size("quick").sections["fate"].studies["reuse"]


def settings(latents="plain", N=256, eps_min=1.0) -> CellSettings:
    return CellSettings("test", REUSE.data, REUSE.training, latents, N, 0.05, eps_min)


def draw(n: int = 4000, eps_min: float = 1.0, latents: str = "plain") -> torch.Tensor:
    return draw_latent_pairs(n, settings(latents, eps_min=eps_min), generator("test", 1, "train"))


def rng() -> torch.Generator:
    return generator("test", 1, "visits")


def test_redraw_signs_changes_the_rare_sign_alone():
    pairs = draw()
    visited = redraw_signs(pairs, rng())
    assert (visited[..., :-1] == pairs[..., :-1]).all()
    assert (visited[..., -1].abs() == pairs[..., -1].abs()).all()
    first, second = (aggregated_sign(visited[:, view])[:, -1] for view in (0, 1))
    assert (first == second).all()
    kept = (aggregated_sign(pairs[:, 0])[:, -1] == first)[holds_rare(pairs)].double().mean()
    assert 0.3 < kept < 0.7


def test_redraw_tokens_keeps_features_and_signs():
    pairs = draw()
    visited = redraw_tokens(pairs, rng())
    for view in (0, 1):
        assert (aggregated_sign(visited[:, view]) == aggregated_sign(pairs[:, view])).all()
    has = holds_rare(pairs)
    same = (visited[has, ..., -1] == pairs[has, ..., -1]).flatten(1).all(1).double().mean()
    assert same < 0.2


def test_plant_ties_plants_those_of_a_sample():
    """In the mean over many fresh pairs; the cut of the probability takes a little of them."""
    ties = sign_ties(draw(2048, 0.3))
    assert ties.abs().max() > 0.2
    fresh = draw(400_000, 0.3)
    planted = sign_ties(plant_ties(fresh, ties, rng()))
    assert planted == pytest.approx(ties, abs=0.25)
    shrunk = (planted @ ties) / ties.square().sum()
    assert 0.8 < shrunk < 1.05
    assert sign_ties(fresh).abs().max() < 0.12


@pytest.mark.parametrize(
    ("latents", "comes_back", "varies"),
    [
        ("plain", True, False),
        ("new_signs", True, True),
        ("new_tokens", True, True),
        ("planted_ties", False, True),
    ],
)
def test_sample_visits_pairs_again(latents, comes_back, varies):
    """The first epoch and the second have the same pairs, but for what a visit draws."""
    sample = Sample(settings(latents), 1)
    K = REUSE.training.K
    epochs = []
    for _ in range(2):
        pairs = [sample.next_batch()[:K].abs().amax(1) for _ in range(256 // K)]
        epochs.append(sorted(map(tuple, torch.cat(pairs).tolist())))
    assert (epochs[0] == epochs[1]) == comes_back
    sample = Sample(settings(latents), 1)
    first, second = (sample.visit(sample.pairs, sample.visits) for _ in range(2))
    assert bool((first != second).any()) == varies


def test_antithetic_pairs_have_no_chance_correlation():
    sums, plain = (draw(latents=way).long().sum(2) for way in ("antithetic", "plain"))
    assert (sums[:, :, -1:] * sums[:, :, :-1]).sum(0).abs().max() == 0
    assert (plain[:, :, -1:] * plain[:, :, :-1]).sum(0).abs().max() > 0


def test_apart_pairs_have_the_rare_feature_alone():
    """It is as frequent as before, and the pairs without it stay as they are."""
    plain, apart = draw(), draw(latents="apart")
    has_rare = holds_rare(plain)
    assert has_rare.any()
    assert (apart[has_rare][..., :-1] == 0).all()
    assert (apart[..., -1] == plain[..., -1]).all()
    assert (apart[~has_rare] == plain[~has_rare]).all()
