"""Small hierarchies, networks and draws for the tests of this study."""

from pathlib import Path

import torch

from rarefeat.model.randomness import generator
from rarefeat.studies.fine_labels import FineLabels, direct_simulator, scalar_simulator
from rarefeat.studies.fine_labels import data as D
from rarefeat.studies.fine_labels.config import Detectors, HierarchicalData, Labels, Learner
from rarefeat.workflow.config.study import merge_configs
from rarefeat.workflow.config.yaml_reader import read_yaml

RAW = read_yaml(Path("config/studies/fine_labels.yaml"))
RAW = merge_configs(RAW, RAW.pop("sizes")["quick"])
"""The section of size quick."""
DETECTORS = Detectors(m=8000, threshold=2.75, T=40)
DESCENT = {"epochs": 2, "warmup": 0.1, "batch": 50, "lr": 0.1, "momentum": 0.9, "weight_decay": 0}


def section(**changes) -> FineLabels:
    return FineLabels(**merge_configs(RAW, changes))


def hierarchy(**changes) -> HierarchicalData:
    return HierarchicalData(**RAW["hierarchy"] | {"k": 2} | changes)


def learner(**changes) -> Learner:
    return Learner(**RAW["learner"] | {"N": 64} | changes)


def draws(purpose: str, seeds=(0,)):
    return [generator("fine labels tests", seed, purpose) for seed in seeds]


def network(labels, data, learner, seed=0, detectors=DETECTORS) -> direct_simulator.Network:
    """Return initial weights in double precision, to separate exact results from rounding."""
    classes, (rng,) = labels.classes(data.k, learner.N), draws("init", [seed])
    initial = direct_simulator.initialise(classes, data.d, detectors, learner.sigma_0, rng)
    return initial._replace(weights=initial.weights.double(), bias=initial.bias.double())


def stream(labels: Labels, data: HierarchicalData, learner: Learner, T: int, seed=0, tune=None):
    truth = (D.subclasses(data.k, learner.N) // data.k).expand(1, -1)
    rngs = draws("batches", [seed]), draws("labels", [seed])
    for patches, classes in D.batches(data, labels, learner.N, T, *rngs):
        yield patches, classes if tune is None else truth


def with_noise(batches, data: HierarchicalData, seed=0):
    """Return the batches as the direct simulator has them."""
    noise = draws("noise", [seed])
    for patches, classes in batches:
        x = D.add_noise(data, patches, noise, torch.float64)[0]
        yield x, classes[0], patches.amplitude[0] == 0


def both(labels, data, learner, T: int, net=None):
    """Train with both simulators from the same initial weights on the same samples.

    Returns initial network, trained network, its diagnostics, scalar state and its history.
    """
    net = net or network(labels, data, learner)
    batches = list(stream(labels, data, learner, T))
    trained, diagnostics = direct_simulator.train(net, data, learner, with_noise(batches, data))
    state = scalar_simulator.summarise(net, net, data)
    state, history = scalar_simulator.train(state, data, learner, batches, list(range(T)))
    return net, trained, diagnostics, state, history
