"""Small hierarchies, networks and draws for the tests of this study."""

import torch

from rarefeat.model.randomness import generator
from rarefeat.studies.fine_labels import data as D
from rarefeat.studies.fine_labels import direct_simulator, scalar_simulator
from rarefeat.studies.fine_labels.config import (
    COARSE,
    Detectors,
    FineLabels,
    HierarchicalData,
    Labels,
    Learner,
    fine,
)

DETECTORS = Detectors(m=8000, threshold=2.75, T=40)
DESCENT = {"epochs": 2, "warmup": 0.1, "batch": 50, "lr": 0.1, "momentum": 0.9, "weight_decay": 0}


CROSSING = {
    "seeds": 2,
    "seeds_per_block": 1,
    "arms": {"views": [{"arm": "dense"}, {"arm": "oracle_gated", "bias": 1}]},
    "training": {
        "m": 8,
        "K": 16,
        "tau": 1.0,
        "eta": 0.05,
        "lambda": 0.01,
        "sigma_0": 0.05,
        "T": 5,
        "bias_from": 2,
    },
}
DIGITS = {
    "seeds": 2,
    "seeds_per_block": 1,
    "first_seed": 0,
    "superclass": ["parity"],
    "levels": {"parity": [y % 2 for y in range(10)]},
    "candidates": [2, 4],
    "labels": [
        {"kind": "coarse"},
        {"kind": "manual"},
        {"kind": "random", "ids": 2},
        {"kind": "clusters", "ids": 5},
        {"kind": "rebalanced", "ids": 5},
        {"kind": "whole", "ids": 10},
        {"kind": "sample"},
    ],
    "training": {
        "pretraining": DESCENT,
        "finetuning": DESCENT,
        "features": DESCENT,
        "checkpoints": [1, 2],
        "shift": 1,
        "l2": 0.1,
        "train": 100,
        "hidden": 8,
    },
}


def hierarchy(**changes) -> HierarchicalData:
    base = {
        "d": 24,
        "k": 2,
        "P": 12,
        "s_star": 3,
        "iota": 0.002,
        "sigma_zeta": 1e-4,
        "s_dag": 3,
        "alpha_dag": [0.25, 0.35],
    }
    return HierarchicalData(**base | {"sigma_zeta_star": 0.05} | changes)


def learner(**changes) -> Learner:
    return Learner(**{"sigma_0": 1e-4, "eta": 0.1, "kappa_b": 10, "N": 64} | changes)


def draws(purpose: str, seeds=(0,)):
    return [generator("fine labels tests", seed, purpose) for seed in seeds]


def network(
    labels: Labels, data: HierarchicalData, learner: Learner, seed=0, detectors=DETECTORS
) -> direct_simulator.Network:
    """Return initial weights in double precision, to separate exact results from rounding."""
    initial = direct_simulator.initialise(
        labels.classes(data.k, learner.N),
        data.d,
        detectors,
        learner.sigma_0,
        draws("init", [seed])[0],
    )
    return initial._replace(weights=initial.weights.double(), bias=initial.bias.double())


def both(
    labels: Labels, data: HierarchicalData, learner: Learner, T: int, net=None, seed=0, tune=None
):
    """Train with both simulators from the same initial weights on the same samples.

    Returns initial network, trained network, its diagnostics, scalar state and its history.
    """
    net = net or network(labels, data, learner, seed)
    noise = draws("noise", [seed])

    def with_noise():
        for patches, classes in stream(labels, data, learner, T, seed, tune):
            yield (
                D.add_noise(data, patches, noise, torch.float64)[0],
                classes[0],
                patches.amplitude[0] == 0,
            )

    trained, diagnostics = direct_simulator.train(net, data, learner, with_noise(), tune)
    state = direct_simulator.summarise(net, net, data)
    state, history = scalar_simulator.train(
        state, data, learner, stream(labels, data, learner, T, seed, tune), list(range(T)), tune
    )
    return net, trained, diagnostics, state, history


def stream(labels, data, learner, T, seed=0, tune=None):
    seeds = [seed]
    for patches, classes in D.batches(
        data, labels, learner.N, T, draws("batches", seeds), draws("labels", seeds)
    ):
        yield (
            patches,
            (
                classes
                if tune is None
                else (D.subclasses(data.k, learner.N) // data.k).expand(len(seeds), -1)
            ),
        )


def section(**changes) -> FineLabels:
    """Return a small section `fine_labels`."""
    base = {
        "seeds": 2,
        "first_seed": 3,
        "seeds_per_block": 1,
        "k": [2, 4],
        "s_dag": [1, 3],
        "hierarchy": hierarchy().model_dump(),
        "learner": learner(N=32).model_dump(),
        "coarse": {"m": 2000, "threshold": 2.5, "T": 20},
        "fine": {"m": 1500, "threshold": 2.5, "T": 30},
        "finetuning": 5,
        "tests": 80,
        "labels": [
            {"kind": "subclass", "ids": 4},
            {"kind": "random", "ids": 2},
            {"kind": "misaligned", "ids": 2},
            {"kind": "sample"},
        ],
        "heads": {"samples": 80, "ridge": [0, 0.1], "hard_share": [0, 0.1]},
        "noise": {"P": 900, "sigma_zeta": 0.1, "samples": 80, "tests": 8},
        "direct": {"seeds": 1, "k": [2], "N": 16},
        "crossing": CROSSING,
        "digits": DIGITS,
    }
    return FineLabels(**base | changes)


__all__ = [
    "COARSE",
    "DETECTORS",
    "both",
    "draws",
    "fine",
    "hierarchy",
    "learner",
    "network",
    "section",
    "stream",
]
