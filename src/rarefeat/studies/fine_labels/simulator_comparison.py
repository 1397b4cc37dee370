"""Comparison of both simulators, from the same initial weights on the same samples.

Errors and invariances of the direct simulator, and differences to the scalar one. Purposes of the
random streams, in the namespace `data.DRAWS`: weights LABEL, batches, labels LABEL, patch noise,
easy tests, hard tests, easy test noise, hard test noise.
"""

from collections.abc import Iterator

import torch

from rarefeat.studies.fine_labels import direct_simulator, metrics, scalar_simulator
from rarefeat.studies.fine_labels.config import Detectors, HierarchicalData, Labels, Learner
from rarefeat.studies.fine_labels.data import (
    SAMPLERS,
    Patches,
    add_noise,
    batches,
    own_features,
    streams,
    superclasses,
)
from rarefeat.workflow.run.cli_helpers import progress

CHUNK = 200
"""Samples that the direct simulator processes at once."""


def compare(
    data: HierarchicalData, learner: Learner, detectors: Detectors, labels: Labels, seed: int,
    tests: int,
) -> dict[str, float]:  # fmt: skip
    """Compare the simulators in one replica."""
    k, N, T, name = data.k, learner.N, detectors.T, labels.label
    superclass, features = superclasses(labels, k, N), own_features(labels, k, N)

    def fresh() -> Iterator[tuple[Patches, torch.Tensor]]:
        rngs = [streams(purpose, [seed]) for purpose in ("batches", f"labels {name}")]
        return batches(data, labels, N, T, *rngs)

    (weights,), noise = streams(f"weights {name}", [seed]), streams("patch noise", [seed])
    initial = direct_simulator.initialise(
        labels.classes(k, N), data.d, detectors, learner.sigma_0, weights
    )
    noisy = (
        (add_noise(data, patches, noise)[0], classes[0], patches.amplitude[0] == 0)
        for patches, classes in fresh()
    )
    trained, diagnostics = direct_simulator.train(initial, data, learner, noisy)
    can_activate = direct_simulator.can_activate(initial, data)
    start, direct = (
        scalar_simulator.summarise(initial, network, data) for network in (initial, trained)
    )
    scalar, history = scalar_simulator.train(start, data, learner, fresh(), [T - 1])
    has_changed = (trained.weights != initial.weights).any(-1)
    growth = metrics.off_diagonal_growth(direct, features).item() / direct.threshold
    values = {
        "on_noise": float(diagnostics.on_noise.sum()),
        "moved_outside": float(has_changed[~can_activate].sum()),
        "off_diagonal_growth": growth,
        "loss_difference": (diagnostics.loss[-1].double() / history.loss[-1, 0]).log().item(),
    }
    network = trained.select(can_activate)
    for kind, sampler in SAMPLERS.items():
        samples = sampler(data, tests, streams(f"{kind} tests", [seed]))
        x = add_noise(data, samples, streams(f"{kind} test noise", [seed]))[0]
        chunks = [
            direct_simulator.scores(network, direct_simulator.activations(network, chunk))
            for chunk in x.split(CHUNK)
        ]
        both = torch.cat(chunks)[None].double(), scalar_simulator.scores(scalar, samples)
        a, b = (metrics.superclass_error(scores, superclass, k).item() for scores in both)
        values |= {f"{kind}_error": a, f"{kind}_error_difference": a - b}
    for name in ("displacement", "decrement"):
        ends = (metrics.on_diagonal(getattr(state, name), features) for state in (direct, scalar))
        for group, a, b in zip(("common", "subclass"), *ends, strict=True):
            values[f"{group}_{name}_difference"] = (a.mean() / b.mean()).log().item()
    return values


def compare_simulators(
    cell: dict, seeds: list[int], hierarchy: HierarchicalData, learner: Learner,
    detectors: Detectors, tests: int,
) -> list[dict]:  # fmt: skip
    """Return the metrics of the comparison at a cell, by seed."""
    labels = Labels.named(cell["labels"])
    return [
        {**cell, "seed": seed, "metric": metric, "value": value}
        for seed in progress(seeds, len(seeds), "replicas")
        for metric, value in compare(hierarchy, learner, detectors, labels, seed, tests).items()
    ]
