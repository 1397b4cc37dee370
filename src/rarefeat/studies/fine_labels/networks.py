"""Networks of one k and one kind of labels: trained by the scalar simulator, then measured.

Beside them both simulators from the same initial weights on the same samples: errors and
invariances of the direct one, and differences to the scalar one.
Purposes of the random streams, in the namespace `data.DRAWS`: detectors LABEL, batches, labels
LABEL, fine-tuning; easy tests, hard tests, easy probe, hard probe; on noisy samples linear train,
linear test, each also with noise, network in noise, noise on patches; and of the comparison weights
LABEL, patch noise, easy test noise, hard test noise.
"""

from collections.abc import Iterator
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from rarefeat.model.linear_probe import ridge_heads, sign_error
from rarefeat.model.recorded_steps import log_spaced
from rarefeat.studies.fine_labels import direct_simulator, scalar_simulator
from rarefeat.studies.fine_labels.config import (
    COARSE,
    Detectors,
    EasyData,
    HierarchicalData,
    Labels,
    Learner,
    LinearHeadSettings,
    Noise,
    fine,
)
from rarefeat.studies.fine_labels.data import (
    SAMPLERS,
    Patches,
    add_noise,
    batches,
    draw_easy,
    own_features,
    streams,
    superclass_of,
    superclasses,
)
from rarefeat.studies.fine_labels.metrics import (
    bias_over_displacement,
    fine_error,
    growth_ratio,
    off_diagonal_growth,
    on_diagonal,
    patch_sums,
    predicted_hard_error,
    probe_errors,
    scores_in_noise,
    signs,
    smallest_change,
    smallest_detectors,
    superclass_error,
)
from rarefeat.studies.fine_labels.scalar_simulator import DetectorHistory, DetectorState
from rarefeat.studies.fine_labels.theory import distraction
from rarefeat.workflow.run.cli_helpers import progress
from rarefeat.workflow.run.job_inputs import CellFile, JobInputs

CHANGES = ("displacement", "decrement")
"""Tensors of a state that training changes."""
CHUNK = 200
"""Samples that the direct simulator processes at once."""


class TrainedReplicas(NamedTuple):
    """Trained networks of one k and one kind of labels, one replica for each seed."""

    labels: Labels
    k: int
    seeds: list[int]
    trained: DetectorState
    history: DetectorHistory
    tuned: DetectorState | None = None
    """State after fine-tuning on the superclasses, for fine labels."""

    @property
    def classes(self) -> int:
        """Number G of classes; the batch size if every sample is a class."""
        return self.trained.detectors.shape[1]

    @property
    def superclass(self) -> Int[Tensor, " G"] | None:
        """Superclass of each class."""
        return superclasses(self.labels, self.k, self.classes)

    @property
    def features(self) -> Bool[Tensor, "G F"]:
        """Features that samples of each class hold."""
        return own_features(self.labels, self.k, self.classes)


def train(
    data: EasyData, learner: Learner, detectors: Detectors, labels: Labels, seeds: list[int],
    finetuning: int = 0,
) -> TrainedReplicas:  # fmt: skip
    """Train on T fresh batches, the same samples for all labels; then fine-tune for some steps."""
    T, N, sigma_0 = detectors.T, learner.N, learner.sigma_0
    own = [streams(f"{name} {labels.label}", seeds) for name in ("detectors", "labels")]
    classes = labels.classes(data.k, N)
    initial = scalar_simulator.initialise(classes, data, detectors, sigma_0, own[0])
    fresh = batches(data, labels, N, T, streams("batches", seeds), own[1])
    record = sorted({*log_spaced(T), T // 16, T // 4, T - 1} - {T})
    ends = scalar_simulator.train(initial, data, learner, fresh, record)
    replicas = TrainedReplicas(labels, data.k, seeds, *ends)
    if not finetuning:
        return replicas
    return replicas._replace(tuned=fine_tune(replicas, data, learner, finetuning))


def fine_tune(replicas: TrainedReplicas, data: EasyData, learner: Learner, T: int) -> DetectorState:
    """Train Fhat on the superclasses by the maximum rule (G.4)."""
    truth = superclass_of(data.k, learner.N).expand(len(replicas.seeds), -1)
    # Coarse labels take no random numbers.
    samples = batches(data, COARSE, learner.N, T, streams("fine-tuning", replicas.seeds), [])
    fresh = ((patches, truth) for patches, _ in samples)
    start, superclass = replicas.trained, replicas.superclass
    return scalar_simulator.train(start, data, learner, fresh, [0], tune=superclass)[0]


def tensors_of(replicas: TrainedReplicas) -> dict[str, Tensor]:
    """Return the tensors of a file: initial detectors, their changes, and the history."""
    ends = {"trained": replicas.trained, "tuned": replicas.tuned}
    tensors = {name: getattr(replicas.trained, name) for name in ("detectors", "initial")}
    tensors |= {
        f"{end}/{name}": getattr(state, name)
        for end, state in ends.items()
        if state is not None
        for name in CHANGES
    }
    return tensors | {f"history/{name}": x for name, x in replicas.history._asdict().items()}


def read_replicas(
    file: CellFile, labels: Labels, k: int, threshold: float, tuned: bool
) -> TrainedReplicas:
    """Return the trained networks of a file."""

    def state(end: str) -> DetectorState:
        names = ("detectors", "initial", *(f"{end}/{name}" for name in CHANGES))
        return DetectorState(*file.tensors(*names), threshold)

    history = file.tensors(*(f"history/{name}" for name in DetectorHistory._fields))
    ends = state("trained"), DetectorHistory(*history), state("tuned") if tuned else None
    return TrainedReplicas(labels, k, file.seeds, *ends)


def train_detectors(
    cell: dict, seeds: list[int], data: EasyData, learner: Learner, detectors: Detectors,
    finetuning: int,
) -> dict[str, Tensor]:  # fmt: skip
    """Return the trained detectors of one k and one kind of labels."""
    labels = Labels.named(cell["labels"])
    return tensors_of(train(data, learner, detectors, labels, seeds, finetuning))


def errors(
    replicas: TrainedReplicas, hierarchy: HierarchicalData, kappa_b: float, tests: int,
    s_dag: list[float],
) -> dict[tuple[str, float], Float[Tensor, " S"]]:  # fmt: skip
    """Compute errors on easy samples and, for every s_dag, on hard samples."""
    k, superclass, primary = replicas.k, replicas.superclass, hierarchy.s_dag
    trained, tuned = replicas.trained, replicas.tuned

    def score(kind: str, data: HierarchicalData, state: DetectorState) -> Float[Tensor, "S n G"]:
        generators = streams(f"{kind} tests", replicas.seeds)
        return scalar_simulator.scores(state, SAMPLERS[kind](data, tests, generators))

    def error(kind: str, data: HierarchicalData, state: DetectorState) -> Float[Tensor, " S"]:
        return superclass_error(score(kind, data, state), superclass, k)

    scores = score("easy", hierarchy, trained)
    values = {("easy_error", primary): superclass_error(scores, superclass, k)}
    if replicas.labels == fine(k):
        values["easy_subclass_error", primary] = fine_error(scores, k)
    for s in s_dag:
        data = hierarchy.at(s_dag=s)
        R = distraction(data, kappa_b)
        values["hard_error", s] = error("hard", data, trained)
        values["predicted_hard_error", s] = predicted_hard_error(trained, data, superclass)
        values["R", s] = torch.full((len(replicas.seeds),), R)
    if tuned is not None:
        change = smallest_change(trained, tuned, replicas.features)
        values["tuning_smallest_change", primary] = change
        for kind in SAMPLERS:
            values[f"tuned_{kind}_error", primary] = error(kind, hierarchy, tuned)
    return values


def growth(replicas: TrainedReplicas) -> dict[str, Float[Tensor, " S"]]:
    """Compute ratios and shape of growth, numbers of detectors, and biases."""
    features, history, end = replicas.features, replicas.history, replicas.trained
    row_of = {t: i for i, t in enumerate(history.steps.tolist())}
    T = max(row_of) + 1
    ratios = growth_ratio(history.displacement[1:], end.detectors, features)
    common = on_diagonal(history.displacement, features)[0].mean(-1)
    # Logarithmic growth is the same for every factor of four in t.
    late = common[row_of[T - 1]] - common[row_of[T // 4]]
    early = common[row_of[T // 4]] - common[row_of[T // 16]]
    bias = bias_over_displacement(end, features)
    return {
        "loss": history.loss[-1],
        "first_ratio": ratios[0],
        "ratio": growth_ratio(end.displacement, end.detectors, features),
        "largest_ratio": ratios.amax(0),
        "late_over_early_growth": late / early,
        "bias_over_common": bias[0],
        "bias_over_subclass": bias[1],
        "smallest_detectors": smallest_detectors(end, features),
        "off_diagonal_growth": off_diagonal_growth(end, features) / end.threshold,
    }


def head_rows(
    replicas: TrainedReplicas, hierarchy: HierarchicalData, heads: LinearHeadSettings, tests: int
) -> list[dict]:
    """Return errors of linear heads on the frozen detectors."""
    samples = [
        sampler(hierarchy, size, streams(f"{kind} {purpose}", replicas.seeds))
        for purpose, size in (("probe", heads.samples), ("tests", tests))
        for kind, sampler in SAMPLERS.items()
    ]
    rows = []
    for s, seed in enumerate(replicas.seeds):
        inputs = [
            scalar_simulator.head_inputs(replicas.trained.row(s), patches.row(s))[0]
            for patches in samples
        ]
        head_errors = probe_errors(
            inputs[:2], inputs[2:], hierarchy.k, heads.ridge, heads.hard_share
        )
        rows += [{"features": "detectors", "seed": seed, **row} for row in head_errors]
    return rows


def noise_errors(
    replicas: TrainedReplicas, hierarchy: HierarchicalData, noise: Noise, ridge: list[float]
) -> tuple[Float[Tensor, " S"], list[dict]]:
    """Compute errors of the networks in noise, and of a linear model on summed patches (B.2)."""
    data = hierarchy.easy.at(P=noise.P, sigma_zeta=noise.sigma_zeta)
    k, heads, network = data.k, [], []
    sides = signs(k, noise.samples)
    for s, seed in enumerate(replicas.seeds):
        fit, test = (
            patch_sums(
                data,
                draw_easy(data, noise.samples, streams(f"linear {purpose}", [seed])),
                streams(f"linear {purpose} noise", [seed]),
            )[0]
            for purpose in ("train", "test")
        )
        samples = draw_easy(data, noise.tests, streams("network in noise", [seed]))
        rest = streams("noise on patches", [seed])
        scores = scores_in_noise(replicas.trained.row(s), data, samples, rest)
        network.append(superclass_error(scores, replicas.superclass, k))
        for penalty, head in zip(ridge, ridge_heads(fit, sides, ridge), strict=True):
            keys = {"features": "patch sums", "seed": seed, "penalty": penalty, "hard_share": 0.0}
            heads.append({**keys, "easy": sign_error(head, test, sides)})
    return torch.cat(network), heads


def measure_detectors(
    inputs: JobInputs, cell: dict, seeds: list[int], hierarchy: HierarchicalData, learner: Learner,
    detectors: Detectors, finetuning: int, s_dag: list[float], tests: int,
    heads: LinearHeadSettings, noise: Noise | None,
) -> tuple[list[dict], ...]:  # fmt: skip
    """Return rows of errors and linear heads of one k and one kind of labels."""
    labels, threshold = Labels.named(cell["labels"]), learner.sigma_0 * detectors.threshold
    file, primary = inputs.file("detectors"), hierarchy.s_dag
    replicas = read_replicas(file, labels, hierarchy.k, threshold, finetuning > 0)
    values = {(name, primary): value for name, value in growth(replicas).items()}
    if replicas.superclass is not None:
        values |= errors(replicas, hierarchy, learner.kappa_b, tests, s_dag)
    linear = head_rows(replicas, hierarchy, heads, tests)
    if noise:
        in_noise, sums = noise_errors(replicas, hierarchy, noise, heads.ridge)
        values["error_in_noise", primary] = in_noise
        linear += sums
    network = [
        {"s_dag": s, "metric": name, "seed": seed, "value": value}
        for (name, s), by_seed in values.items()
        for seed, value in zip(seeds, by_seed.tolist(), strict=True)
    ]
    return tuple([{**cell, **row} for row in rows] for rows in (network, linear))


def compare(
    data: HierarchicalData, learner: Learner, detectors: Detectors, labels: Labels, seed: int,
    tests: int,
) -> dict[str, float]:  # fmt: skip
    """Compare the simulators in one replica."""
    k, N, T, name = data.k, learner.N, detectors.T, labels.label
    superclass, features = superclasses(labels, k, N), own_features(labels, k, N)

    def fresh() -> Iterator[tuple[Patches, Tensor]]:
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
    growth = off_diagonal_growth(direct, features).item() / direct.threshold
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
        a, b = (superclass_error(scores, superclass, k).item() for scores in both)
        values |= {f"{kind}_error": a, f"{kind}_error_difference": a - b}
    for name in CHANGES:
        ends = (on_diagonal(getattr(state, name), features) for state in (direct, scalar))
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
