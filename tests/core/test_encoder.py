import math

import pytest
import torch
from conftest import embed, seeded
from hypothesis import given
from hypothesis import strategies as st

from rarefeat.core.encoder import attend, attention, brelu, pre_activations, respond

finite = st.floats(-10, 10)
thresholds = st.floats(0, 5)


def naive_attention(x):
    """Softmax of the inner products, one token at a time: x (L, d1) -> (L, L)."""
    L = len(x)
    rows = []
    for r in range(L):
        scores = [math.exp(float(x[r] @ x[s])) for s in range(L)]
        rows.append([score / sum(scores) for score in scores])
    return torch.tensor(rows, dtype=torch.float64)


def naive_embedding(x, weights, bias):
    """Eq. (4), one neuron and one token at a time: x (L, d1), weights (m, d1), bias (m,) -> (m,)."""
    mixed = naive_attention(x)
    h = []
    for w, b in zip(weights, bias.tolist(), strict=True):
        total = 0.0
        for r in range(len(x)):
            attended = sum(mixed[r, s] * x[s] for s in range(len(x)))
            s = float(w @ attended)
            total += max(s - b, 0.0) - max(-s - b, 0.0)
        h.append(total)
    return torch.tensor(h, dtype=torch.float64)


def test_attention_rows_sum_to_one_and_equal_a_naive_loop():
    x = torch.randn(2, 3, 4, 6, generator=seeded(0), dtype=torch.float64)
    weights = attention(x)
    torch.testing.assert_close(weights.sum(-1), torch.ones(2, 3, 4, dtype=torch.float64))
    for S in range(2):
        for n in range(3):
            torch.testing.assert_close(weights[S, n], naive_attention(x[S, n]))


def test_attention_of_a_single_token_is_one():
    assert torch.equal(attention(torch.randn(2, 1, 5, generator=seeded(1))), torch.ones(2, 1, 1))


def test_attention_stays_finite_for_large_tokens():
    x = 30 * torch.eye(4)[None]
    torch.testing.assert_close(attention(x), torch.eye(4)[None])


@given(finite, thresholds)
def test_brelu_is_its_formula(s, b):
    value = brelu(torch.tensor(s, dtype=torch.float64), b).item()
    assert value == pytest.approx(max(s - b, 0.0) - max(-s - b, 0.0), abs=1e-12)


@given(finite, thresholds)
def test_brelu_is_odd(s, b):
    s = torch.tensor(s, dtype=torch.float64)
    assert brelu(-s, b) == -brelu(s, b)


@given(st.floats(-1, 1), thresholds)
def test_brelu_is_exactly_zero_inside_the_band(share, b):
    assert brelu(torch.tensor(share * b, dtype=torch.float64), b).item() == 0.0


@given(finite, finite, thresholds)
def test_brelu_is_monotone_and_1_lipschitz(s, t, b):
    low, high = torch.tensor(sorted((s, t)), dtype=torch.float64)
    difference = (brelu(high, b) - brelu(low, b)).item()
    assert -1e-12 <= difference <= (high - low).item() + 1e-12


@given(finite)
def test_brelu_without_bias_is_the_identity(s):
    s = torch.tensor(s, dtype=torch.float64)
    assert torch.equal(brelu(s, 0.0), s)


def test_embed_equals_a_naive_loop_over_tokens():
    S, n, L, d1, m = 2, 3, 4, 6, 5
    x = torch.randn(S, n, L, d1, generator=seeded(2), dtype=torch.float64)
    weights = torch.randn(S, m, d1, generator=seeded(3), dtype=torch.float64)
    bias = 1.5 * torch.rand(S, m, generator=seeded(4), dtype=torch.float64)
    f = embed(x, weights, bias)
    assert f.shape == (S, n, m)
    expected = torch.stack([torch.stack([naive_embedding(x[s, k], weights[s], bias[s]) for k in range(n)]) for s in range(S)])
    torch.testing.assert_close(f, expected)


def test_embed_is_odd_in_the_weights_and_zero_under_a_large_bias():
    x = torch.randn(1, 3, 4, 6, generator=seeded(5), dtype=torch.float64)
    weights = torch.randn(1, 5, 6, generator=seeded(6), dtype=torch.float64)
    bias = torch.full((1, 5), 0.4, dtype=torch.float64)
    torch.testing.assert_close(embed(x, -weights, bias), -embed(x, weights, bias))
    assert embed(x, weights, bias).abs().max() > 0.1
    assert torch.equal(embed(x, weights, bias + 1e3), torch.zeros(1, 3, 5, dtype=torch.float64))


def test_embed_does_not_depend_on_the_order_of_the_tokens():
    x = torch.randn(1, 3, 4, 6, generator=seeded(7), dtype=torch.float64)
    weights = torch.randn(1, 5, 6, generator=seeded(8), dtype=torch.float64)
    bias = torch.full((1, 5), 0.4, dtype=torch.float64)
    torch.testing.assert_close(embed(x[:, :, [2, 0, 3, 1]], weights, bias), embed(x, weights, bias))


def test_respond_applies_the_bias_of_each_neuron_before_the_sum_over_tokens():
    pre = torch.tensor([[[[1.0, 1.0], [-0.5, 3.0]]], [[[1.0, 1.0], [-0.5, 3.0]]]])
    bias = torch.tensor([[0.0, 2.0], [0.25, 0.5]])
    assert torch.equal(respond(pre, bias), torch.tensor([[[0.5, 1.0]], [[0.5, 3.0]]]))


def test_attended_tokens_are_the_tokens_mixed_by_the_attention():
    x = torch.randn(2, 3, 4, 6, generator=seeded(9), dtype=torch.float64)
    torch.testing.assert_close(attend(x), torch.einsum("sntu,snup->sntp", attention(x), x))


def test_pre_activations_see_the_coordinates_of_the_weights_and_no_others():
    """What a token has beyond takes part in the attention alone."""
    x = torch.randn(2, 3, 4, 6, generator=seeded(10), dtype=torch.float64)
    weights = torch.randn(2, 5, 4, generator=seeded(11), dtype=torch.float64)
    expected = torch.einsum("sntp,smp->sntm", x[..., :4], weights)
    torch.testing.assert_close(pre_activations(x, weights), expected)
    padded = torch.nn.functional.pad(weights, (0, 2))
    bias = torch.full((2, 5), 0.3, dtype=torch.float64)
    torch.testing.assert_close(embed(x, weights, bias), embed(x, padded, bias))
    assert (embed(x, weights, bias) - embed(x[..., :4], weights, bias)).abs().max() > 0.01


def test_one_token_attends_to_itself_alone():
    tokens = torch.randn(2, 3, 1, 7, generator=seeded(1))
    assert torch.equal(attend(tokens), attention(tokens) @ tokens)
