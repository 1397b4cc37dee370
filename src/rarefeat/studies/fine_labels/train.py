"""Stage 1 of the study of fine labels: the detectors of one k and one kind of labels, by the scalar simulator."""

from typing import NamedTuple

from torch import Tensor

from rarefeat.core.recorded_steps import log_spaced
from rarefeat.run.job import Job
from rarefeat.run.job_inputs import CellFile, JobInputs
from rarefeat.studies.fine_labels import scalar_simulator
from rarefeat.studies.fine_labels.config import COARSE, Detectors, EasyData, Labels, Learner
from rarefeat.studies.fine_labels.data import (
    DRAWS,
    batches,
    own_features,
    streams,
    subclasses,
    superclasses,
)
from rarefeat.studies.fine_labels.scalar_simulator import DetectorHistory, DetectorState

ENDS = ("trained", "tuned")
MOVED = ("displacement", "decrement")


class TrainedReplicas(NamedTuple):
    """Networks of one k and one kind of labels, a replica each seed."""

    data: EasyData
    labels: Labels
    seeds: list[int]
    trained: DetectorState
    history: DetectorHistory
    tuned: DetectorState | None = None
    """After fine-tuning on the superclasses, where the labels are the fine ones."""

    @property
    def classes(self) -> int:
        """G, which with one class a sample is also the batch size."""
        return self.trained.detectors.shape[1]

    @property
    def superclass(self) -> Tensor | None:
        """Of each class, (G,)."""
        return superclasses(self.labels, self.data.k, self.classes)

    @property
    def own(self) -> Tensor:
        """The features of each class, (G, F)."""
        return own_features(self.labels, self.data.k, self.classes)

    def row(self, s: int) -> "TrainedReplicas":
        """Replica s alone, without its history."""
        return self._replace(seeds=self.seeds[s : s + 1], trained=self.trained.row(s))


def recorded(T: int) -> list[int]:
    """Steps of the history: log-spaced, with those that growth in log t is read off at."""
    return sorted({*log_spaced(T), T // 16, T // 4, T - 1} - {T})


def train(
    data: EasyData,
    learner: Learner,
    detectors: Detectors,
    labels: Labels,
    seeds: list[int],
    finetuning: int = 0,
    draws: str = DRAWS,
) -> TrainedReplicas:
    """Initial weights by their law, then T fresh batches: the same samples for all labels.

    Args:
        finetuning: so many batches more by the maximum rule on the superclasses (G.4), as `tuned`; 0 for none.
    """
    classes = labels.classes(data.k, learner.N)
    initial = scalar_simulator.initialise(
        classes,
        data,
        detectors,
        learner.sigma_0,
        streams(f"detectors {labels.label}", seeds, draws),
    )
    fresh = batches(
        data,
        labels,
        learner.N,
        detectors.T,
        streams("batches", seeds, draws),
        streams(f"labels {labels.label}", seeds, draws),
    )
    trained = TrainedReplicas(
        data,
        labels,
        seeds,
        *scalar_simulator.train(initial, data, learner, fresh, recorded(detectors.T)),
    )
    return (
        trained._replace(tuned=fine_tune(trained, learner, finetuning, draws))
        if finetuning
        else trained
    )


def fine_tune(
    replicas: TrainedReplicas, learner: Learner, T: int, draws: str = DRAWS
) -> DetectorState:
    """Fhat trained on the superclasses by the maximum rule (G.4), T more batches."""
    data, seeds = replicas.data, replicas.seeds
    truth = (subclasses(data.k, learner.N) // data.k).expand(len(seeds), -1)
    fresh = (
        (patches, truth)
        for patches, _ in batches(
            data, COARSE, learner.N, T, streams("fine-tuning", seeds, draws), []
        )
    )
    return scalar_simulator.train(
        replicas.trained, data, learner, fresh, [0], tune=replicas.superclass
    )[0]


def tensors_of(replicas: TrainedReplicas) -> dict[str, Tensor]:
    """The detectors of the start, what they moved by, and the history."""
    start = {name: getattr(replicas.trained, name) for name in ("detectors", "initial")}
    ends = {end: state for end in ENDS if (state := getattr(replicas, end)) is not None}
    moved = {f"{end}/{name}": getattr(state, name) for end, state in ends.items() for name in MOVED}
    return (
        start
        | moved
        | {f"history/{name}": part for name, part in replicas.history._asdict().items()}
    )


def replicas_of(detectors: CellFile, job: Job) -> TrainedReplicas:
    """The replicas that a job of the same cell and seeds reads; RarefeatError where the file is another."""
    data, labels, learner = (
        job.config_section("data", EasyData),
        job.config_section("labels", Labels),
        job.config_section("learner", Learner),
    )
    threshold = learner.sigma_0 * job.config_section("detectors", Detectors).threshold
    ends = ENDS if "finetuning" in job.config else ENDS[:1]
    names = [
        *(f"{end}/{name}" for end in ends for name in MOVED),
        *(f"history/{name}" for name in DetectorHistory._fields),
    ]
    start, initial, *parts = detectors.tensors("detectors", "initial", *names)
    states = [
        DetectorState(start, initial, *parts[2 * i : 2 * i + 2], threshold)
        for i in range(len(ends))
    ]
    return TrainedReplicas(
        data,
        labels,
        job.seed_list,
        states[0],
        DetectorHistory(*parts[2 * len(ends) :]),
        *states[1:],
    )


def train_detectors(read: JobInputs, job: Job) -> dict[str, Tensor]:
    """The stage of one k and one kind of labels."""
    parts = (
        job.config_section("data", EasyData), job.config_section("learner", Learner), job.config_section("detectors", Detectors), job.config_section("labels", Labels),
    )  # fmt: skip
    return tensors_of(train(*parts, job.seed_list, job.config.get("finetuning", 0)))
