"""The D coordinates agree with R^d to rounding, for every method; planted mistakes do not."""

import pytest
import torch
import whole_networks as direct
from conftest import seeded
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from rarefeat.studies.two_layer import reduced_training as reduced
from rarefeat.studies.two_layer.data import batches, class_weights
from rarefeat.studies.two_layer.reduced_training import StepSizes, TwoLayerNetwork

n, d, D, k, m = 120, 17, 9, 3, 5


@pytest.fixture(autouse=True)
def _double():
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def problem(seed: int = 0) -> tuple[Tensor, Tensor, Tensor, TwoLayerNetwork]:
    """phi (n, D), y (n,), a rotation of R^d whose first D columns are M, and a network."""
    random = seeded(seed)
    phi = torch.randn(n, D, generator=random) / D**0.5
    y = torch.where(phi[:, :k].sum(1) > 0.1, 1.0, -1.0)
    rotation = torch.linalg.qr(torch.randn(d, d, generator=random)).Q
    return phi, y, rotation, reduced.initial(m, d, D, k, 0.7, random)


def chosen(steps: int) -> reduced.Update:
    return reduced.chosen_update(0.03, 0.01, steps)


def lifted(neurons: TwoLayerNetwork, rotation: Tensor) -> direct.Parameters:
    w = torch.cat([neurons.w, neurons.outside], 1) @ rotation.T
    return {"w": w, "b": neurons.b, "a": neurons.a}


def assert_close(found: Tensor, expected: Tensor, atol: float = 1e-12) -> None:
    torch.testing.assert_close(found, expected, rtol=0, atol=atol)


def assert_same(neurons: TwoLayerNetwork, parameters: direct.Parameters, rotation: Tensor) -> None:
    for name, value in lifted(neurons, rotation).items():
        assert_close(value, parameters[name])


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("keep", [0.0, 0.3, 1.0])
def test_a_step_with_regulariser(weighted: bool, keep: float):
    phi, y, rotation, neurons = problem()
    weights, eta = class_weights(y) if weighted else None, 0.2
    by = reduced.gradient(neurons, phi, y, weights)
    stepped = reduced.descend(neurons, by, StepSizes(eta, keep_w=keep, keep_a=keep**2))
    lambdas = (1 - keep) / (2 * eta), (1 - keep**2) / (2 * eta)
    x, start = phi @ rotation[:, :D].T, lifted(neurons, rotation)
    after = direct.update(start, x, y, eta, *lambdas, weights)
    assert_same(stepped, after, rotation)
    torch.testing.assert_close(stepped.norm(), after["w"].norm(dim=1))


def test_the_erasing_steps_erase():
    phi, y, rotation, neurons = problem()
    one, two = reduced.erasing_steps(k, m, gamma=0.3, sigma=2.0, noise=False)
    assert one.eta == pytest.approx(0.3**2 * 4 / (k * m**3))
    parameters, x = lifted(neurons, rotation), phi @ rotation[:, :D].T
    for step, lambdas in ((one, (1 / (2 * one.eta), 0.0)), (two, (0.5, 0.5))):
        neurons = reduced.descend(neurons, reduced.gradient(neurons, phi, y), step)
        parameters = direct.update(parameters, x, y, step.eta, *lambdas)
        assert_same(neurons, parameters, rotation)
        assert not neurons.outside.any()


def test_the_whole_network_by_either_schedule():
    phi, y, rotation, start = problem()
    order = batches(n, 30, 12, seeded(1))
    parameters, x = lifted(start, rotation), phi @ rotation[:, :D].T
    *_, trained = reduced.train(start, phi, y, order, chosen(len(order)))
    rates = {"w": 0.01, "b": 0.01, "a": 0.03}
    assert_same(trained, direct.adam(parameters, x, y, order, rates), rotation)
    *_, printed = reduced.train(start, phi, y, order, reduced.printed_update(k, m, 12))
    for rows in order:
        parameters = direct.update(parameters, x[rows], y[rows], k**2 / (12 * m ** (1 / 3)))
    assert_same(printed, parameters, rotation)
    torch.testing.assert_close(reduced.scores(printed, phi), direct.network(parameters, x))


def test_small_networks_in_common_products_are_alone():
    phi, y, _, start = problem()
    order = batches(n, 30, 12, seeded(1))
    index = [torch.tensor([0, 1, 7]), torch.tensor([2, 0, 9])]
    both = start._replace(outside=start.outside[:, :0]).select(torch.cat(index))
    together = reduced.train_groups(both, 2, phi, y, order, chosen(len(order)))
    scores = reduced.group_scores(together, phi, 2)
    for i, rows in enumerate(index):
        *_, alone = reduced.train(start.select(rows), phi, y, order, chosen(len(order)))
        assert_close(scores[:, i], reduced.scores(alone, phi))


def test_random_features_and_heads_count_a_pair_once():
    phi, y, rotation, start = problem()
    order = batches(n, 30, 25, seeded(1))
    parameters, x = lifted(start, rotation), phi @ rotation[:, :D].T
    h = (x @ parameters["w"].T + parameters["b"]).clamp(0, 1)
    whole = direct.head(h, y, order, 0.4, 0.9)
    of_one = reduced.frozen_features(start.select(torch.arange(m)), phi)
    *_, half = reduced.train_head(of_one, y, order, 0.4, 0.9)
    assert_close(half, whole[:m] + whole[m:])


def test_the_linearised_network():
    phi, y, rotation, start = problem()
    order = batches(n, 30, 20, seeded(1))
    x = phi @ rotation[:, :D].T
    f = direct.linearised(lifted(start, rotation), x, y, order, 0.8)
    before, *_, model = reduced.train_linearised(start, phi, y, order, 0.8)
    assert_close(before.scores(phi), torch.zeros(n))
    assert_close(model.scores(phi), f(x))
    assert model.scores(phi).abs().max() > 1e-3


def test_smoothing_is_the_mean_over_the_noise():
    phi, _, _, neurons = problem()
    z = reduced.pre_activations(neurons, phi)
    h, near = (reduced.activate(at, sigma_xi=0.3) for at in (z, z + 1e-6))
    parameters = {"w": neurons.w, "b": neurons.b, "a": neurons.a}
    quadrature = direct.network(parameters, phi, sigma_xi=0.3, nodes=200)
    assert_close(h @ neurons.a, quadrature, atol=2e-3)
    assert_close(reduced.slope(z, h, 0.3), (near - h) / 1e-6, atol=1e-5)


def test_neurons_left_out_of_the_products_have_no_gradient():
    phi, y, _, start = problem()
    dead = torch.tensor([1, 4])
    start.w[dead], start.b[dead] = 0.0, -0.1
    order = batches(n, 30, 10, seeded(1))
    update, by_hand = chosen(len(order)), start
    for t, rows in enumerate(order, start=1):
        by_hand = update(t, by_hand, reduced.gradient(by_hand, phi[rows], y[rows]))
    *_, trained = reduced.train(start, phi, y, order, chosen(len(order)))
    for part, other in zip(trained, by_hand, strict=True):
        assert_close(part, other, atol=1e-13)
    assert torch.equal(trained.w[dead], start.w[dead])


def test_a_planted_entrywise_adam_depends_on_the_basis():
    """What the second moment by neuron is for: with one by entry two coordinate systems part."""
    phi, y, _, start = problem()
    order = batches(n, 30, 12, seeded(1))

    def planted() -> reduced.Update:
        update = chosen(len(order))

        def entrywise(t, neurons, by):
            entries = (part._replace(w=part.w.reshape(-1, 1)) for part in (neurons, by))
            moved = update(t, *entries)
            return moved._replace(w=moved.w.view_as(neurons.w))

        return entrywise

    *_, wrong = reduced.train(start, phi, y, order, planted())
    turn = torch.linalg.qr(torch.randn(D, D, generator=seeded(2))).Q
    turned = start._replace(w=start.w @ turn)
    *_, other = reduced.train(turned, phi @ turn, y, order, planted())
    assert (wrong.w @ turn - other.w).abs().max() > 1e-4


@pytest.mark.parametrize("mistake", ["half_lambda", "outside_kept", "sign_of_y"])
def test_planted_mistakes_are_caught(mistake: str):
    phi, y, rotation, neurons = problem()
    eta, keep = 0.2, 0.3
    by = reduced.gradient(neurons, phi, -y if mistake == "sign_of_y" else y)
    kept = (1 + keep) / 2 if mistake == "half_lambda" else keep
    stepped = reduced.descend(neurons, by, StepSizes(eta, keep_w=kept))
    if mistake == "outside_kept":
        stepped = stepped._replace(outside=neurons.outside)
    start, x = lifted(neurons, rotation), phi @ rotation[:, :D].T
    with pytest.raises(AssertionError):
        assert_same(stepped, direct.update(start, x, y, eta, (1 - keep) / (2 * eta)), rotation)


@settings(max_examples=25)
@given(st.integers(0, 10**6), st.floats(0.001, 0.1), st.sampled_from(["clipped", "relu"]))
def test_rotations_of_the_patterns_change_nothing(seed: int, rate: float, activation: str):
    """Law: training commutes with rotations of the D coordinates, with any schedule."""
    phi, y, _, start = problem(seed)
    turn = torch.linalg.qr(torch.randn(D, D, generator=seeded(seed + 1))).Q
    order = batches(n, 40, 6, seeded(seed))
    turned = start._replace(w=start.w @ turn)
    for make, rates in ((reduced.chosen_update, (rate, rate)), (reduced.printed_update, (k, m))):
        *_, one = reduced.train(start, phi, y, order, make(*rates, 6), activation)
        *_, other = reduced.train(turned, phi @ turn, y, order, make(*rates, 6), activation)
        assert_close(one.w @ turn, other.w, atol=1e-9)
        assert_close(one.a, other.a, atol=1e-9)


@pytest.mark.parametrize("chunk", [1, 7, 50, 1000])
def test_passes_in_chunks_are_passes(monkeypatch, chunk: int):
    phi, y, _, neurons = problem()
    whole = reduced.gradient(neurons, phi, y)
    monkeypatch.setattr(reduced, "CHUNK", chunk)
    for part, other in zip(reduced.gradient(neurons, phi, y), whole, strict=True):
        assert_close(part, other, atol=1e-13)


def test_least_squares_finds_the_head_and_drops_what_is_rounding():
    random = seeded(0)
    h, a = torch.randn(400, 6, generator=random), torch.randn(6, generator=random)
    torch.testing.assert_close(reduced.least_squares(h, h @ a), a)
    single = h.float()
    single = torch.cat([single, single[:, :1] * (1 + 1e-8)], 1)
    found = reduced.least_squares(single, (h @ a).float())
    assert found.abs().max() < 10 * a.abs().max()
    assert_close(single @ found, (h @ a).float(), atol=1e-3)


def test_an_unbiased_initialisation_says_nothing():
    phi, _, _, neurons = problem()
    assert torch.equal(neurons.w[:m], neurons.w[m:])
    assert_close(reduced.scores(neurons, phi), torch.zeros(n), atol=1e-14)
