"""Stage 2 of the image studies: contrastive pretraining of a block of replicas, one after the other, with checkpoints."""

import sys
from functools import partial
from typing import NamedTuple

import pyarrow as pa
import torch
from torch import Tensor
from torch.func import functional_call

from rarefeat.config.images import Augmentation, ImageArm, ImageTraining, Network
from rarefeat.core.randomness import generator
from rarefeat.images.augmentation import make_augment, two_views
from rarefeat.images.evaluation import (
    alignment,
    effective_rank,
    knn_predict,
    logistic_probe,
    predict,
    standardise,
    uniformity,
)
from rarefeat.images.network import ImageEncoder, calibrate, extract, make_encoder
from rarefeat.images.nt_xent import Weights, arm_loss, compute_masks, convolution_weights
from rarefeat.images.trainer import TrainingRun, identity_of, prepare, train, warmed_cosine
from rarefeat.run.job import Job
from rarefeat.run.job_inputs import JobInputs
from rarefeat.storage.sealed_files import write_table

RECORDED = (
    "loss",
    "learning_rate",
    "alignment",
    "uniformity",
    "knn_accuracy",
    "few_shot_accuracy",
    "effective_rank",
)
NO_RECORDS = torch.zeros(0, 1 + len(RECORDED), dtype=torch.float64)
NEIGHBOURS, L2 = 5, 1e-3
"""Of the probes that are recorded during a training; those of a finished one are the config's."""


class ProbeData(NamedTuple):
    """What the recorded probes see: uint8 images (n, 3, H, W) and labels (n,)."""

    images: Tensor  # the pretraining images
    labels: Tensor
    few: Tensor  # a few of each class
    few_labels: Tensor
    test: Tensor
    test_labels: Tensor


class LARS(torch.optim.Optimizer):
    """Momentum with layer-wise rates (You et al. 2017): matrices and convolutions step by 0.001 ||w|| / ||gradient||.

    Biases and norms have no weight decay and no such rate.
    """

    def __init__(self, parameters, lr: float, momentum: float, weight_decay: float):
        super().__init__(parameters, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure=None) -> None:
        """One step."""
        for group in self.param_groups:
            for weight in (weight for weight in group["params"] if weight.grad is not None):
                update = weight.grad
                if weight.ndim > 1:
                    update = update + group["weight_decay"] * weight
                    norm, size = weight.norm(), update.norm()
                    update = update * torch.where(
                        (norm > 0) & (size > 0), 0.001 * norm / size, torch.ones_like(norm)
                    )
                buffer = self.state[weight].setdefault("momentum_buffer", torch.zeros_like(weight))
                buffer.mul_(group["momentum"]).add_(update)
                weight -= group["lr"] * buffer


def pretrain_images(
    course: TrainingRun,
    images: Tensor,
    bank: ProbeData,
    arm: ImageArm,
    network: Network,
    augmentation: Augmentation,
    training: ImageTraining,
) -> tuple[ImageEncoder, list[dict]]:
    """Train one replica, from its checkpoint where there is one.

    Args:
        images: uint8 (N, 3, H, W), on the device, as is the bank.

    Returns:
        The encoder with the dense weights, its batch norms calibrated on `images`, and a row {epoch, metric, value} for each
        record.

    Raises:
        RarefeatError: as `train` of trainer.py.
    """
    device, layout = (
        images.device,
        torch.channels_last if training.bfloat16 else torch.contiguous_format,
    )
    draws, seed = course.draws, course.seed
    encoder = make_encoder(network, 2 if arm.arm == "self_damaging" else 1, draws, seed).to(
        device, memory_format=layout
    )
    augment = make_augment(augmentation, images.shape[-1]).to(device)
    weights = dict(encoder.named_parameters())
    momentum = {"momentum": training.momentum, "weight_decay": training.weight_decay}
    optimiser = {"sgd": torch.optim.SGD, "lars": LARS}[training.optimiser](
        weights.values(), lr=training.lr, **momentum
    )
    scores = mask_scores(weights, draws, seed) if arm.threshold == "random" else None
    masked = [] if arm.arm == "dense" else list(convolution_weights(weights))
    state = {
        f"mask/{name}": torch.zeros_like(weights[name], dtype=torch.bool) for name in masked
    } | {"records": NO_RECORDS}
    views: list[Tensor] = []

    def project(replaced: dict[str, Tensor], views: Tensor, branch: int) -> Tensor:
        with torch.autocast(device.type, dtype=torch.bfloat16, enabled=training.bfloat16):
            return functional_call(
                encoder, replaced, (views.contiguous(memory_format=layout), branch)
            )

    def mask_anew() -> None:
        state.update(
            {f"mask/{name}": mask for name, mask in compute_masks(weights, arm, scores).items()}
        )

    def loss_of(rows: Tensor, step: int) -> Tensor:
        views[:] = two_views(augment, images[rows.to(device)], draws, seed, step)
        masks = {name: state[f"mask/{name}"] for name in masked}
        return arm_loss(project, weights, masks, arm, *views, training.tau)

    def record(epochs: int, loss: Tensor, rate: float) -> None:
        if epochs % training.log_epochs == 0 or epochs == training.epochs:
            calibrate(encoder, images)
            row = [
                epochs,
                loss.item(),
                rate,
                *view_metrics(encoder, *views),
                *feature_metrics(encoder, bank),
            ]
            state["records"] = torch.cat(
                [state["records"], torch.tensor([row], dtype=torch.float64)]
            )
            write_table(
                course.checkpoint.with_suffix(".parquet"),
                pa.Table.from_pylist(rows_of(state["records"])),
            )

    size = len(images), training.batch, training.epochs
    train(
        course,
        weights,
        optimiser,
        size,
        partial(learning_rate, training),
        loss_of,
        state,
        mask_anew,
        record,
    )
    calibrate(encoder, images)
    return encoder, rows_of(state["records"])


def learning_rate(training: ImageTraining, step: int, per_epoch: int) -> float:
    """At a step counted from 0, of an epoch of so many."""
    warmup, steps = training.warmup_epochs * per_epoch, training.epochs * per_epoch
    return warmed_cosine(step, steps, warmup, training.lr, training.final_lr)


def rows_of(records: Tensor) -> list[dict]:
    """Records as rows {epoch, metric, value}."""
    return [
        {"epoch": int(epoch), "metric": name, "value": value}
        for epoch, *values in records.tolist()
        for name, value in zip(RECORDED, values, strict=True)
    ]


def view_metrics(encoder: ImageEncoder, x: Tensor, y: Tensor) -> tuple[float, float]:
    """Alignment of two views and uniformity of the first, on the projections."""
    encoder.eval()
    with torch.no_grad():
        first, second = encoder(x), encoder(y)
    encoder.train()
    return alignment(first, second).item(), uniformity(first).item()


def feature_metrics(encoder: ImageEncoder, bank: ProbeData) -> tuple[float, float, float]:
    """Of the test images: accuracy by neighbours of pretraining, by a few-shot probe, and their effective rank."""
    features, few, test = (
        extract(encoder, images)[0] for images in (bank.images, bank.few, bank.test)
    )
    classes = int(max(bank.labels.max(), bank.test_labels.max())) + 1
    nearest = knn_predict(features, bank.labels, test, min(NEIGHBOURS, len(features)), classes)
    x, queries = standardise(few, test)
    probed = predict(queries, *logistic_probe(x, bank.few_labels, classes, L2))
    knn_accuracy, few_shot_accuracy = (
        (found == bank.test_labels).double().mean().item() for found in (nearest, probed)
    )
    return knn_accuracy, few_shot_accuracy, effective_rank(test)


def mask_scores(weights: Weights, study: str, seed: int) -> Weights:
    """What `threshold: random` ranks the convolutions' weights by: one uniform draw of each for the whole training."""
    draws = generator(study, seed, "mask scores")
    return {
        name: torch.rand(weight.shape, generator=draws).to(weight.device)
        for name, weight in convolution_weights(weights).items()
    }


def stage(read: JobInputs, job: Job) -> tuple[dict[str, Tensor], list[dict]]:
    """The stage: encoders and their courses."""
    draws, training = (
        job.config_section("draws", str),
        job.config_section("training", ImageTraining),
    )
    sections = (
        job.config_section("arm", ImageArm),
        job.config_section("network", Network),
        job.config_section("augmentation", Augmentation),
        training,
    )
    prepare(training.threads, training.device)
    if (
        training.bfloat16
        and training.device == "cpu"
        and not torch.ops.mkldnn._is_mkldnn_bf16_supported()
    ):
        print(
            "training.bfloat16: this processor has no products in bfloat16, and is slow without",
            file=sys.stderr,
        )
    images, labels, test, test_labels = read.file("images").tensors(
        "train", "train_labels", "test", "test_labels"
    )
    splits, tensors, rows = read.file("splits"), {}, []
    for seed in job.seed_list:
        chosen, few = splits.tensors(f"{seed}/pretrain", f"{seed}/few_shot")
        seen = images[chosen], labels[chosen], images[few], labels[few], test, test_labels
        bank = ProbeData(*(tensor.to(training.device) for tensor in seen))
        identity = identity_of(job.stage, seen, draws, seed, *sections)
        checkpoint = read.checkpoints / f"seeds={job.seeds}.seed={seed}.safetensors"
        course = TrainingRun(
            draws, seed, checkpoint, identity, training.checkpoint_minutes, str(checkpoint)
        )
        encoder, records = pretrain_images(course, bank.images, bank, *sections)
        read.afterwards.append(course.forget)
        tensors |= {
            f"{seed}/{name}": value.detach().cpu() for name, value in encoder.state_dict().items()
        }
        rows += [{"seed": seed, **row} for row in records]
    return tensors, rows
