"""Both simulators from the same initial weights on the same samples: errors and invariances, and how far they differ."""

import torch

from rarefeat.core.randomness import generator
from rarefeat.run.cli_helpers import progress
from rarefeat.run.job import Job
from rarefeat.run.job_inputs import JobInputs
from rarefeat.studies.fine_labels import direct_simulator, metrics, scalar_simulator
from rarefeat.studies.fine_labels.config import Detectors, HierarchicalData, Labels, Learner
from rarefeat.studies.fine_labels.data import (
    DRAWS,
    Generators,
    batches,
    inputs,
    own_features,
    streams,
    superclasses,
)
from rarefeat.studies.fine_labels.measure import SAMPLES

EVALUATED = 200
"""Samples at a time in the direct simulator."""


def compare(
    data: HierarchicalData,
    learner: Learner,
    detectors: Detectors,
    labels: Labels,
    seed: int,
    tests: int,
    draws: str = DRAWS,
) -> dict[str, float]:
    """The metrics of one replica. A difference is direct less scalar; of displacements, decrements and loss, of logarithms."""
    k, G = data.k, labels.classes(data.k, learner.N)
    superclass, own = superclasses(labels, k, learner.N), own_features(labels, k, learner.N)

    def stream() -> list[Generators]:
        return [
            streams(purpose, [seed], draws) for purpose in ("batches", f"labels {labels.label}")
        ]

    initial = direct_simulator.initialise(
        G, data.d, detectors, learner.sigma_0, generator(draws, seed, f"weights {labels.label}")
    )
    noise = streams("patch noise", [seed], draws)
    noisy = (
        (inputs(data, patches, noise)[0], classes[0], patches.amplitude[0] == 0)
        for patches, classes in batches(data, labels, learner.N, detectors.T, *stream())
    )
    trained, seen = direct_simulator.train(initial, data, learner, noisy)
    able, found = (
        direct_simulator.can_activate(initial, data),
        direct_simulator.summary(initial, trained, data),
    )
    fresh = batches(data, labels, learner.N, detectors.T, *stream())
    state, history = scalar_simulator.train(
        direct_simulator.summary(initial, initial, data), data, learner, fresh, [detectors.T - 1]
    )
    values = {
        "on_noise": float(seen.on_noise.sum()),
        "moved_outside": float((trained.weights != initial.weights).any(-1)[~able].sum()),
        "off_diagonal_growth": metrics.off_diagonal_growth(found, own).item() / found.threshold,
        "loss_difference": (seen.loss[-1].double() / history.loss[-1, 0]).log().item(),
    }
    answering = trained.part(able)
    for kind, part in SAMPLES.items():
        samples = part(data, tests, streams(f"{kind} tests", [seed], draws))
        x = inputs(data, samples, streams(f"{kind} test noise", [seed], draws))[0]
        F = torch.cat(
            [
                direct_simulator.scores(answering, direct_simulator.answers(answering, some))
                for some in x.split(EVALUATED)
            ]
        )[None]
        both = F.double(), scalar_simulator.scores(state, samples)
        error, scalar_error = (
            metrics.superclass_error(scores, superclass, k).item() for scores in both
        )
        values |= {f"{kind}_error": error, f"{kind}_error_difference": error - scalar_error}
    for name in ("displacement", "decrement"):
        ends = (metrics.on_diagonal(getattr(end, name), own) for end in (found, state))
        for where, a, b in zip(("common", "subclass"), *ends, strict=True):
            values[f"{where}_{name}_difference"] = (a.mean() / b.mean()).log().item()
    return values


def compare_simulators(read: JobInputs, job: Job) -> list[dict]:
    """The stage of a cell and block of seeds."""
    told = (
        job.config_section("hierarchy", HierarchicalData), job.config_section("learner", Learner), job.config_section("detectors", Detectors),
        job.config_section("labels", Labels),
    )  # fmt: skip
    return [
        {**job.cell, "seed": seed, "metric": metric, "value": value}
        for seed in progress(job.seed_list, len(job.seed_list), "replicas")
        for metric, value in compare(*told, seed, job.config_section("tests", int)).items()
    ]
