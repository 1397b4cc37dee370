"""The D coordinates agree with R^d to rounding, for every method; planted mistakes do not."""

import pytest
import torch
import whole_networks as direct
from conftest import seeded
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from rarefeat.studies.two_layer import reduced_training
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
    return phi, y, rotation, reduced_training.initial(m, d, D, k, 0.7, random)


def lifted(neurons: TwoLayerNetwork, rotation: Tensor) -> direct.Parameters:
    return {
        "w": torch.cat([neurons.w, neurons.outside], 1) @ rotation.T,
        "b": neurons.b,
        "a": neurons.a,
    }


def assert_same(neurons: TwoLayerNetwork, parameters: direct.Parameters, rotation: Tensor) -> None:
    for name, value in lifted(neurons, rotation).items():
        torch.testing.assert_close(value, parameters[name], rtol=0, atol=1e-12)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("keep", [0.0, 0.3, 1.0])
def test_a_step_with_regulariser(weighted: bool, keep: float):
    phi, y, rotation, neurons = problem()
    weights = class_weights(y) if weighted else None
    eta = 0.2
    by = reduced_training.gradient(neurons, phi, y, weights)
    stepped = reduced_training.descend(neurons, by, StepSizes(eta, keep_w=keep, keep_a=keep**2))
    after = direct.update(
        lifted(neurons, rotation),
        phi @ rotation[:, :D].T,
        y,
        eta,
        (1 - keep) / (2 * eta),
        (1 - keep**2) / (2 * eta),
        weights,
    )
    assert_same(stepped, after, rotation)
    torch.testing.assert_close(stepped.norm(), after["w"].norm(dim=1))


def test_the_erasing_steps_erase():
    phi, y, rotation, neurons = problem()
    one, two = reduced_training.erasing_steps(k, m, gamma=0.3, sigma=2.0, noise=False)
    assert one.eta == pytest.approx(0.3**2 * 4 / (k * m**3))
    parameters = lifted(neurons, rotation)
    x = phi @ rotation[:, :D].T
    for step, (lambda_w, lambda_a) in ((one, (1 / (2 * one.eta), 0.0)), (two, (0.5, 0.5))):
        neurons = reduced_training.descend(
            neurons, reduced_training.gradient(neurons, phi, y), step
        )
        parameters = direct.update(parameters, x, y, step.eta, lambda_w, lambda_a)
        assert_same(neurons, parameters, rotation)
        assert not neurons.outside.any()


def test_the_whole_network_by_either_schedule():
    phi, y, rotation, start = problem()
    order = batches(n, 30, 12, seeded(1))
    x = phi @ rotation[:, :D].T
    *_, chosen = reduced_training.train(
        start, phi, y, order, reduced_training.chosen_update(0.03, 0.01, len(order))
    )
    assert_same(
        chosen,
        direct.adam(lifted(start, rotation), x, y, order, {"w": 0.01, "b": 0.01, "a": 0.03}),
        rotation,
    )
    *_, printed = reduced_training.train(
        start, phi, y, order, reduced_training.printed_update(k, m, 12)
    )
    parameters = lifted(start, rotation)
    for rows in order:
        parameters = direct.update(parameters, x[rows], y[rows], k**2 / (12 * m ** (1 / 3)))
    assert_same(printed, parameters, rotation)
    torch.testing.assert_close(reduced_training.scores(printed, phi), direct.network(parameters, x))


def test_small_networks_in_common_products_are_alone():
    phi, y, _, start = problem()
    order = batches(n, 30, 12, seeded(1))
    index = [torch.tensor([0, 1, 7]), torch.tensor([2, 0, 9])]
    both = start._replace(outside=start.outside[:, :0]).select(torch.cat(index))
    together = reduced_training.train_groups(
        both, 2, phi, y, order, reduced_training.chosen_update(0.1, 0.02, len(order))
    )
    scores = reduced_training.group_scores(together, phi, 2)
    for i, rows in enumerate(index):
        *_, alone = reduced_training.train(
            start.select(rows), phi, y, order, reduced_training.chosen_update(0.1, 0.02, len(order))
        )
        torch.testing.assert_close(
            scores[:, i], reduced_training.scores(alone, phi), rtol=0, atol=1e-12
        )


def test_random_features_and_heads_count_a_pair_once():
    phi, y, rotation, start = problem()
    order = batches(n, 30, 25, seeded(1))
    x, parameters = phi @ rotation[:, :D].T, lifted(start, rotation)
    whole = direct.head(
        lambda points: (points @ parameters["w"].T + parameters["b"]).clamp(0, 1),
        x,
        y,
        order,
        0.4,
        0.9,
    )
    h = reduced_training.frozen_features(start.select(torch.arange(m)), phi)
    *_, half = reduced_training.train_head(h, y, order, 0.4, 0.9)
    torch.testing.assert_close(half, whole[:m] + whole[m:], rtol=0, atol=1e-12)


def test_the_linearised_network():
    phi, y, rotation, start = problem()
    order = batches(n, 30, 20, seeded(1))
    f = direct.linearised(lifted(start, rotation), phi @ rotation[:, :D].T, y, order, 0.8)
    *_, model = reduced_training.train_linearised(
        reduced_training.linearised(start), phi, y, order, 0.8
    )
    torch.testing.assert_close(model.scores(phi), f(phi @ rotation[:, :D].T), rtol=0, atol=1e-12)
    assert model.scores(phi).abs().max() > 1e-3


def test_smoothing_is_the_mean_over_the_noise():
    phi, _, _, neurons = problem()
    z = reduced_training.pre_activations(neurons, phi)
    smooth = reduced_training.activate(z, sigma_xi=0.3) @ neurons.a
    parameters = {"w": neurons.w, "b": neurons.b, "a": neurons.a}
    quadrature = direct.network(parameters, phi, sigma_xi=0.3, nodes=200)
    torch.testing.assert_close(smooth, quadrature, rtol=0, atol=2e-3)
    near = z + 1e-6
    slope = (
        reduced_training.activate(near, sigma_xi=0.3) - reduced_training.activate(z, sigma_xi=0.3)
    ) / 1e-6
    torch.testing.assert_close(
        reduced_training.slope(z, reduced_training.activate(z, sigma_xi=0.3), 0.3),
        slope,
        rtol=0,
        atol=1e-5,
    )


def test_neurons_left_out_of_the_products_have_no_gradient():
    phi, y, _, start = problem()
    dead = torch.tensor([1, 4])
    start.w[dead], start.b[dead] = 0.0, -0.1
    order = batches(n, 30, 10, seeded(1))
    adam = reduced_training.chosen_update(0.03, 0.01, len(order))
    by_hand = start
    for t, rows in enumerate(order, start=1):
        by_hand = adam(t, by_hand, reduced_training.gradient(by_hand, phi[rows], y[rows]))
    *_, trained = reduced_training.train(
        start, phi, y, order, reduced_training.chosen_update(0.03, 0.01, len(order))
    )
    for part, other in zip(trained, by_hand, strict=True):
        torch.testing.assert_close(part, other, rtol=0, atol=1e-13)
    assert torch.equal(trained.w[dead], start.w[dead])


def test_a_planted_entrywise_adam_depends_on_the_basis(monkeypatch):
    """What the second moment by neuron is for.

    With one by entry the two coordinate systems part.
    """
    phi, y, _, start = problem()
    order = batches(n, 30, 12, seeded(1))

    class Planted(reduced_training.Adam):
        def descend(self, neurons, by, share):
            moved = super().descend(
                neurons._replace(w=neurons.w.flatten()), by._replace(w=by.w.flatten()), share
            )
            return moved._replace(w=moved.w.view_as(neurons.w))

    monkeypatch.setattr(reduced_training, "Adam", Planted)
    *_, wrong = reduced_training.train(
        start, phi, y, order, reduced_training.chosen_update(0.03, 0.01, len(order))
    )
    turn = torch.linalg.qr(torch.randn(D, D, generator=seeded(2))).Q
    turned = start._replace(w=start.w @ turn)
    *_, other = reduced_training.train(
        turned, phi @ turn, y, order, reduced_training.chosen_update(0.03, 0.01, len(order))
    )
    assert (wrong.w @ turn - other.w).abs().max() > 1e-4


@pytest.mark.parametrize("mistake", ["half_lambda", "outside_kept", "sign_of_y"])
def test_planted_mistakes_are_caught(mistake: str):
    phi, y, rotation, neurons = problem()
    eta, keep = 0.2, 0.3
    by = reduced_training.gradient(neurons, phi, -y if mistake == "sign_of_y" else y)
    stepped = reduced_training.descend(
        neurons, by, StepSizes(eta, keep_w=(1 + keep) / 2 if mistake == "half_lambda" else keep)
    )
    if mistake == "outside_kept":
        stepped = stepped._replace(outside=neurons.outside)
    after = direct.update(
        lifted(neurons, rotation), phi @ rotation[:, :D].T, y, eta, (1 - keep) / (2 * eta)
    )
    with pytest.raises(AssertionError):
        assert_same(stepped, after, rotation)


@settings(max_examples=25)
@given(st.integers(0, 10**6), st.floats(0.001, 0.1), st.sampled_from(["clipped", "relu"]))
def test_rotations_of_the_patterns_change_nothing(seed: int, rate: float, activation: str):
    """Law: training commutes with rotations of the D coordinates, with any schedule."""
    phi, y, _, start = problem(seed)
    turn = torch.linalg.qr(torch.randn(D, D, generator=seeded(seed + 1))).Q
    order = batches(n, 40, 6, seeded(seed))
    turned = start._replace(w=start.w @ turn)
    for make in (
        lambda: reduced_training.chosen_update(rate, rate, 6),
        lambda: reduced_training.printed_update(k, m, 6),
    ):
        *_, one = reduced_training.train(start, phi, y, order, make(), activation)
        *_, other = reduced_training.train(turned, phi @ turn, y, order, make(), activation)
        torch.testing.assert_close(one.w @ turn, other.w, rtol=0, atol=1e-9)
        torch.testing.assert_close(one.a, other.a, rtol=0, atol=1e-9)


@settings(max_examples=25)
@given(st.integers(0, 10**6), st.sampled_from([1, 7, 50, 1000]))
def test_passes_in_chunks_are_passes(seed: int, chunk: int):
    phi, y, _, neurons = problem(seed)
    whole = reduced_training.gradient(neurons, phi, y)
    old, reduced_training.CHUNK = reduced_training.CHUNK, chunk
    try:
        for part, other in zip(reduced_training.gradient(neurons, phi, y), whole, strict=True):
            torch.testing.assert_close(part, other, rtol=0, atol=1e-13)
    finally:
        reduced_training.CHUNK = old


def test_least_squares_finds_the_head_and_drops_what_is_rounding():
    random = seeded(0)
    h, a = torch.randn(400, 6, generator=random), torch.randn(6, generator=random)
    torch.testing.assert_close(reduced_training.least_squares(h, h @ a), a)
    single = h.float()
    single = torch.cat([single, single[:, :1] * (1 + 1e-8)], 1)
    found = reduced_training.least_squares(single, (h @ a).float())
    assert found.abs().max() < 10 * a.abs().max()
    torch.testing.assert_close(single @ found, (h @ a).float(), rtol=0, atol=1e-3)


def test_an_unbiased_initialisation_says_nothing():
    _, _, _, neurons = problem()
    phi = torch.randn(50, D, generator=seeded(3))
    assert torch.equal(neurons.w[:m], neurons.w[m:])
    torch.testing.assert_close(
        reduced_training.scores(neurons, phi), torch.zeros(50), rtol=0, atol=1e-14
    )
    torch.testing.assert_close(
        reduced_training.linearised(neurons).scores(phi), torch.zeros(50), rtol=0, atol=1e-14
    )
