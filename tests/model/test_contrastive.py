import math

import pytest
import torch
from conftest import embed_tokens, seeded
from hypothesis import given
from hypothesis import strategies as st
from torch.nn.functional import cross_entropy

from rarefeat.model.contrastive import (
    bias_gradient,
    infonce,
    infonce_at_best_scale,
    infonce_floor,
    probabilities,
    weight_gradient_coefficients,
)
from rarefeat.model.encoder import attend, attention, embed, pre_activations


@pytest.fixture
def case():
    """Two views of a batch and an encoder, float64.

    Tokens (S, K, L, d1) twice, weights (S, m, d1), bias (S, m).
    """
    S, K, L, d1, m = 2, 5, 3, 7, 4
    x, y = torch.randn(2, S, K, L, d1, generator=seeded(0), dtype=torch.float64)
    weights = torch.randn(S, m, d1, generator=seeded(1), dtype=torch.float64) / 3
    bias = 0.4 * torch.rand(S, m, generator=seeded(2), dtype=torch.float64)
    return x, y, weights, bias


def closed_form(x, y, weights, bias, tau, attend=attend):
    attended = attend(x)
    pre = pre_activations(attended, weights)
    f_y = embed(pre_activations(attend(y), weights), bias)
    c = weight_gradient_coefficients(pre, bias, f_y, probabilities(embed(pre, bias), f_y, tau), tau)
    assert c.shape == pre.shape
    return torch.einsum("sklm,sklp->smp", c, attended)


def by_autograd(x, y, weights, bias, tau, stop=True):
    w = weights.clone().requires_grad_()
    f_y = embed_tokens(y, w, bias)
    infonce(embed_tokens(x, w, bias), f_y.detach() if stop else f_y, tau).sum().backward()
    return w.grad


def relative_error(value, right):
    return ((value - right).norm() / right.norm()).item()


def test_infonce_is_cross_entropy_of_positives():
    tau = 0.3
    f_x, f_y = torch.randn(2, 3, 6, 4, generator=seeded(3), dtype=torch.float64)
    loss = infonce(f_x, f_y, tau)
    assert loss.shape == (3,)
    for s in range(3):
        similarity = torch.tensor(
            [[float(f_x[s, k] @ f_y[s, n]) / tau for n in range(6)] for k in range(6)]
        )
        assert loss[s].item() == pytest.approx(
            cross_entropy(similarity, torch.arange(6)).item(), rel=1e-5
        )


def test_probabilities_equal_eq_19_and_20():
    tau = 0.3
    f_x, f_y = torch.randn(2, 1, 4, 3, generator=seeded(4), dtype=torch.float64)
    p = probabilities(f_x, f_y, tau)[0]
    for k in range(4):
        exponentials = [math.exp(float(f_x[0, k] @ f_y[0, n]) / tau) for n in range(4)]
        for n in range(4):
            assert p[k, n].item() == pytest.approx(exponentials[n] / sum(exponentials))


def test_infonce_is_finite_for_large_similarities():
    f = 100 * torch.eye(3)[None]
    torch.testing.assert_close(probabilities(f, f, 0.1), torch.eye(3)[None])
    assert infonce(f, f, 0.1).item() == pytest.approx(0.0, abs=1e-6)


@pytest.mark.parametrize("with_bias", [False, True])
@pytest.mark.parametrize("tau", [0.3, 2.5])
def test_weight_gradient_equals_autograd(case, tau, with_bias):
    x, y, weights, bias = case
    bias = bias * with_bias
    pre = pre_activations(attend(x), weights)
    gated = (pre.abs() < bias[:, None, None, :]).double().mean().item()
    assert (0.1 < gated < 0.9) == with_bias
    right = by_autograd(x, y, weights, bias, tau)
    assert relative_error(closed_form(x, y, weights, bias, tau), right) < 1e-12


@pytest.mark.parametrize("sign", [1, -1])
def test_weighted_gradients_equal_autograd_for_bias_of_either_sign(case, sign):
    x, y, weights, bias = case
    bias = sign * bias
    attended, f_y = attend(x), embed_tokens(y, weights, bias)
    anchor_weights = torch.rand(2, 5, generator=seeded(3), dtype=torch.float64) + 0.5
    w, b = weights.clone().requires_grad_(), bias.clone().requires_grad_()
    losses = torch.log_softmax(embed_tokens(x, w, b) @ f_y.mT, -1).diagonal(dim1=-2, dim2=-1)
    (-(anchor_weights * losses).mean(-1)).sum().backward()
    pre = pre_activations(attended, weights)
    p = probabilities(embed(pre, bias), f_y, 1.0)
    c = weight_gradient_coefficients(pre, bias, f_y, p, 1.0, weights=anchor_weights)
    gradient = torch.einsum("sklm,sklp->smp", c, attended)
    assert relative_error(gradient, w.grad) < 1e-12
    assert (
        relative_error(bias_gradient(pre, bias, f_y, p, 1.0, weights=anchor_weights), b.grad)
        < 1e-12
    )


@pytest.mark.parametrize("tau", [0.3, 2.5])
def test_planted_errors_in_gradient_are_detected(case, tau):
    """The gradient tests above, with tolerance 1e-12, detect each of the usual mistakes by far."""
    x, y, weights, bias = case
    right = by_autograd(x, y, weights, bias, tau)
    mistakes = {
        "tau left out": tau * closed_form(x, y, weights, bias, tau),
        "no stopped gradient": by_autograd(x, y, weights, bias, tau, stop=False),
        "no bias": closed_form(x, y, weights, 0 * bias, tau),
        "anchors and candidates": closed_form(y, x, weights, bias, tau),
    }
    for name, attend_wrongly in {
        "uniform attention": lambda tokens: tokens.mean(-2, keepdim=True).expand_as(tokens),
        "no attention": lambda tokens: tokens,
        "attention by columns": lambda tokens: attention(tokens).mT @ tokens,
    }.items():
        mistakes[name] = closed_form(x, y, weights, bias, tau, attend=attend_wrongly)
    for name, wrong in mistakes.items():
        assert relative_error(wrong, right) > 0.1, name


def test_floor_is_computed_within_each_replica():
    signs = torch.tensor([[[1, 0], [1, 0]], [[1, 0], [0, 1]]], dtype=torch.int8)
    torch.testing.assert_close(
        infonce_floor(signs), torch.tensor([math.log(2), 0.0], dtype=torch.float64)
    )


sign_batches = st.integers(1, 4).flatmap(
    lambda d: st.lists(
        st.lists(st.sampled_from([-1, 0, 1]), min_size=d, max_size=d), min_size=2, max_size=10
    )
)


@given(sign_batches)
def test_floor_is_attained_by_perfect_encoder(signs):
    """With one coordinate per sign pattern, far apart, the loss is the floor: it is not too low."""
    signs = torch.tensor(signs)
    code = ((signs + 1) * 3 ** torch.arange(signs.shape[1])).sum(-1)
    f = 10 * torch.eye(3 ** signs.shape[1], dtype=torch.float64)[code][None]
    assert infonce(f, f, 1.0).item() == pytest.approx(infonce_floor(signs[None]).item(), abs=1e-9)


def test_best_scale_beats_grid_and_ignores_input_scale():
    generator = seeded(0)
    f_x = torch.randn(3, 16, 5, generator=generator, dtype=torch.float64)
    f_y = f_x + 0.7 * torch.randn(3, 16, 5, generator=generator, dtype=torch.float64)
    best = infonce_at_best_scale(f_x, f_y, 0.5)
    tried = [
        infonce(scale * f_x, scale * f_y, 0.5).mean().item()
        for scale in torch.linspace(-4, 3, 200).exp()
    ]
    assert best <= min(tried) + 1e-9
    assert best == pytest.approx(min(tried), abs=1e-3)
    assert infonce_at_best_scale(7 * f_x, 7 * f_y, 0.5) == pytest.approx(best, abs=1e-6)
