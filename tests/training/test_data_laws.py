"""Data laws have the frequencies that they are given, and what each one adds."""

import pytest
import torch

from rarefeat.model.sparse_coding import latent_pairs, spread_over_tokens
from rarefeat.training.data_laws import (
    classes,
    correlated,
    magnitudes,
    paper,
    power_law,
)

PROBABILITY = torch.tensor([0.4, 0.4, 0.2, 0.1], dtype=torch.float64)
N = 20_000


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize("law", [correlated, magnitudes, classes])
def test_law_keeps_frequencies_and_signs(law):
    features = law(N, seeded(), PROBABILITY)
    share = (features != 0).double().mean(0)
    assert torch.allclose(share, PROBABILITY, atol=0.015)
    assert features.sign().double().mean(0).abs().max() < 0.02


def test_paper_law_draws_the_chains_pairs():
    pairs = paper(50, seeded(), PROBABILITY, L=3)
    assert torch.equal(pairs, latent_pairs(50, 3, PROBABILITY, seeded()))


def test_correlated_supports_follow_rho():
    def correlation(rho: float) -> float:
        active = (correlated(N, seeded(), PROBABILITY, rho) != 0).double()
        return float(torch.corrcoef(active.T)[0, 1])

    assert abs(correlation(0.0)) < 0.03
    assert correlation(0.3) < correlation(0.9)
    assert correlation(1.0) == pytest.approx(1.0)


def test_power_law_frequencies_fall_with_rank():
    flat = torch.full((4,), 0.4, dtype=torch.float64)
    share = (power_law(N, seeded(), flat, exponent=1.0) != 0).double().mean(0)
    assert torch.allclose(share, 0.4 / torch.arange(1.0, 5.0).double(), atol=0.015)


def test_magnitudes_have_mean_square_one():
    features = magnitudes(N, seeded(), PROBABILITY, spread=0.3)
    size = features[features != 0]
    assert float(size.square().mean()) == pytest.approx(1.0, abs=0.05)
    assert float(size.abs().log().std()) == pytest.approx(0.3, abs=0.02)


def test_classes_nest_rarer_features_in_frequent_ones():
    active = classes(N, seeded(), PROBABILITY, size=2) != 0
    assert not (active[:, 3] & ~active[:, 2]).any()
    assert (active[:, 2] & ~active[:, 0]).any()


def test_spread_keeps_a_feature_in_each_view():
    features = correlated(200, seeded(), PROBABILITY)
    latents = spread_over_tokens(features, 3, seeded(1))
    assert latents.shape == (200, 2, 3, 4)
    assert torch.equal(latents.abs().amax(2), features.abs()[:, None].expand(-1, 2, -1))
    one = (latents != 0).double().sum(2)[(features != 0)[:, None].expand(-1, 2, -1)]
    assert float(one.mean()) == pytest.approx(2.0, abs=0.1)
