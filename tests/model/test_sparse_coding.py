import itertools
import math

import numpy as np
import pytest
import torch
from conftest import seeded
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chi2_contingency, chisquare

from rarefeat.model.simulators import DirectSimulator
from rarefeat.model.sparse_coding import (
    aggregated_sign,
    balancing_weights,
    dictionary,
    frequencies,
    latent_pairs,
)
from rarefeat.model.theory import activation_probability
from rarefeat.stages.synthesise import synthesise
from rarefeat.workflow.config.model import Data

# Thresholds on z-scores and p-values: 100 comparisons give a false alarm with
# probability below 1e-4.
Z = 5.0
P = 1e-6
D, L, C = 9, 4, 1.0
EPS = frequencies(D, [1.0, 0.5], 0.6)
PROBABILITY = activation_probability(EPS, C)
# An active feature is kept by a token with (L + 1) / (2 L).
TOKEN_PROBABILITY = PROBABILITY * (L + 1) / (2 * L)


@pytest.fixture(scope="module")
def pairs():
    """Latent pairs (n, 2, L, d), two minority features with eps_j of their own."""
    return latent_pairs(60_000, L, PROBABILITY, seeded(0))


@pytest.fixture(scope="module")
def dense_pairs():
    """Latent pairs in which every feature is active, so that token patterns can be counted."""
    return latent_pairs(30_000, 3, torch.ones(2, dtype=torch.float64), seeded(1))


def z_scores(values, expected):
    """Of the means over the first axis, (n, ...) -> (...)."""
    values = values.double()
    return (values.mean(0) - expected) / (values.std(0) / math.sqrt(len(values)))


def patterns(views):
    """Which tokens keep a feature, as a number, (n, L) -> (n,)."""
    return ((views != 0).long() * 2 ** torch.arange(views.shape[-1])).sum(-1)


def test_frequencies_scale_minority_by_eps_min():
    expected = [1, 1, 1, 0.3, 0.15]
    torch.testing.assert_close(
        frequencies(5, [1.0, 0.5], 0.3), torch.tensor(expected, dtype=torch.float64)
    )


def test_activation_probability_equals_closed_form():
    assert activation_probability(EPS, 2.0)[0].item() == pytest.approx(
        2 * math.log(math.log(9)) / 9
    )
    assert activation_probability(EPS, 2.0)[8].item() == pytest.approx(
        0.3 * 2 * math.log(math.log(9)) / 9
    )


@given(st.integers(1, 12), st.integers(0, 30), st.integers(0, 2**31))
def test_dictionary_is_column_orthonormal(d, extra, seed):
    M = dictionary(d + extra, d, seeded(seed))
    assert M.shape == (d + extra, d)
    torch.testing.assert_close(M.T @ M, torch.eye(d), atol=1e-6, rtol=0)


def test_dictionary_is_uniform_over_frames():
    d1, n = 6, 4000
    M = torch.stack([dictionary(d1, 3, g) for g in [seeded(3)] for _ in range(n)])
    assert z_scores(M, 0.0).abs().max() < Z
    assert z_scores(M.square(), 1 / d1).abs().max() < Z
    # A QR decomposition with the signs of LAPACK would fix the sign of the first entry.
    assert z_scores(M[:, 0, 0].sign(), 0.0).abs() < Z


def test_features_are_active_at_their_rates(pairs):
    active = (aggregated_sign(pairs[:, 0]) != 0).double()
    z = (active.mean(0) - PROBABILITY) / (PROBABILITY * (1 - PROBABILITY) / len(pairs)).sqrt()
    assert z.abs().max() < Z


def test_tokens_have_equal_rates(pairs):
    rate = TOKEN_PROBABILITY
    z = z_scores((pairs != 0).double(), rate)
    assert z.shape == (2, L, D)
    assert z.abs().max() < Z


def test_signs_are_symmetric(pairs):
    assert z_scores(aggregated_sign(pairs[:, 0]), 0.0).abs().max() < Z


def test_token_patterns_have_one_certain_token(dense_pairs):
    expected = np.array([pattern.bit_count() / 3 / 4 for pattern in range(8)])
    for view, feature in itertools.product(range(2), range(2)):
        counts = np.bincount(patterns(dense_pairs[:, view, :, feature]).numpy(), minlength=8)
        assert counts[0] == 0
        assert chisquare(counts[1:], expected[1:] * len(dense_pairs)).pvalue > P


def test_features_are_independent(pairs):
    n = len(pairs)
    active = (aggregated_sign(pairs[:, 0]) != 0).double()
    signed = aggregated_sign(pairs[:, 0]).double()
    for values in (active, signed):
        correlation = torch.corrcoef(values.T) - torch.eye(D)
        assert correlation.abs().max() < Z / math.sqrt(n)


def test_token_patterns_of_two_features_are_independent(dense_pairs):
    table = np.zeros((8, 8))
    np.add.at(table, tuple(patterns(dense_pairs[:, 0, :, j]).numpy() for j in range(2)), 1)
    assert chi2_contingency(table[1:, 1:]).pvalue > P


def test_positive_pairs_share_nothing_else(dense_pairs):
    """Given the support, token patterns of the views are independent, also of the sign."""
    first, second = (patterns(dense_pairs[:, view, :, 0]).numpy() for view in (0, 1))
    sign = (aggregated_sign(dense_pairs[:, 0])[:, 0] > 0).long().numpy()

    def pvalue(rows, columns, shape):
        table = np.zeros(shape)
        np.add.at(table, (rows, columns), 1)
        return chi2_contingency(table[:, 1:] if shape[0] == 2 else table[1:, 1:]).pvalue

    assert pvalue(first, second, (8, 8)) > P
    assert pvalue(sign, first, (2, 8)) > P
    # The same comparison sees a leak: in one pair of twenty both views keep the same tokens.
    leaking = second.copy()
    leaking[::20] = first[::20]
    assert pvalue(first, leaking, (8, 8)) < P


probabilities = st.lists(st.floats(0, 1), min_size=1, max_size=6).map(
    lambda p: torch.tensor(p, dtype=torch.float64)
)
seeds = st.integers(0, 2**31)


@given(st.integers(1, 20), st.integers(1, 5), probabilities, seeds)
def test_latent_pairs_satisfy_assumptions_in_every_draw(n, tokens_per_sample, probability, seed):
    z = latent_pairs(n, tokens_per_sample, probability, seeded(seed))
    assert z.shape == (n, 2, tokens_per_sample, len(probability))
    assert z.dtype == torch.int8
    assert z.abs().max() <= 1
    # One sign per feature and sample, shared by the tokens and the views, as is the support.
    assert torch.equal(z, z.abs() * aggregated_sign(z)[:, :, None])
    assert torch.equal(aggregated_sign(z[:, 0]), aggregated_sign(z[:, 1]))


def test_synthesise_is_nested_in_eps_min():
    data = Data(
        d=9,
        d1=12,
        L=4,
        C=2.0,
        minority=[1.0, 0.5],
        N=400,
        probe_pairs=50,
        test_pairs=60,
    )
    rare, common = (synthesise("study", data, eps_min, [3]) for eps_min in (0.2, 0.7))
    for part in ("train", "probe_matched", "test_matched"):
        assert torch.equal(rare[part][..., :-2], common[part][..., :-2])
        on = (aggregated_sign(rare[part]) != 0).unsqueeze(-2)
        assert torch.equal(rare[part], common[part] * on)
        assert rare[part][..., -2:].abs().sum() < common[part][..., -2:].abs().sum()
    for part in ("probe_balanced", "test_balanced"):
        assert torch.equal(rare[part], common[part])


def token_latents(shape, seed, d=3):
    """Float latents (*shape, d) in which half the entries are not zero."""
    z = latent_pairs(math.prod(shape), 1, torch.full((d,), 0.5, dtype=torch.float64), seeded(seed))
    return z[:, 0, 0].view(*shape, d).float()


def test_direct_tokens_equal_m_z_plus_sigma_xi():
    latents = token_latents((2, 5, 4), 6)
    M = torch.stack([dictionary(7, 3, seeded(s)) for s in (7, 8)])
    x = DirectSimulator(M, 1).sample_tokens(latents, 0.3, [seeded(5), seeded(9)])
    noise = torch.stack([torch.randn(20, 7, generator=seeded(s)).view(5, 4, 7) for s in (5, 9)])
    expected = torch.einsum("sij,snlj->snli", M.double(), latents.double()) + 0.3 * noise.double()
    torch.testing.assert_close(x.double(), expected, atol=1e-6, rtol=0)


def test_balancing_weights_equalise_the_frequencies():
    probability = torch.tensor([0.3, 0.3, 0.05, 0.1], dtype=torch.float64)
    pairs = latent_pairs(20_000, 2, probability, torch.Generator().manual_seed(0))
    weights = balancing_weights(pairs[None], 2)[0]
    active = (pairs[:, 0] != 0).any(1).double()
    weighted = weights @ active / len(pairs)
    assert weights.mean().item() == pytest.approx(1)
    assert weighted.tolist() == pytest.approx([0.3] * 4, abs=0.02)
    equal = balancing_weights(pairs[..., :2], 1)
    assert equal.std().item() < 0.05


def test_balancing_weights_without_the_feature_are_one():
    pairs = torch.zeros(5, 2, 3, 4, dtype=torch.int8)
    pairs[:3, :, :, 0] = 1
    assert balancing_weights(pairs, 1).tolist() == [1.0] * 5
