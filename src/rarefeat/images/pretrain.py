"""Stage 2 of the image studies: contrastive pretraining of a block of replicas, one after the other, with checkpoints."""

import contextlib
import json
import math
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import torch
from torch import Tensor
from torch.func import functional_call

from rarefeat.config.images import Augmentation, ImageArm, ImageTraining, Network
from rarefeat.config.section import Section, told
from rarefeat.core.errors import RarefeatError
from rarefeat.core.randomness import generator
from rarefeat.images.augmentation import make_augment, two_views
from rarefeat.images.contrast import Weights, arm_loss, maskable, masks_of
from rarefeat.images.evaluation import (
    alignment,
    effective_rank,
    knn_predict,
    logistic_probe,
    predict,
    standardised,
    uniformity,
)
from rarefeat.images.intermediates import images_of, splits_of
from rarefeat.images.network import Encoder, calibrate, extract, make_encoder
from rarefeat.run.command import progress, run, stage
from rarefeat.run.dependencies import code, digest
from rarefeat.run.job import Job
from rarefeat.storage.files import DamagedError, write_table
from rarefeat.storage.origin import KEY
from rarefeat.storage.tensors import read_tensors, write_tensors

RECORDED = ("loss", "learning_rate", "alignment", "uniformity", "knn_accuracy", "few_shot_accuracy", "effective_rank")
NO_RECORDS = torch.zeros(0, 1 + len(RECORDED), dtype=torch.float64)
NEIGHBOURS, L2 = 5, 1e-3
"""Of the probes that are recorded during a training; those of a finished one are the config's."""


class Bank(NamedTuple):
    """What the recorded probes see: uint8 images (n, 3, H, W) and labels (n,)."""

    images: Tensor  # the pretraining images
    labels: Tensor
    few: Tensor  # a few of each class
    few_labels: Tensor
    test: Tensor
    test_labels: Tensor


class Lars(torch.optim.Optimizer):
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
                    update = update * torch.where((norm > 0) & (size > 0), 0.001 * norm / size, torch.ones_like(norm))
                buffer = self.state[weight].setdefault("momentum_buffer", torch.zeros_like(weight))
                buffer.mul_(group["momentum"]).add_(update)
                weight -= group["lr"] * buffer


def learning_rate(training: ImageTraining, step: int, per_epoch: int) -> float:
    """Linear warm-up, then a cosine to final_lr, at a step counted from 0."""
    warmup, total = training.warmup_epochs * per_epoch, training.epochs * per_epoch
    if step < warmup:
        return training.lr * (step + 1) / warmup
    share = (step - warmup) / max(1, total - warmup)
    return training.final_lr + (training.lr - training.final_lr) * (1 + math.cos(math.pi * share)) / 2


def epoch_batches(study: str, seed: int, epoch: int, images: int, batch: int) -> tuple[Tensor, ...]:
    """Indices of the batches of an epoch: a new order, whole batches only."""
    size = min(batch, images)
    order = torch.randperm(images, generator=generator(study, seed, f"order {epoch}"))
    return order[: images // size * size].split(size)


@contextlib.contextmanager
def termination() -> Iterator[list[int]]:
    """A list that SIGTERM makes non-empty, so that a step under way can end."""
    asked: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, frame: asked.append(number))
    try:
        yield asked
    finally:
        signal.signal(signal.SIGTERM, before)


def pretrain_images(
    study: str,
    seed: int,
    images: Tensor,
    bank: Bank,
    arm: ImageArm,
    network: Network,
    augmentation: Augmentation,
    training: ImageTraining,
    checkpoint: Path,
    identity: Tensor,
    label: str = "pretrain",
) -> tuple[Encoder, list[dict]]:
    """Train one replica, from its checkpoint where there is one.

    A step's views and an epoch's order depend on (study, seed, step or epoch) alone, so that a resumed training takes the same
    course as one that was not interrupted.

    Args:
        images: uint8 (N, 3, H, W), on the device, as is the bank.
        checkpoint: safetensors file to write and to resume from. identity: of config, data and code, kept in it.

    Returns:
        The encoder with the dense weights, its batch norms calibrated on `images`, and a row {epoch, metric, value} for each
        record.

    Raises:
        RarefeatError: for a checkpoint of another identity, a loss that is not finite, and after SIGTERM, with the checkpoint
            written.
    """
    device, layout = images.device, torch.channels_last if training.bfloat16 else torch.contiguous_format
    encoder = make_encoder(network, 2 if arm.arm == "self_damaging" else 1, study, seed).to(device, memory_format=layout)
    augment = make_augment(augmentation, images.shape[-1]).to(device)
    weights = dict(encoder.named_parameters())
    momentum = {"momentum": training.momentum, "weight_decay": training.weight_decay}
    optimiser = {"sgd": torch.optim.SGD, "lars": Lars}[training.optimiser](weights.values(), lr=training.lr, **momentum)
    per_epoch = len(epoch_batches(study, seed, 0, len(images), training.batch))
    first, masks, records = 0, {}, NO_RECORDS
    if checkpoint.exists():
        first, masks, records = restore(checkpoint, identity, weights, optimiser, arm)
    scores = mask_scores(weights, study, seed) if arm.threshold == "random" else None

    def project(replaced: dict[str, Tensor], views: Tensor, branch: int) -> Tensor:
        with torch.autocast(device.type, dtype=torch.bfloat16, enabled=training.bfloat16):
            return functional_call(encoder, replaced, (views.contiguous(memory_format=layout), branch))

    total = training.epochs * per_epoch
    saved = time.monotonic()
    with termination() as asked:
        for step in progress(range(first, total), total - first, label):
            epoch, index = divmod(step, per_epoch)
            if index == 0 or step == first:
                order = epoch_batches(study, seed, epoch, len(images), training.batch)
            if index == 0:
                masks = masks_of(weights, arm, scores)
            optimiser.param_groups[0]["lr"] = rate = learning_rate(training, step, per_epoch)
            x, y = two_views(augment, images[order[index].to(device)], study, seed, step)
            loss = arm_loss(project, weights, masks, arm, x, y, training.tau)
            optimiser.zero_grad(set_to_none=True)
            loss.backward()
            optimiser.step()

            last = index == per_epoch - 1
            if last and ((epoch + 1) % training.log_epochs == 0 or step + 1 == total):
                if not loss.isfinite():
                    raise RarefeatError(f"{label}: the loss is not finite after epoch {epoch + 1}; lower training.lr")
                calibrate(encoder, images)
                row = [epoch + 1, loss.item(), rate, *view_metrics(encoder, x, y), *feature_metrics(encoder, bank)]
                records = torch.cat([records, torch.tensor([row], dtype=torch.float64)])
                write_table(checkpoint.with_suffix(".parquet"), pa.Table.from_pylist(rows_of(records)))
            if asked or step + 1 == total or time.monotonic() - saved > 60 * training.checkpoint_minutes:
                saved = time.monotonic()
                save(checkpoint, identity, step + 1, weights, optimiser, masks, records)
            if asked:
                raise RarefeatError(f"{label}: SIGTERM at step {step + 1} of {total}; run again to go on from {checkpoint}")
    calibrate(encoder, images)
    return encoder, rows_of(records)


def rows_of(records: Tensor) -> list[dict]:
    """Records as rows {epoch, metric, value}."""
    return [
        {"epoch": int(epoch), "metric": name, "value": value}
        for epoch, *values in records.tolist()
        for name, value in zip(RECORDED, values, strict=True)
    ]


def view_metrics(encoder: Encoder, x: Tensor, y: Tensor) -> tuple[float, float]:
    """Alignment of two views and uniformity of the first, on the projections."""
    encoder.eval()
    with torch.no_grad():
        first, second = encoder(x), encoder(y)
    encoder.train()
    return alignment(first, second).item(), uniformity(first).item()


def feature_metrics(encoder: Encoder, bank: Bank) -> tuple[float, float, float]:
    """Of the test images: accuracy by neighbours of pretraining, by a few-shot probe, and their effective rank."""
    features, few, test = (extract(encoder, images)[0] for images in (bank.images, bank.few, bank.test))
    classes = int(max(bank.labels.max(), bank.test_labels.max())) + 1
    nearest = knn_predict(features, bank.labels, test, min(NEIGHBOURS, len(features)), classes)
    x, queries = standardised(few, test)
    probed = predict(queries, *logistic_probe(x, bank.few_labels, classes, L2))
    knn_accuracy, few_shot_accuracy = ((found == bank.test_labels).double().mean().item() for found in (nearest, probed))
    return knn_accuracy, few_shot_accuracy, effective_rank(test)


def mask_scores(weights: Weights, study: str, seed: int) -> Weights:
    """What `threshold: random` ranks the convolutions' weights by: one uniform draw of each for the whole training."""
    draws = generator(study, seed, "mask scores")
    return {name: torch.rand(weight.shape, generator=draws).to(weight.device) for name, weight in maskable(weights).items()}


def save(
    path: Path, identity: Tensor, step: int, weights: Weights, optimiser: torch.optim.Optimizer, masks: Weights, records: Tensor
) -> None:
    """Write a checkpoint: everything that the next step depends on and that is not derived from the seed."""
    momenta = {f"momentum/{name}": optimiser.state[weight]["momentum_buffer"] for name, weight in weights.items()}
    state = {f"weight/{name}": weight.detach() for name, weight in weights.items()} | momenta
    state |= {f"mask/{name}": mask for name, mask in masks.items()}
    write_tensors(path, {"identity": identity, "step": torch.tensor(step), "records": records, **state})


def restore(
    path: Path, identity: Tensor, weights: Weights, optimiser: torch.optim.Optimizer, arm: ImageArm
) -> tuple[int, Weights, Tensor]:
    """Put a checkpoint's state back; the step to go on with, the masks and the records. A damaged one is as good as none.

    Raises:
        RarefeatError: for a checkpoint of another config, other images or other code.
    """
    masked = [] if arm.arm == "dense" else list(maskable(weights))
    parts = [("weight", weights), ("momentum", weights), ("mask", masked)]
    try:
        (found,) = read_tensors(path, "identity")
        if not torch.equal(found, identity):
            raise RarefeatError(
                f"{path} is a checkpoint of another config, other images or other code; delete it to start anew"
            )
        names = [f"{part}/{name}" for part, of in parts for name in of]
        step, records, *tensors = read_tensors(path, "step", "records", *names)
    except DamagedError:
        print(f"{path} is damaged; starting at the first step", file=sys.stderr)
        return 0, {}, NO_RECORDS
    state = dict(zip(names, tensors, strict=True))
    with torch.no_grad():
        for name, weight in weights.items():
            weight.copy_(state[f"weight/{name}"])
            optimiser.state[weight]["momentum_buffer"] = torch.empty_like(weight).copy_(state[f"momentum/{name}"])
    masks = {name: state[f"mask/{name}"].to(weights[name].device) for name in masked}
    return int(step), masks, records


HOW = ("checkpoint_minutes", "threads", "device")
"""Keys of a training that say how it is run."""


def identity_of(images: Tensor, chosen: Tensor, *parts: Section | str | int) -> Tensor:
    """Content hash of what a training depends on, uint8 (32,). How it is run, threads and device, is left out."""
    texts = [
        json.dumps({key: value for key, value in told(part).items() if key not in HOW})
        if isinstance(part, Section)
        else str(part)
        for part in parts
    ]
    sample = images[chosen[:: max(1, len(chosen) // 64)]]
    content = digest(
        *(text.encode() for text in (*texts, code("images.pretrain"))), chosen.numpy().tobytes(), sample.numpy().tobytes()
    )
    return torch.tensor(list(bytes.fromhex(content)), dtype=torch.uint8)


def main() -> None:
    """Command line of the stage."""
    parser = stage(__doc__)
    parser.add_argument("--images", required=True, help="safetensors file of the data set")
    parser.add_argument("--splits", required=True, help="safetensors file of the seeds' splits")
    parser.add_argument("--checkpoints", type=Path, required=True, help="folder of the checkpoints")
    parser.add_argument("--encoders", required=True, help="safetensors file to write")
    parser.add_argument("--trajectories", required=True, help="Parquet file to write")
    args = parser.parse_args()
    job: Job = args.job
    draws, training = job.part("draws", str), job.part("training", ImageTraining)
    sections = job.part("arm", ImageArm), job.part("network", Network), job.part("augmentation", Augmentation), training
    torch.set_num_threads(training.threads)
    if training.device == "cuda" and not torch.cuda.is_available():
        raise RarefeatError("training.device is cuda, and there is no GPU here; set it to cpu, or run where there is one")
    if training.bfloat16 and training.device == "cpu" and not torch.ops.mkldnn._is_mkldnn_bf16_supported():
        print("training.bfloat16: this processor has no products in bfloat16, and is slow without", file=sys.stderr)
    names = "train", "train_labels", "test", "test_labels"
    images, labels, test, test_labels = read_tensors(args.images, *names, expected=images_of(job))
    tensors, rows, checkpoints = {}, [], []
    for seed in job.seed_list:
        chosen, few = read_tensors(args.splits, f"{seed}/pretrain", f"{seed}/few_shot", expected=splits_of(job))
        checkpoints.append(args.checkpoints / f"{Path(args.encoders).stem}.seed={seed}.safetensors")
        identity = identity_of(images, chosen, draws, seed, *sections)
        seen = images[chosen], labels[chosen], images[few], labels[few], test, test_labels
        bank = Bank(*(tensor.to(training.device) for tensor in seen))
        label = f"{args.encoders} seed {seed}"
        encoder, records = pretrain_images(draws, seed, bank.images, bank, *sections, checkpoints[-1], identity, label)
        tensors |= {f"{seed}/{name}": value.detach().cpu() for name, value in encoder.state_dict().items()}
        rows += [{"seed": seed, **row} for row in records]
    write_tensors(args.encoders, tensors, job.text)
    write_table(args.trajectories, pa.Table.from_pylist(rows), {KEY: job.text})
    for checkpoint in checkpoints:
        checkpoint.unlink(missing_ok=True)
        checkpoint.with_suffix(".parquet").unlink(missing_ok=True)


if __name__ == "__main__":
    run(main)
