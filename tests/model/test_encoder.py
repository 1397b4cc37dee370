import math

import pytest
import torch
from conftest import embed_tokens, seeded
from hypothesis import given
from hypothesis import strategies as st
from jaxtyping import TypeCheckError

from rarefeat.model.encoder import attention, brelu, embed, pre_activations


def naive_attention(x):
    L = len(x)
    rows = []
    for r in range(L):
        scores = [math.exp(float(x[r] @ x[s])) for s in range(L)]
        rows.append([score / sum(scores) for score in scores])
    return torch.tensor(rows, dtype=torch.float64)


def naive_embedding(x, weights, bias):
    """Eq. (4) in loops: x (L, d1), weights (m, d1), bias (m,) -> (m,)."""
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


@pytest.mark.parametrize("scale", [1.0, 0.3])
def test_attention_equals_naive_loop(scale):
    x = torch.randn(2, 3, 4, 6, generator=seeded(0), dtype=torch.float64)
    weights = attention(x, scale)
    torch.testing.assert_close(weights.sum(-1), torch.ones(2, 3, 4, dtype=torch.float64))
    for S in range(2):
        for n in range(3):
            torch.testing.assert_close(weights[S, n], naive_attention(scale**0.5 * x[S, n]))


def test_attention_is_finite_for_large_tokens():
    x = 30 * torch.eye(4)[None]
    torch.testing.assert_close(attention(x), torch.eye(4)[None])


@given(st.floats(-10, 10), st.floats(-5, 5))
def test_brelu_equals_formula_and_is_odd(s, b):
    x = torch.tensor(s, dtype=torch.float64)
    assert brelu(x, b).item() == pytest.approx(max(s - b, 0.0) - max(-s - b, 0.0), abs=1e-12)
    assert brelu(-x, b) == -brelu(x, b)
    assert abs(s) > b or brelu(x, b) == 0
    assert brelu(x, 0.0) == x


def test_embed_equals_naive_loop():
    S, n, L, d1, m = 2, 3, 4, 6, 5
    x = torch.randn(S, n, L, d1, generator=seeded(2), dtype=torch.float64)
    weights = torch.randn(S, m, d1, generator=seeded(3), dtype=torch.float64)
    bias = 1.5 * torch.rand(S, m, generator=seeded(4), dtype=torch.float64)
    f = embed_tokens(x, weights, bias)
    assert f.shape == (S, n, m)
    expected = torch.stack(
        [
            torch.stack([naive_embedding(x[s, k], weights[s], bias[s]) for k in range(n)])
            for s in range(S)
        ]
    )
    torch.testing.assert_close(f, expected)


def test_pre_activations_ignore_further_coordinates():
    """What a token has beyond takes part in the attention alone."""
    x = torch.randn(2, 3, 4, 6, generator=seeded(10), dtype=torch.float64)
    weights = torch.randn(2, 5, 4, generator=seeded(11), dtype=torch.float64)
    expected = torch.einsum("sntp,smp->sntm", x[..., :4], weights)
    torch.testing.assert_close(pre_activations(x, weights), expected)
    padded = torch.nn.functional.pad(weights, (0, 2))
    bias = torch.full((2, 5), 0.3, dtype=torch.float64)
    torch.testing.assert_close(embed_tokens(x, weights, bias), embed_tokens(x, padded, bias))
    assert (
        embed_tokens(x, weights, bias) - embed_tokens(x[..., :4], weights, bias)
    ).abs().max() > 0.01


def test_bias_of_another_shape_is_refused():
    with pytest.raises(TypeCheckError, match=r"parameter 'bias'"):
        embed(torch.ones(2, 5, 3, 4), torch.zeros(1, 4))  # which would be broadcast
