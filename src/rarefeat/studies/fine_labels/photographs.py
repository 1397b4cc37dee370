"""Granularity sweep on photographs: residual networks, one replica after the other.

Trainings continue from checkpoints. Features for clusters are of one SimCLR network (Chen et al.
2020) for all replicas, which no label affects. Purposes of the random streams, in the namespace of
the study's name: those of `images.network.make_encoder`, and with the prefix pretraining or
superclasses those of `images.trainer.TrainingRun`, views STEP and head.
Axes: N images, B images of a batch, G classes, H and W pixels, p features.
"""

import math
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import torch
from jaxtyping import Float, Int, UInt8
from torch import Tensor, nn
from torch.nn import functional

from rarefeat.errors import RarefeatError
from rarefeat.images.evaluation import logistic_probe, predict, standardise
from rarefeat.images.input_hashes import check_unchanged
from rarefeat.images.network import ImageEncoder, calibrate, extract, make_encoder
from rarefeat.images.pretrain import ProbeData, pretrain_images
from rarefeat.images.splits import few_shot
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
from rarefeat.studies.fine_labels.granularity import (
    LabelScheme,
    ResNetSettings,
    SelfSupervised,
    SGDSettings,
)
from rarefeat.studies.fine_labels.label_schemes import (
    Levels,
    at_level,
    classes_of,
    learning_rate,
    read_levels,
    shift_images,
)
from rarefeat.workflow.config.images import ImageArm, ImageData
from rarefeat.workflow.run.job import Job
from rarefeat.workflow.run.job_inputs import CellFile, JobInputs

Images = UInt8[Tensor, "N 3 H W"]
SEED = 0
"""Seed of the features: the clusters of every replica are of the same, as the paper's are of one
CLIP network."""
DENSE = ImageArm(arm="dense")
FEW = 5
"""Images of a class for the probe that is recorded over the training of the features."""


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
        weights = self.named_parameters()
        return {name: x for name, x in weights if not name.startswith("encoder.head")}

    def forward(self, images: Float[Tensor, "B 3 H W"]) -> Float[Tensor, "B G"]:
        """Compute scores of images in [0, 1]."""
        return self.head(self.encoder.features(images))


def fit(
    model: Classifier, images: Images, targets: Int[Tensor, " N"], training: ResNetSettings,
    descent: SGDSettings, run: TrainingRun, epochs: list[int],
) -> None:  # fmt: skip
    """Train a model, from its checkpoint if there is one; keep its weights after some epochs."""
    device = next(model.parameters()).device
    weights = model.trained
    options = {"lr": descent.lr, "momentum": descent.momentum, "weight_decay": descent.weight_decay}
    optimiser = torch.optim.SGD(weights.values(), **options)
    low = training.precision == "bfloat16"

    def loss_of(rows: Tensor, step: int) -> Tensor:
        views = views_of(images[rows].to(device), training, run.stream(f"views {step}"))
        with torch.autocast(device.type, dtype=torch.bfloat16, enabled=low):
            scores = model(views)
        return functional.cross_entropy(scores.float(), targets[rows].to(device))

    def rate_of(step: int, per_epoch: int) -> float:
        return learning_rate(descent, step, descent.epochs * per_epoch)

    def end(epoch: int, loss: Tensor, rate: float) -> None:
        if epoch in epochs:
            save_epoch(run, epoch, weights)

    sizes = len(images), descent.batch, descent.epochs
    train(run, weights, optimiser, sizes, rate_of, loss_of, {}, end=end)


def views_of(
    images: UInt8[Tensor, "B 3 H W"], training: ResNetSettings, stream: torch.Generator
) -> Float[Tensor, "B 3 H W"]:
    """Shift and flip training images."""
    x = shift_images(images[None], training.shift, [stream])[0].float() / 255
    flip = torch.rand(len(x), 1, 1, 1, generator=stream) < training.flip
    x = torch.where(flip.to(x.device), x.flip(-1), x)
    return x.contiguous(memory_format=torch.channels_last)


class SweepImages(NamedTuple):
    """Images of a sweep with their superclasses."""

    train: Images
    labels: Int[Tensor, " N"]
    """Labels of the data set."""
    superclass: Int[Tensor, " N"]
    test: Images
    test_superclass: Int[Tensor, " N"]


def error_rate(model: Classifier, images: SweepImages) -> float:
    """Compute the fraction of wrong superclasses, with norms calibrated on training images."""
    calibrate(model.encoder, images.train)
    features = extract(model.encoder, images.test)
    with torch.no_grad():
        return (model.head(features).argmax(-1) != images.test_superclass).double().mean().item()


def probe_error_rate(model: Classifier, images: SweepImages, l2: float) -> float:
    """Compute the error rate of a linear probe of the features."""
    calibrate(model.encoder, images.train)
    x_train, x_test = standardise(*(extract(model.encoder, x) for x in (images.train, images.test)))
    head = logistic_probe(x_train, images.superclass, int(images.superclass.max()) + 1, l2)
    return (predict(x_test, *head) != images.test_superclass).double().mean().item()


def iter_replica_rows(
    images: SweepImages, classes: Int[Tensor, " N"], scheme: LabelScheme, training: ResNetSettings,
    seed: int, draws: str, folder: Path, identity: UInt8[Tensor, "32"],
) -> Iterator[dict]:  # fmt: skip
    """Train one replica; yield its rows, as `digits.error_rows`."""
    G, superclasses = int(classes.max()) + 1, int(images.superclass.max()) + 1

    def make_model(n_classes: int, purpose: str) -> Classifier:
        encoder = make_encoder(training.network, 1, draws, seed)
        model = Classifier(encoder, n_classes, generator(draws, seed, f"{purpose} head"))
        return model.to(images.train.device, memory_format=torch.channels_last)

    def make_run(purpose: str, name: str) -> TrainingRun:
        path, minutes = folder / f"{name}.seed={seed}.safetensors", training.checkpoint_minutes
        return TrainingRun(draws, seed, path, identity, minutes, str(path), f"{purpose} ")

    first = make_run("pretraining", "pretraining")
    pretrained = make_model(G, "pretraining")
    descent, tuning = training.pretraining, training.finetuning
    fit(pretrained, images.train, classes, training, descent, first, training.checkpoints)
    for epoch in training.checkpoints:
        load_weights(pretrained.trained, load(first, first.epoch_path(epoch), pretrained.trained))
        errors = {"probe": probe_error_rate(pretrained, images, training.l2)}
        if scheme.kind == "coarse":
            errors["once"] = error_rate(pretrained, images)
        tuned = make_model(superclasses, "superclasses")
        tuned.encoder.load_state_dict(pretrained.encoder.state_dict())
        second = make_run("superclasses", f"superclasses.{epoch}")
        fit(tuned, images.train, images.superclass, training, tuning, second, [])
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


def represent_photographs(
    inputs: JobInputs, job: Job, training: ResNetSettings, features: SelfSupervised
) -> dict[str, Float[Tensor, "N p"]]:
    """Return the features of the training images of a sweep."""
    study, own = job.study, features.training
    prepare(own.threads, own.device, "features.training.device")
    names = "train", "train_labels", "test", "test_labels"
    images, labels, test, test_labels = (
        tensor.to(own.device) for tensor in inputs.file("images").tensors(*names)
    )
    few = few_shot(labels.cpu(), min(FEW, int(torch.bincount(labels).min())), study, SEED)
    probe_data = ProbeData(images, labels, images[few], labels[few], test, test_labels)
    sections = DENSE, training.network, features.augmentation, own
    path = inputs.checkpoints / "features.safetensors"
    identity = identity_of(job.stage, probe_data, study, SEED, *sections)
    label = f"features of {study}"
    run = TrainingRun(study, SEED, path, identity, own.checkpoint_minutes, label)
    encoder, _ = pretrain_images(run, images, probe_data, *sections)
    inputs.afterwards.append(run.delete_files)
    return {"features": extract(encoder, images).cpu()}


def sweep_photographs(
    inputs: JobInputs, cell: dict, seeds: list[int], job: Job, data: ImageData,
    training: ResNetSettings, levels: dict[str, list[int]] | str, candidates: list[int],
) -> list[dict]:  # fmt: skip
    """Return the errors of one coarse task and kind of labels."""
    study, superclass, scheme = job.study, cell["superclass"], LabelScheme.named(cell["labels"])
    prepare(training.threads, training.device)
    hierarchy, folder = read_levels(levels, data.folder), inputs.checkpoints
    check_unchanged(job, "hierarchy", [("levels", f"{data.folder}/{levels}")])
    images = read_images(inputs.file("images"), hierarchy, superclass, training.device)
    features = inputs.file("features").tensors("features")[0] if scheme.clustered else None
    rows = []
    for seed in seeds:
        labels, truth = images.labels.cpu(), images.superclass.cpu()
        classes = classes_of(scheme, labels, truth, hierarchy, features, study, seed, candidates)
        trained_on = images.train, classes, images.superclass
        settings = training, study, superclass, scheme.label, seed
        identity = identity_of(job.stage, trained_on, *settings)
        classes = classes.to(training.device)
        rows += iter_replica_rows(images, classes, scheme, training, seed, study, folder, identity)

    def delete_checkpoints() -> None:
        for seed in seeds:
            for path in folder.glob(f"*.seed={seed}.*safetensors"):
                path.unlink()

    inputs.afterwards.append(delete_checkpoints)
    return [{**cell, **row} for row in rows]
