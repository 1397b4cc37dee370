"""Growth of the rare feature in single neurons, against the step itself."""

import pytest
import torch
from conftest import of_size

from rarefeat.model.randomness import generator
from rarefeat.model.simulators import make_simulator
from rarefeat.studies.fate.draws import CellSettings, Sample
from rarefeat.studies.fate.growth import NeuronGrowth, gate, measure_growth
from rarefeat.studies.fate.measure import Course, train_until_learned
from rarefeat.training.step import Kernel, TrainState, make_kernel

REUSE = of_size("quick").sections["fate"].studies["reuse"]
TRAINING = REUSE.training
SETTINGS = CellSettings("test", REUSE.data, TRAINING, "plain", 256, 0.0, 1.0)


def make_reduced_kernel() -> Kernel:
    simulator = make_simulator("reduced", "test", REUSE.data.d, REUSE.data.d1, TRAINING.m, [0])
    return make_kernel("torch", simulator, simulator.sample_tokens)


def neuron_state(rare: float) -> TrainState:
    """Return neurons of one frequent feature each, with a cosine to the rare one, and a bias."""
    generators = [generator("test", 0, "weights")]
    weights = make_reduced_kernel().simulator.initial_weights(1e-3, generators)
    d = REUSE.data.d
    features = torch.arange(TRAINING.m) % (d - 1)
    weights[0, torch.arange(TRAINING.m), features] = 1.0
    weights[0, :, d - 1] = rare * (1 - 2 * (torch.arange(TRAINING.m) % 2))
    none = torch.zeros(1, dtype=torch.long)
    return TrainState(weights, gate(d, 0.2) * weights.norm(dim=-1), none, none.bool())


def measure(state: TrainState, n_passes: int = 2) -> NeuronGrowth:
    return measure_growth(Sample(SETTINGS, 1), make_reduced_kernel(), state, n_passes)


def scale_weights(state: TrainState, factor: float) -> TrainState:
    return state._replace(weights=factor * state.weights, bias=factor * state.bias)


def test_leak_is_the_derivative_of_the_change():
    """Neuron by neuron, by finite differences of the gradient, where the softmax hardly moves."""
    kernel, d, K = make_reduced_kernel(), REUSE.data.d, TRAINING.K
    state = scale_weights(neuron_state(0.02), 0.05)
    growth = measure(state, n_passes=1)
    sample = Sample(SETTINGS, 1)
    batches = [latents for _, latents in sample.iter_pass(sample.stream("looked"))]
    no_noise = [generator("test", 1, "noise")]

    def change(weights: torch.Tensor) -> torch.Tensor:
        total = torch.zeros(TRAINING.m, dtype=torch.float64)
        for latents in batches:
            attended = kernel.attended_tokens(latents, 0.0, no_noise)
            dense = kernel.forward(attended, state._replace(weights=weights))
            c = kernel.loss_gradient(dense, dense, state.bias, TRAINING).coefficients
            total -= (c * attended[:, :K, :, d - 1, None]).sum((0, 1, 2)).double()
        return total / len(batches)

    for i in range(6):
        step = torch.zeros_like(state.weights)
        step[0, i, d - 1] = 1e-4
        slope = (change(state.weights + step) - change(state.weights - step))[i] / 2e-4
        assert slope == pytest.approx(float(growth.leak[i]), rel=0.05, abs=1e-4), i


def test_leak_is_a_sum_over_pairs():
    small, large = (measure(neuron_state(rare)) for rare in (0.01, 0.02))
    assert (small.leak > 0).any()
    assert small.leak == pytest.approx(large.leak, rel=0.15, abs=2e-3)
    assert small.pairs.sum(0) == pytest.approx(small.leak, rel=1e-5, abs=1e-9)


def test_kick_is_the_change_without_the_feature():
    first, second = (measure(neuron_state(rare)).kicks.mean(0) for rare in (0.01, 0.02))
    assert first == pytest.approx(second, rel=1e-3, abs=1e-6)


def test_kick_size_is_without_its_noise():
    random, m, P = generator("test", 3, "noise"), 3000, 10
    noise = torch.randn(P, m, generator=random, dtype=torch.float64)
    one = torch.ones(m, dtype=torch.float64)
    of_size = {}
    for size in (0.0, 2.0):
        growth = NeuronGrowth(one, one, one, size + noise, one, torch.zeros(0, m))
        of_size[size] = growth.kick_size()
    assert of_size[0.0] < 0.15
    assert of_size[2.0] == pytest.approx(2, abs=0.15)


def test_top_pairs_are_those_with_the_largest_pull():
    pairs = torch.zeros(6, 2, dtype=torch.float64)
    pairs[4, 0], pairs[1, 1], pairs[2, 0] = 1.0, 0.9, -5.0
    one = torch.ones(2, dtype=torch.float64)
    projection = torch.tensor([-0.1, 0.2], dtype=torch.float64)
    growth = NeuronGrowth(projection, one, pairs.sum(0), one[None], 0 * one, pairs)
    assert growth.top_pairs(2).tolist() == [1, 4]
    assert growth.excess.tolist() == pairs.sum(0).tolist()
    assert growth.rank(0) == 2
    assert growth.concentration(5) == 1.0


@pytest.mark.parametrize("latents", ["without_top_5", "without_other_5"])
def test_removal_changes_what_follows_alone(latents):
    """Until the step `looked` a replica is that of pairs as drawn; afterwards it is not."""
    rows = {}
    for name in ("plain", latents):
        training = TRAINING.model_copy(update={"T": 40})
        cell = SETTINGS._replace(latents=name, training=training, sigma=0.05)
        regime = {"share": 0.2, "lambda": 0.02}
        (rows[name],) = train_until_learned(cell, [regime], Course(20, 20, 20, 2), [1])
    assert rows[latents]["excess"] == rows["plain"]["excess"]
    assert rows[latents]["count"] < rows["plain"]["count"]
    assert rows[latents]["cosine"] != rows["plain"]["cosine"]
