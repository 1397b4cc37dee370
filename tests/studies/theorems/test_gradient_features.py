"""Chapter 3: laws of the data, a step against autograd, and the networks g*."""

import pytest
import torch

from rarefeat.studies.theorems import gradient_features as exact
from rarefeat.studies.theorems.problems import Gaussians, Parities

TRAINING = {
    "m": 6,
    "b": 3.0,
    "sigma_w": 0.3,
    "sigma_a": 1.0,
    "first_rate": 1.0,
    "first_batch": 4000,
    "rate": 0.05,
    "batch": 50,
    "steps": 3,
}
PARITIES = Parities(d=12, r=3, k=3, p_A=0.1, p_o=0.2, **TRAINING)
GAUSSIANS = Gaussians(d=1000, sigma=1.0, **TRAINING)


def seeded() -> torch.Generator:
    """Generator of a seed."""
    return torch.Generator().manual_seed(0)


def test_parities_have_their_labels_and_shares():
    x, y = exact.draw_samples(PARITIES, 20_000, seeded())
    blocks = x[:, :9].view(-1, 3, 3)
    torch.testing.assert_close(y, blocks.prod(2).sum(1).sign())
    one = (blocks == 0).all(2).sum(1) == 2
    assert one.float().mean().item() == pytest.approx(0.6, abs=0.02)
    torch.testing.assert_close(y[one], blocks[one].sum((1, 2)).sign())
    assert (x[:, 9:] != 0).float().mean().item() == pytest.approx(0.4, abs=0.02)


def test_gaussians_lie_at_their_means_with_xor_labels():
    x, y = exact.draw_samples(GAUSSIANS, 2000, seeded())
    along = x[:, :2]
    assert (along.abs().argmax(1) == (y < 0).long()).all()
    assert along.abs().amax(1).mean().item() == pytest.approx(1000**0.5, abs=0.2)


def test_a_step_is_that_of_autograd():
    network = exact.initial_network(PARITIES, seeded())
    network = network._replace(a=network.a + 0.1)
    x, y = exact.draw_samples(PARITIES, 30, seeded())
    a, W = network.a.clone().requires_grad_(), network.W.clone().requires_grad_()
    output = (x @ W.mT - network.b).relu() @ a
    ((1 - y * output).relu().mean() + 0.1 * (a.square().sum() + W.square().sum())).backward()
    stepped = exact.descend(network, x, y, 0.3, 0.2)
    torch.testing.assert_close(stepped.a, network.a - 0.3 * a.grad)
    torch.testing.assert_close(stepped.W, network.W - 0.3 * W.grad)


def test_initial_network_has_no_output():
    x, _ = exact.draw_samples(PARITIES, 30, seeded())
    network = exact.initial_network(PARITIES, seeded())
    assert (network.hidden(x) @ network.a).abs().max() < 1e-5


def test_stated_networks_have_no_loss_but_on_other_labels():
    for law in (PARITIES, GAUSSIANS):
        x, y = exact.draw_samples(law, 2000, seeded())
        assert exact.stated_loss(law, x, y) < 1e-3
        assert exact.stated_loss(law, x, -y) > 1.5


def test_least_cosine_is_that_of_the_worst_feature():
    W = torch.tensor([[2.0, 0.0, 0.0], [0.0, 1.0, 1.0]])
    network = exact.Network(torch.ones(2), W, torch.zeros(2))
    assert exact.least_cosine(network, torch.eye(3)[:2]).item() == pytest.approx(0.5**0.5)
