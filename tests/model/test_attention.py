"""W_Q and W_K of Algorithm 1: the gradient, a step, the control, and what is refused."""

from types import SimpleNamespace

import pytest
import torch
from conftest import pretrain_arm, probe_arm, seeded, small_training, tiny_data

from rarefeat.errors import RarefeatError
from rarefeat.model.contrastive import infonce, probabilities, weight_gradient_coefficients
from rarefeat.model.encoder import attend, attention_gradient, embed, pre_activations
from rarefeat.stages.synthesise import synthesise
from rarefeat.training.step import LossGradient, step_attention
from rarefeat.workflow.config.model import Arm

DENSE, SEEDS = Arm(arm="dense"), [1, 2]


def draw(*shape, seed=0):
    return torch.randn(*shape, generator=seeded(seed), dtype=torch.float64)


@pytest.fixture
def case():
    """Tokens of K anchors and their second views, weights, a bias, W_Q and W_K near identity."""
    query_key = torch.eye(6, dtype=torch.float64) + 0.2 * draw(2, 2, 6, 6, seed=3)
    bias = torch.full((2, 3), 0.3, dtype=torch.float64)
    return draw(2, 10, 4, 6), draw(2, 3, 6, seed=1), bias, query_key


def loss_of(tokens, weights, bias, query_key):
    f = embed(pre_activations(attend(tokens, query_key=query_key), weights), bias)
    return infonce(f[:, :5], f[:, 5:].detach(), 0.7).sum()


def step(case, attention, eta=0.1, decay=0.05):
    tokens, weights, bias, query_key = case
    pre = pre_activations(attend(tokens, query_key=query_key), weights)
    f = embed(pre, bias)
    p = probabilities(f[:, :5], f[:, 5:], 0.7)
    c = weight_gradient_coefficients(pre[:, :5], bias, f[:, 5:], p, 0.7)
    config = SimpleNamespace(eta=eta, lambda_=decay, K=5, attention=attention)
    return step_attention(query_key, weights, LossGradient(c, None), tokens, config)


@pytest.mark.parametrize(("attention", "kept"), [("trained", 0.995), ("trained_without_decay", 1)])
def test_a_step_is_that_of_autograd_in_float64(case, attention, kept):
    tokens, weights, bias, query_key = case
    leaf = query_key.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(loss_of(tokens, weights, bias, leaf), leaf)
    after = step(case, attention)
    torch.testing.assert_close(after, kept * query_key - 0.1 * gradient, rtol=1e-12, atol=1e-14)
    # Without the term of the softmax's normalisation it would be another one.
    wrong = attention_gradient(tokens[:, :5], query_key, torch.ones(2, 5, 4, 6).double())
    assert (gradient - wrong).abs().max() > 1e-3 * gradient.abs().max()


def test_the_control_decays_and_is_not_trained(case):
    assert torch.equal(step(case, "decayed"), (1 - 0.1 * 0.05) * case[3])


def trained(attention, T, seeds=SEEDS, **changes):
    data = tiny_data(d1=40)
    training = small_training(T=T, K=6, attention=attention, eta=0.5, **changes)
    latents = synthesise("attention", data, 0.5, seeds)
    point = "attention", "direct", data, training, DENSE, 0.1, seeds
    return pretrain_arm(*point, latents["train"])[0], point, latents


def test_neurons_see_what_attention_has_learned():
    for T, same in ((1, True), (6, False)):
        fixed, own = (trained(how, T, attention_scale=0.5)[0] for how in ("fixed", "trained"))
        close = torch.allclose(fixed.weights, own.weights, rtol=1e-5, atol=1e-7)
        assert close == same
    assert not fixed.query_key.numel()
    identity = 0.5**0.5 * torch.eye(40)
    assert (own.query_key - identity).abs().max() > 1e-3
    # No bit depends on the other replicas of a block.
    alone = trained("trained", 6, [2], attention_scale=0.5)[0]
    assert all(torch.equal(both[1:], one) for both, one in zip(own, alone, strict=True))


def test_the_probe_attends_with_what_was_trained():
    encoder, point, latents = trained("decayed", 6)
    names = encoder.weights, encoder.bias
    *_, data, training, arm, sigma, seeds = point
    at = "attention", "direct", data
    plain = training.model_copy(update={"attention": "fixed", "attention_scale": 0.6})
    own = 0.6**0.5 * torch.eye(40).repeat(2, 2, 1, 1)
    rows = probe_arm(*at, training, arm, sigma, seeds, latents, (*names, own))
    expected = probe_arm(*at, plain, arm, sigma, seeds, latents, names)
    for one, other in zip(rows, expected, strict=True):
        assert one["final_loss"] == pytest.approx(other["final_loss"], rel=1e-5)


def test_what_is_not_trained_with_attention_is_one_line():
    with pytest.raises(RarefeatError, match=r"^training.attention: must be fixed where .* decayed"):
        small_training(attention="decayed").logit_scale(500)
