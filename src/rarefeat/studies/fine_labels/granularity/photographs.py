"""The granularity sweep on photographs: residual networks, one replica after the other, with checkpoints."""

import math
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from rarefeat.config.images import ImageData
from rarefeat.core.errors import RarefeatError
from rarefeat.core.randomness import generator
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
from rarefeat.run.job import Job
from rarefeat.run.job_inputs import CellFile, JobInputs
from rarefeat.studies.fine_labels.config import LabelScheme, ResNetSettings, SGDSettings
from rarefeat.studies.fine_labels.granularity.label_schemes import (
    Levels,
    at_level,
    classes_of,
    read_levels,
)
from rarefeat.studies.fine_labels.granularity.training import learning_rate, moved


class Classifier(nn.Module):
    """The encoder with a linear head on its features."""

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
        """The weights that are trained, by name: not those of the encoder's own head, which nothing here sees."""
        return {
            name: weight
            for name, weight in self.named_parameters()
            if not name.startswith("encoder.head")
        }

    def forward(self, images: Tensor) -> Tensor:
        """Scores (B, classes) of images (B, 3, H, W) in [0, 1]."""
        return self.head(self.encoder.features(images))


def fit(
    model: Classifier,
    images: Tensor,
    targets: Tensor,
    training: ResNetSettings,
    descent: SGDSettings,
    course: TrainingRun,
    kept: list[int],
) -> None:
    """Train, from the checkpoint where there is one; the weights after the epochs `kept` are files beside it.

    Args:
        images: uint8 (N, 3, H, W). targets: classes (N,).

    Raises:
        RarefeatError: as `train` of images/trainer.py.
    """
    device = next(model.parameters()).device
    weights = model.trained
    options = {"lr": descent.lr, "momentum": descent.momentum, "weight_decay": descent.weight_decay}
    optimiser = torch.optim.SGD(weights.values(), **options)

    def loss_of(rows: Tensor, step: int) -> Tensor:
        views = views_of(images[rows].to(device), training, course.stream(f"views {step}"))
        with torch.autocast(
            device.type, dtype=torch.bfloat16, enabled=training.precision == "bfloat16"
        ):
            scores = model(views)
        return functional.cross_entropy(scores.float(), targets[rows].to(device))

    def rate_of(step: int, per_epoch: int) -> float:
        return learning_rate(descent, step, descent.epochs * per_epoch)

    def end(epochs: int, loss: Tensor, rate: float) -> None:
        if epochs in kept:
            save_epoch(course, epochs, weights)

    train(
        course,
        weights,
        optimiser,
        (len(images), descent.batch, descent.epochs),
        rate_of,
        loss_of,
        {},
        end=end,
    )


def views_of(images: Tensor, training: ResNetSettings, draws: torch.Generator) -> Tensor:
    """Training images moved and flipped, uint8 (B, 3, H, W) -> in [0, 1]."""
    x = moved(images[None], training.shift, [draws])[0].float() / 255
    flip = torch.rand(len(x), 1, 1, 1, generator=draws) < training.flip
    x = torch.where(flip.to(x.device), x.flip(-1), x)
    return x.contiguous(memory_format=torch.channels_last)


class SweepImages(NamedTuple):
    """The images of a sweep and their superclasses."""

    train: Tensor
    labels: Tensor
    """The images' own."""
    superclass: Tensor
    test: Tensor
    test_superclass: Tensor


def error_rate(model: Classifier, images: SweepImages) -> float:
    """Share of validation images whose superclass is missed, with statistics of the norms over the training images."""
    calibrate(model.encoder, images.train)
    features, _ = extract(model.encoder, images.test)
    with torch.no_grad():
        return (model.head(features).argmax(-1) != images.test_superclass).double().mean().item()


def probe_error_rate(model: Classifier, images: SweepImages, l2: float) -> float:
    """The same of a linear probe."""
    calibrate(model.encoder, images.train)
    x, unseen = standardise(
        *(extract(model.encoder, part)[0] for part in (images.train, images.test))
    )
    head = logistic_probe(x, images.superclass, int(images.superclass.max()) + 1, l2)
    return (predict(unseen, *head) != images.test_superclass).double().mean().item()


def replica(
    images: SweepImages,
    named: Tensor,
    scheme: LabelScheme,
    training: ResNetSettings,
    seed: int,
    draws: str,
    folder: Path,
    identity: Tensor,
) -> Iterator[dict]:
    """Rows of one replica, as `digits.rows`; `named` are the classes in pretraining, (N,). Checkpoints lie in `folder`."""
    G, superclasses, device = (
        int(named.max()) + 1,
        int(images.superclass.max()) + 1,
        images.train.device,
    )

    def network(classes: int, purpose: str) -> Classifier:
        made = Classifier(
            make_encoder(training.network, 1, draws, seed),
            classes,
            generator(draws, seed, f"{purpose} head"),
        )
        return made.to(device, memory_format=torch.channels_last)

    def course(purpose: str, name: str) -> TrainingRun:
        path = folder / f"{name}.seed={seed}.safetensors"
        return TrainingRun(
            draws, seed, path, identity, training.checkpoint_minutes, str(path), f"{purpose} "
        )

    first = course("pretraining", "pretraining")
    pretrained = network(G, "pretraining")
    fit(
        pretrained, images.train, named, training, training.pretraining, first, training.checkpoints
    )
    for epoch in training.checkpoints:
        load_weights(pretrained.trained, load(first, first.epoch_path(epoch), pretrained.trained))
        errors = {"probe": probe_error_rate(pretrained, images, training.l2)}
        if scheme.kind == "coarse":
            errors["once"] = error_rate(pretrained, images)
        tuned = network(superclasses, "superclasses")
        tuned.encoder.load_state_dict(pretrained.encoder.state_dict())
        second = course("superclasses", f"superclasses.{epoch}")
        fit(tuned, images.train, images.superclass, training, training.finetuning, second, [])
        errors["finetuned"] = error_rate(tuned, images)
        for readout, error in errors.items():
            if not math.isfinite(error):
                raise RarefeatError(f"{second.label}: the error is not finite; lower lr")
            yield {"classes": G, "epoch": epoch, "readout": readout, "seed": seed, "error": error}


def read_images(file: CellFile, levels: Levels, superclass: str, device: str) -> SweepImages:
    """The images that a job reads."""
    train, labels, test, test_labels = file.tensors("train", "train_labels", "test", "test_labels")
    truth, test_truth = (at_level(levels, superclass, part) for part in (labels, test_labels))
    if not truth.any() or truth.max() != test_truth.max():
        raise RarefeatError(
            f"levels.{superclass}: two superclasses at least are needed, of which each has training and test images"
        )
    return SweepImages(*(part.to(device) for part in (train, labels, truth, test, test_truth)))


def sweep_photographs(read: JobInputs, job: Job) -> list[dict]:
    """The stage: one coarse task and kind of labels."""
    training, scheme, superclass = (
        job.config_section("training", ResNetSettings),
        job.config_section("labels", LabelScheme),
        job.config_section("superclass", str),
    )
    prepare(training.threads, training.device)
    named, folder = (
        job.config_section("levels", dict[str, list[int]] | str),
        job.config_section("data", ImageData).folder,
    )
    levels = read_levels(named, folder)
    check_unchanged(job, "hierarchy", [("levels", f"{folder}/{named}")])
    images = read_images(read.file("images"), levels, superclass, training.device)
    features = read.file("features").tensors("features")[0] if scheme.clustered else None
    candidates = job.config_section("candidates", list[int]) if "candidates" in job.config else None
    rows = []
    for seed in job.seed_list:
        labels, truth = images.labels.cpu(), images.superclass.cpu()
        named = classes_of(scheme, labels, truth, levels, features, job.study, seed, candidates)
        seen = images.train, named, images.superclass
        identity = identity_of(job.stage, seen, training, job.study, superclass, scheme.label, seed)
        rows += replica(
            images,
            named.to(training.device),
            scheme,
            training,
            seed,
            job.study,
            read.checkpoints,
            identity,
        )

    def forget() -> None:
        for seed in job.seed_list:
            for path in read.checkpoints.glob(f"*.seed={seed}.*safetensors"):
                path.unlink()

    read.afterwards.append(forget)
    return [{**job.cell, **row} for row in rows]
