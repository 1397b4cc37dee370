"""Comparison of both simulators, from the same initial weights on the same samples.

Errors and invariances of the direct simulator, and differences to the scalar one. Purposes of the
random streams, in the namespace `data.DRAWS`: weights LABEL, batches, labels LABEL, patch noise,
easy tests, hard tests, easy test noise, hard test noise.
"""

import torch

from rarefeat.model.randomness import generator
from rarefeat.studies.fine_labels import direct_simulator, metrics, scalar_simulator
from rarefeat.studies.fine_labels.config import Detectors, HierarchicalData, Labels, Learner
from rarefeat.studies.fine_labels.data import (
    DRAWS,
    Generators,
    add_noise,
    batches,
    own_features,
    streams,
    superclasses,
)
from rarefeat.studies.fine_labels.measure import SAMPLERS
from rarefeat.workflow.run.cli_helpers import progress
from rarefeat.workflow.run.job import Job
from rarefeat.workflow.run.job_inputs import JobInputs

CHUNK = 200
"""Samples that the direct simulator processes at once."""


def compare(
    data: HierarchicalData,
    learner: Learner,
    detectors: Detectors,
    labels: Labels,
    seed: int,
    tests: int,
    draws: str = DRAWS,
) -> dict[str, float]:
    """Compare the simulators in one replica."""
    k, G = data.k, labels.classes(data.k, learner.N)
    superclass, features = superclasses(labels, k, learner.N), own_features(labels, k, learner.N)

    def stream() -> list[Generators]:
        return [
            streams(purpose, [seed], draws) for purpose in ("batches", f"labels {labels.label}")
        ]

    initial = direct_simulator.initialise(
        G, data.d, detectors, learner.sigma_0, generator(draws, seed, f"weights {labels.label}")
    )
    noise = streams("patch noise", [seed], draws)
    noisy = (
        (add_noise(data, patches, noise)[0], classes[0], patches.amplitude[0] == 0)
        for patches, classes in batches(data, labels, learner.N, detectors.T, *stream())
    )
    trained, diagnostics = direct_simulator.train(initial, data, learner, noisy)
    can_activate = direct_simulator.can_activate(initial, data)
    direct = direct_simulator.summarise(initial, trained, data)
    scalar, history = scalar_simulator.train(
        direct_simulator.summarise(initial, initial, data),
        data,
        learner,
        batches(data, labels, learner.N, detectors.T, *stream()),
        [detectors.T - 1],
    )
    has_changed = (trained.weights != initial.weights).any(-1)
    values = {
        "on_noise": float(diagnostics.on_noise.sum()),
        "moved_outside": float(has_changed[~can_activate].sum()),
        "off_diagonal_growth": metrics.off_diagonal_growth(direct, features).item()
        / direct.threshold,
        "loss_difference": (diagnostics.loss[-1].double() / history.loss[-1, 0]).log().item(),
    }
    network = trained.select(can_activate)
    for kind, sampler in SAMPLERS.items():
        samples = sampler(data, tests, streams(f"{kind} tests", [seed], draws))
        x = add_noise(data, samples, streams(f"{kind} test noise", [seed], draws))[0]
        chunks = [
            direct_simulator.scores(network, direct_simulator.activations(network, chunk))
            for chunk in x.split(CHUNK)
        ]
        error, scalar_error = (
            metrics.superclass_error(scores, superclass, k).item()
            for scores in (
                torch.cat(chunks)[None].double(),
                scalar_simulator.scores(scalar, samples),
            )
        )
        values |= {f"{kind}_error": error, f"{kind}_error_difference": error - scalar_error}
    for name in ("displacement", "decrement"):
        ends = (metrics.on_diagonal(getattr(state, name), features) for state in (direct, scalar))
        for group, a, b in zip(("common", "subclass"), *ends, strict=True):
            values[f"{group}_{name}_difference"] = (a.mean() / b.mean()).log().item()
    return values


def compare_simulators(inputs: JobInputs, job: Job) -> list[dict]:
    """Return the metrics of the comparison at a cell, by seed.

    Inputs: none. Config: `hierarchy`, `learner`, `detectors`, `labels`, `tests`.
    """
    sections = (
        job.config_section("hierarchy", HierarchicalData),
        job.config_section("learner", Learner),
        job.config_section("detectors", Detectors),
        job.config_section("labels", Labels),
    )
    tests = job.config_section("tests", int)
    return [
        {**job.cell, "seed": seed, "metric": metric, "value": value}
        for seed in progress(job.seed_list, len(job.seed_list), "replicas")
        for metric, value in compare(*sections, seed, tests).items()
    ]
