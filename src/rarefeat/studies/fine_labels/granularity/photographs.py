"""Granularity sweep on photographs: residual networks, one replica after the other.

Trainings continue from checkpoints. Purposes of the random streams, in the namespace `draws`: those
of `images.network.make_encoder`, and with the prefix pretraining or superclasses those of
`images.trainer.TrainingRun`, views STEP and head.
"""

import math
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from rarefeat.errors import RarefeatError
from rarefeat.images.evaluation import logistic_probe, predict, standardise
from rarefeat.images.input_hashes import check_unchanged
from rarefeat.images.network import ImageEncoder, calibrate, extract, make_encoder
from rarefeat.images.trainer import (
    TrainingRun,
    identity_of,
    load,
    load_weights,
    prepare,
    save_epoch,
    train,
)
from rarefeat.model.randomness import generator
from rarefeat.studies.fine_labels.config import LabelScheme, ResNetSettings, SGDSettings
from rarefeat.studies.fine_labels.granularity.label_schemes import (
    Levels,
    at_level,
    classes_of,
    read_levels,
)
from rarefeat.studies.fine_labels.granularity.training import learning_rate, shift_images
from rarefeat.workflow.config.images import ImageData
from rarefeat.workflow.run.job import Job
from rarefeat.workflow.run.job_inputs import CellFile, JobInputs


class Classifier(nn.Module):
    """An encoder with a linear head on its features."""

    def __init__(self, encoder: ImageEncoder, classes: int, stream: torch.Generator):
        super().__init__()
        self.encoder = encoder
        self.head = nn.Linear(encoder.dimension, classes)
        with torch.no_grad():
            bound = encoder.dimension**-0.5
            self.head.weight.uniform_(-bound, bound, generator=stream)
            self.head.bias.zero_()

    @property
    def trained(self) -> dict[str, nn.Parameter]:
        """Trained weights by name: all but those of the head of the encoder, which is not used."""
        return {
            name: weight
            for name, weight in self.named_parameters()
            if not name.startswith("encoder.head")
        }

    def forward(self, images: Tensor) -> Tensor:
        """Compute scores (B, classes) of images (B, 3, H, W) in [0, 1]."""
        return self.head(self.encoder.features(images))


def fit(
    model: Classifier,
    images: Tensor,
    targets: Tensor,
    training: ResNetSettings,
    descent: SGDSettings,
    run: TrainingRun,
    epochs: list[int],
) -> None:
    """Train a model, from its checkpoint if there is one.

    images (N, 3, H, W), targets (N,).
    """
    device = next(model.parameters()).device
    weights = model.trained
    options = {"lr": descent.lr, "momentum": descent.momentum, "weight_decay": descent.weight_decay}
    optimiser = torch.optim.SGD(weights.values(), **options)

    def loss_of(rows: Tensor, step: int) -> Tensor:
        views = views_of(images[rows].to(device), training, run.stream(f"views {step}"))
        with torch.autocast(
            device.type, dtype=torch.bfloat16, enabled=training.precision == "bfloat16"
        ):
            scores = model(views)
        return functional.cross_entropy(scores.float(), targets[rows].to(device))

    def rate_of(step: int, per_epoch: int) -> float:
        return learning_rate(descent, step, descent.epochs * per_epoch)

    def end(epoch: int, loss: Tensor, rate: float) -> None:
        if epoch in epochs:
            save_epoch(run, epoch, weights)

    sizes = len(images), descent.batch, descent.epochs
    train(run, weights, optimiser, sizes, rate_of, loss_of, {}, end=end)


def views_of(images: Tensor, training: ResNetSettings, stream: torch.Generator) -> Tensor:
    """Shift and flip training images.

    images (B, 3, H, W) -> (B, 3, H, W).
    """
    x = shift_images(images[None], training.shift, [stream])[0].float() / 255
    flip = torch.rand(len(x), 1, 1, 1, generator=stream) < training.flip
    x = torch.where(flip.to(x.device), x.flip(-1), x)
    return x.contiguous(memory_format=torch.channels_last)


class SweepImages(NamedTuple):
    """Images of a sweep with their superclasses."""

    train: Tensor
    labels: Tensor
    """Labels of the data set."""
    superclass: Tensor
    test: Tensor
    test_superclass: Tensor


def error_rate(model: Classifier, images: SweepImages) -> float:
    """Compute the fraction of validation images with a wrong superclass.

    The statistics of the normalisation layers are those of the training images.
    """
    calibrate(model.encoder, images.train)
    features, _ = extract(model.encoder, images.test)
    with torch.no_grad():
        return (model.head(features).argmax(-1) != images.test_superclass).double().mean().item()


def probe_error_rate(model: Classifier, images: SweepImages, l2: float) -> float:
    """Compute the error rate of a linear probe of the features."""
    calibrate(model.encoder, images.train)
    x_train, x_test = standardise(
        *(extract(model.encoder, x)[0] for x in (images.train, images.test))
    )
    head = logistic_probe(x_train, images.superclass, int(images.superclass.max()) + 1, l2)
    return (predict(x_test, *head) != images.test_superclass).double().mean().item()


def iter_replica_rows(
    images: SweepImages,
    classes: Tensor,
    scheme: LabelScheme,
    training: ResNetSettings,
    seed: int,
    draws: str,
    folder: Path,
    identity: Tensor,
) -> Iterator[dict]:
    """Train one replica; yield its rows, as `digits.error_rows`.

    classes (N,).
    """
    G, superclasses = int(classes.max()) + 1, int(images.superclass.max()) + 1
    device = images.train.device

    def make_model(n_classes: int, purpose: str) -> Classifier:
        encoder = make_encoder(training.network, 1, draws, seed)
        model = Classifier(encoder, n_classes, generator(draws, seed, f"{purpose} head"))
        return model.to(device, memory_format=torch.channels_last)

    def make_run(purpose: str, name: str) -> TrainingRun:
        path = folder / f"{name}.seed={seed}.safetensors"
        return TrainingRun(
            draws, seed, path, identity, training.checkpoint_minutes, str(path), f"{purpose} "
        )

    first = make_run("pretraining", "pretraining")
    pretrained = make_model(G, "pretraining")
    descent = training.pretraining
    fit(pretrained, images.train, classes, training, descent, first, training.checkpoints)
    for epoch in training.checkpoints:
        load_weights(pretrained.trained, load(first, first.epoch_path(epoch), pretrained.trained))
        errors = {"probe": probe_error_rate(pretrained, images, training.l2)}
        if scheme.kind == "coarse":
            errors["once"] = error_rate(pretrained, images)
        tuned = make_model(superclasses, "superclasses")
        tuned.encoder.load_state_dict(pretrained.encoder.state_dict())
        second = make_run("superclasses", f"superclasses.{epoch}")
        fit(tuned, images.train, images.superclass, training, training.finetuning, second, [])
        errors["finetuned"] = error_rate(tuned, images)
        for readout, error in errors.items():
            if not math.isfinite(error):
                raise RarefeatError(f"{second.label}: the error is not finite; lower lr")
            yield {"classes": G, "epoch": epoch, "readout": readout, "seed": seed, "error": error}


def read_images(file: CellFile, levels: Levels, superclass: str, device: str) -> SweepImages:
    """Read the images of a sweep."""
    train, labels, test, test_labels = file.tensors("train", "train_labels", "test", "test_labels")
    truth, test_truth = (at_level(levels, superclass, x) for x in (labels, test_labels))
    if not truth.any() or truth.max() != test_truth.max():
        raise RarefeatError(
            f"levels.{superclass}: must have at least two superclasses, each with training and test"
            " images"
        )
    return SweepImages(*(x.to(device) for x in (train, labels, truth, test, test_truth)))


def sweep_photographs(inputs: JobInputs, job: Job) -> list[dict]:
    """Return the errors of one coarse task and kind of labels.

    Inputs: `images` of the study, and its `features` for clusters. Config: `data`, `training`,
    `labels`, `levels`, `superclass`; `features` for clusters, `candidates` for rebalanced ones.
    """
    training = job.config_section("training", ResNetSettings)
    scheme = job.config_section("labels", LabelScheme)
    superclass = job.config_section("superclass", str)
    prepare(training.threads, training.device)
    hierarchy = job.config_section("levels", dict[str, list[int]] | str)
    folder = job.config_section("data", ImageData).folder
    levels = read_levels(hierarchy, folder)
    check_unchanged(job, "hierarchy", [("levels", f"{folder}/{hierarchy}")])
    images = read_images(inputs.file("images"), levels, superclass, training.device)
    features = inputs.file("features").tensors("features")[0] if scheme.clustered else None
    candidates = job.config_section("candidates", list[int]) if "candidates" in job.config else None
    rows = []
    for seed in job.seed_list:
        labels, truth = images.labels.cpu(), images.superclass.cpu()
        classes = classes_of(scheme, labels, truth, levels, features, job.study, seed, candidates)
        trained_on = images.train, classes, images.superclass
        identity = identity_of(
            job.stage, trained_on, training, job.study, superclass, scheme.label, seed
        )
        rows += iter_replica_rows(
            images,
            classes.to(training.device),
            scheme,
            training,
            seed,
            job.study,
            inputs.checkpoints,
            identity,
        )

    def delete_checkpoints() -> None:
        for seed in job.seed_list:
            for path in inputs.checkpoints.glob(f"*.seed={seed}.*safetensors"):
                path.unlink()

    inputs.afterwards.append(delete_checkpoints)
    return [{**job.cell, **row} for row in rows]
