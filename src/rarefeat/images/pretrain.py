"""Stage 2 of the image studies: contrastive pretraining of a block of replicas.

The replicas are trained one after the other, with checkpoints (trainer.py); the objectives of arms
are in nt_xent.py. Axes: N images, B images of a batch, H x W pixels, E recorded epochs.
"""

from functools import partial
from typing import NamedTuple

import pandas as pd
import torch
from jaxtyping import Float, Float64, Int, UInt8
from torch import Tensor
from torch.func import functional_call

from rarefeat.images.augmentation import make_augment, two_views
from rarefeat.images.evaluation import (
    alignment,
    knn_predict,
    logistic_probe,
    predict,
    standardise,
    uniformity,
)
from rarefeat.images.network import ImageEncoder, calibrate, extract, make_encoder
from rarefeat.images.nt_xent import Weights, arm_loss, compute_masks, convolution_weights
from rarefeat.images.trainer import TrainingRun, identity_of, prepare, train, warmed_cosine
from rarefeat.model.linear_probe import effective_rank
from rarefeat.model.randomness import generator
from rarefeat.workflow.config.images import Augmentation, ImageArm, ImageTraining, Network
from rarefeat.workflow.files.sealed_files import write_file
from rarefeat.workflow.run.job import Job
from rarefeat.workflow.run.job_inputs import JobInputs

RECORDED = (
    "loss",
    "learning_rate",
    "alignment",
    "uniformity",
    "knn_accuracy",
    "few_shot_accuracy",
    "effective_rank",
)
"""Metrics that are recorded during a training, in the order of the columns of the records."""
NO_RECORDS = torch.zeros(0, 1 + len(RECORDED), dtype=torch.float64)
NEIGHBOURS, L2 = 5, 1e-3
"""Neighbours and penalty of the probes during a training; those afterwards are the config's."""


class ProbeData(NamedTuple):
    """Images of the probes during a training, with their labels."""

    images: UInt8[Tensor, "N 3 H W"]
    """Pretraining images."""
    labels: Int[Tensor, " N"]
    few: UInt8[Tensor, "few 3 H W"]
    """A few images of each class."""
    few_labels: Int[Tensor, " few"]
    test: UInt8[Tensor, "test 3 H W"]
    """Test images."""
    test_labels: Int[Tensor, " test"]


def pretrain_images(
    run: TrainingRun,
    images: UInt8[Tensor, "N 3 H W"],
    bank: ProbeData,
    arm: ImageArm,
    network: Network,
    augmentation: Augmentation,
    training: ImageTraining,
) -> tuple[ImageEncoder, list[dict]]:
    """Train one replica, from its checkpoint if there is one."""
    device, namespace, seed = images.device, run.namespace, run.seed
    layout = torch.channels_last if training.bfloat16 else torch.contiguous_format
    branches = 2 if arm.arm == "self_damaging" else 1
    encoder = make_encoder(network, branches, namespace, seed).to(device, memory_format=layout)
    augment = make_augment(augmentation, images.shape[-1]).to(device)
    weights = dict(encoder.named_parameters())
    optimiser = torch.optim.SGD(
        weights.values(), training.lr, training.momentum, weight_decay=training.weight_decay
    )
    scores = mask_scores(weights, namespace, seed) if arm.threshold == "random" else None
    masked = list(convolution_weights(weights)) if arm.masked else []
    labels = bank.labels.cpu()
    class_weights = 1 / labels.bincount()[labels].double()
    state = {
        f"mask/{name}": torch.zeros_like(weights[name], dtype=torch.bool) for name in masked
    } | {"records": NO_RECORDS}
    views: list[Tensor] = []

    def project(
        replaced: Weights, views: Float[Tensor, "V 3 H W"], branch: int
    ) -> Float[Tensor, "V D"]:
        with torch.autocast(device.type, dtype=torch.bfloat16, enabled=training.bfloat16):
            return functional_call(
                encoder, replaced, (views.contiguous(memory_format=layout), branch)
            )

    def renew_masks() -> None:
        state.update(
            {f"mask/{name}": mask for name, mask in compute_masks(weights, arm, scores).items()}
        )

    def loss_of(rows: Int[Tensor, " B"], step: int) -> Float[Tensor, ""]:
        if arm.arm == "resampled":
            rng = run.stream(f"resampling {step}")
            rows = class_weights.multinomial(len(rows), replacement=True, generator=rng)
        views[:] = two_views(augment, images[rows.to(device)], namespace, seed, step)
        masks = {name: state[f"mask/{name}"] for name in masked}
        return arm_loss(project, weights, masks, arm, *views, training.tau)

    def record(epochs: int, loss: Float[Tensor, ""], rate: float) -> None:
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
            # For whoever looks at a long training: pandas reads it, and any plotting tool.
            metrics = pd.DataFrame(rows_of(state["records"])).to_csv(index=False)
            write_file(run.checkpoint_path.with_suffix(".csv"), metrics)

    size = len(images), training.batch, training.epochs
    train(
        run,
        weights,
        optimiser,
        size,
        partial(learning_rate, training),
        loss_of,
        state,
        renew_masks,
        record,
    )
    calibrate(encoder, images)
    return encoder, rows_of(state["records"])


def learning_rate(training: ImageTraining, step: int, per_epoch: int) -> float:
    """Compute the learning rate at a step."""
    warmup, steps = training.warmup_epochs * per_epoch, training.epochs * per_epoch
    return warmed_cosine(step, steps, warmup, training.lr, training.final_lr)


def rows_of(records: Float64[Tensor, "E columns"]) -> list[dict]:
    """Convert records to rows {epoch, metric, value}."""
    return [
        {"epoch": int(epoch), "metric": name, "value": value}
        for epoch, *values in records.tolist()
        for name, value in zip(RECORDED, values, strict=True)
    ]


def view_metrics(
    encoder: ImageEncoder, x: Float[Tensor, "B 3 H W"], y: Float[Tensor, "B 3 H W"]
) -> tuple[float, float]:
    """Compute alignment of two views and uniformity of the first, on the projections."""
    encoder.eval()
    with torch.no_grad():
        first, second = encoder(x), encoder(y)
    encoder.train()
    return alignment(first, second).item(), uniformity(first).item()


def feature_metrics(encoder: ImageEncoder, bank: ProbeData) -> tuple[float, float, float]:
    """Compute metrics of the features of the test images."""
    features, few, test = (
        extract(encoder, images) for images in (bank.images, bank.few, bank.test)
    )
    classes = int(max(bank.labels.max(), bank.test_labels.max())) + 1
    nearest = knn_predict(features, bank.labels, test, min(NEIGHBOURS, len(features)), classes)
    x, queries = standardise(few, test)
    probed = predict(queries, *logistic_probe(x, bank.few_labels, classes, L2))
    knn_accuracy, few_shot_accuracy = (
        (labels == bank.test_labels).double().mean().item() for labels in (nearest, probed)
    )
    return knn_accuracy, few_shot_accuracy, effective_rank(test)


def mask_scores(weights: Weights, namespace: str, seed: int) -> Weights:
    """Draw the numbers by which `threshold: random` ranks weights, once for a whole training."""
    stream = generator(namespace, seed, "mask scores")
    return {
        name: torch.rand(weight.shape, generator=stream).to(weight.device)
        for name, weight in convolution_weights(weights).items()
    }


def stage(
    inputs: JobInputs,
    job: Job,
    draws: str,
    arm: ImageArm,
    network: Network,
    augmentation: Augmentation,
    training: ImageTraining,
) -> tuple[dict[str, Tensor], list[dict]]:
    """Train the replicas of a cell and seed block."""
    sections = arm, network, augmentation, training
    prepare(training.threads, training.device)
    images, labels, test, test_labels = inputs.file("images").tensors(
        "train", "train_labels", "test", "test_labels"
    )
    splits, tensors, rows = inputs.file("splits"), {}, []
    for seed in job.seed_list:
        chosen, few = splits.tensors(f"{seed}/pretrain", f"{seed}/few_shot")
        probe_data = images[chosen], labels[chosen], images[few], labels[few], test, test_labels
        bank = ProbeData(*(tensor.to(training.device) for tensor in probe_data))
        identity = identity_of(job.stage, probe_data, draws, seed, *sections)
        path = inputs.checkpoints / f"seeds={job.seeds}.seed={seed}.safetensors"
        minutes = training.checkpoint_minutes
        run = TrainingRun(draws, seed, path, identity, minutes, str(path))
        encoder, records = pretrain_images(run, bank.images, bank, *sections)
        inputs.afterwards.append(run.delete_files)
        tensors |= {
            f"{seed}/{name}": value.detach().cpu() for name, value in encoder.state_dict().items()
        }
        rows += [{"seed": seed, **row} for row in records]
    return tensors, rows
