"""First stage of the study of fine labels: detectors of one k and one kind of labels.

They are trained by the scalar simulator. Purposes of the random streams, in the namespace
`data.DRAWS`: detectors LABEL, batches, labels LABEL, fine-tuning.
"""

from typing import NamedTuple

from torch import Tensor

from rarefeat.model.recorded_steps import log_spaced
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
from rarefeat.workflow.run.job import Job
from rarefeat.workflow.run.job_inputs import CellFile, JobInputs

ENDS = ("trained", "tuned")
"""States that a file holds."""
CHANGES = ("displacement", "decrement")
"""Tensors of a state that training changes."""


class TrainedReplicas(NamedTuple):
    """Trained networks of one k and one kind of labels, one replica for each seed."""

    data: EasyData
    labels: Labels
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
    def superclass(self) -> Tensor | None:
        """Superclass of each class, (G,)."""
        return superclasses(self.labels, self.data.k, self.classes)

    @property
    def features(self) -> Tensor:
        """Features that samples of each class hold, bool (G, F)."""
        return own_features(self.labels, self.data.k, self.classes)

    def row(self, s: int) -> "TrainedReplicas":
        """Return replica s alone, with the history of all."""
        return self._replace(seeds=self.seeds[s : s + 1], trained=self.trained.row(s))


def recorded_steps(T: int) -> list[int]:
    """Return the recorded steps: log-spaced ones, T / 16, T / 4 and T - 1."""
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
    """Train on T fresh batches; the samples are the same for all labels."""
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
    record = recorded_steps(detectors.T)
    trained = TrainedReplicas(
        data, labels, seeds, *scalar_simulator.train(initial, data, learner, fresh, record)
    )
    if not finetuning:
        return trained
    return trained._replace(tuned=fine_tune(trained, learner, finetuning, draws))


def fine_tune(
    replicas: TrainedReplicas, learner: Learner, T: int, draws: str = DRAWS
) -> DetectorState:
    """Train Fhat on the superclasses by the maximum rule (G.4)."""
    data, seeds = replicas.data, replicas.seeds
    truth = (subclasses(data.k, learner.N) // data.k).expand(len(seeds), -1)
    generators = streams("fine-tuning", seeds, draws)
    # Coarse labels take no random numbers.
    samples = batches(data, COARSE, learner.N, T, generators, [])
    fresh = ((patches, truth) for patches, _ in samples)
    return scalar_simulator.train(
        replicas.trained, data, learner, fresh, [0], tune=replicas.superclass
    )[0]


def tensors_of(replicas: TrainedReplicas) -> dict[str, Tensor]:
    """Return the tensors of a file: initial detectors, their changes, and the history."""
    start = {name: getattr(replicas.trained, name) for name in ("detectors", "initial")}
    states = {end: state for end in ENDS if (state := getattr(replicas, end)) is not None}
    changes = {
        f"{end}/{name}": getattr(state, name) for end, state in states.items() for name in CHANGES
    }
    history = {f"history/{name}": tensor for name, tensor in replicas.history._asdict().items()}
    return start | changes | history


def replicas_of(detectors: CellFile, job: Job) -> TrainedReplicas:
    """Read the trained networks of a job's cell and seeds."""
    data, labels = job.config_section("data", EasyData), job.config_section("labels", Labels)
    learner = job.config_section("learner", Learner)
    threshold = learner.sigma_0 * job.config_section("detectors", Detectors).threshold
    ends = ENDS if "finetuning" in job.config else ENDS[:1]
    names = [
        *(f"{end}/{name}" for end in ends for name in CHANGES),
        *(f"history/{name}" for name in DetectorHistory._fields),
    ]
    start, initial, *tensors = detectors.tensors("detectors", "initial", *names)
    states = [
        DetectorState(start, initial, *tensors[2 * i : 2 * i + 2], threshold)
        for i in range(len(ends))
    ]
    history = DetectorHistory(*tensors[2 * len(ends) :])
    return TrainedReplicas(data, labels, job.seed_list, states[0], history, *states[1:])


def train_detectors(inputs: JobInputs, job: Job) -> dict[str, Tensor]:
    """Return the trained detectors of one k and one kind of labels.

    Inputs: none. Config: `data`, `learner`, `detectors`, `labels`, and `finetuning` for fine
    labels.
    """
    replicas = train(
        job.config_section("data", EasyData),
        job.config_section("learner", Learner),
        job.config_section("detectors", Detectors),
        job.config_section("labels", Labels),
        job.seed_list,
        job.config.get("finetuning", 0),
    )
    return tensors_of(replicas)
