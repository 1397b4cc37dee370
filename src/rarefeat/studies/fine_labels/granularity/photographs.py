"""The granularity sweep on photographs: residual networks, one replica after the other, with checkpoints."""

import json
import math
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import torch
from torch import Tensor, nn
from torch.nn import functional

from rarefeat.config.images import ImageData
from rarefeat.config.section import told
from rarefeat.core.errors import RarefeatError
from rarefeat.core.randomness import generator
from rarefeat.images.evaluation import logistic_probe, predict, standardised
from rarefeat.images.intermediates import images_of
from rarefeat.images.network import Encoder, calibrate, extract, make_encoder
from rarefeat.images.pretrain import termination
from rarefeat.run.command import progress, run, stage
from rarefeat.run.dependencies import code, digest
from rarefeat.run.job import Job
from rarefeat.storage.files import DamagedError, write_table
from rarefeat.storage.origin import KEY
from rarefeat.storage.tensors import read_tensors, write_tensors
from rarefeat.studies.fine_labels.config import Descent, Residuals, Scheme
from rarefeat.studies.fine_labels.granularity.labelling import Levels, at_level, classes_of, read_levels
from rarefeat.studies.fine_labels.granularity.training import learning_rate, moved

NAME = "studies.fine_labels.granularity.photographs"
HOW = ("checkpoint_minutes", "threads", "device")
"""Keys of a training that say how it is run."""


class Classifier(nn.Module):
    """The encoder with a linear head on its features."""

    def __init__(self, encoder: Encoder, classes: int, stream: torch.Generator):
        super().__init__()
        self.encoder = encoder
        self.head = nn.Linear(encoder.dimension, classes)
        with torch.no_grad():
            bound = encoder.dimension**-0.5
            self.head.weight.uniform_(-bound, bound, generator=stream)
            self.head.bias.zero_()

    def forward(self, images: Tensor) -> Tensor:
        """Scores (B, classes) of images (B, 3, H, W) in [0, 1]."""
        return self.head(self.encoder.features(images))


class Course(NamedTuple):
    """One training of a replica."""

    draws: str
    seed: int
    purpose: str
    """Keys its order and views, and names its checkpoints."""
    place: Path
    """Safetensors file of its checkpoint; the states after given epochs stand beside it."""
    identity: Tensor
    """Of config, data and code, kept in the checkpoint, uint8 (32,)."""

    def after(self, epoch: int) -> Path:
        """File of the state after an epoch."""
        return self.place.with_suffix(f".{epoch}.safetensors")


def fit(
    model: Classifier, images: Tensor, targets: Tensor, training: Residuals, descent: Descent, course: Course, kept: list[int]
) -> None:
    """Train, from the checkpoint where there is one; the states after the epochs `kept` are files beside it.

    The order of an epoch and the views of a step depend on (draws, seed, purpose, epoch or step) alone, so that a resumed
    training takes the same course as one that was not interrupted.

    Args:
        images: uint8 (N, 3, H, W). targets: classes (N,).

    Raises:
        RarefeatError: for a checkpoint of another identity, a loss that is not finite, and after SIGTERM, with the checkpoint
            written.
    """
    device = next(model.parameters()).device
    model.train()
    weights = dict(model.named_parameters())
    used = [weight for name, weight in weights.items() if not name.startswith("encoder.head")]
    options = {"lr": descent.lr, "momentum": descent.momentum, "weight_decay": descent.weight_decay}
    optimiser = torch.optim.SGD(used, **options)
    batch = min(descent.batch, len(images))
    per_epoch = len(images) // batch
    total, saved = descent.epochs * per_epoch, time.monotonic()
    first = restore(course, model, optimiser)
    low = training.precision == "bfloat16"
    with termination() as asked:
        for step in progress(range(first, total), total - first, str(course.place)):
            epoch, index = divmod(step, per_epoch)
            if index == 0 or step == first:
                order = torch.randperm(len(images), generator=stream(course, f"order {epoch}"))
            rows = order[index * batch : (index + 1) * batch]
            optimiser.param_groups[0]["lr"] = learning_rate(descent, step, total)
            views = views_of(images[rows].to(device), training, stream(course, f"views {step}"))
            with torch.autocast(device.type, dtype=torch.bfloat16, enabled=low):
                scores = model(views)
            loss = functional.cross_entropy(scores.float(), targets[rows].to(device))
            optimiser.zero_grad(set_to_none=True)
            loss.backward()
            optimiser.step()
            last = index == per_epoch - 1
            if last and not loss.isfinite():
                raise RarefeatError(f"{course.place}: the loss is not finite after epoch {epoch + 1}; lower lr")
            if last and epoch + 1 in kept:
                save(course.after(epoch + 1), course, step + 1, model)
            if asked or step + 1 == total or time.monotonic() - saved > 60 * training.checkpoint_minutes:
                saved = time.monotonic()
                save(course.place, course, step + 1, model, optimiser)
            if asked:
                raise RarefeatError(f"{course.place}: SIGTERM at step {step + 1} of {total}; run again to go on from there")


def stream(course: Course, of: str) -> torch.Generator:
    """A generator for one order or one batch of views."""
    return generator(course.draws, course.seed, f"{course.purpose} {of}")


def views_of(images: Tensor, training: Residuals, draws: torch.Generator) -> Tensor:
    """Training images moved and flipped, uint8 (B, 3, H, W) -> in [0, 1]."""
    x = moved(images[None], training.shift, [draws])[0].float() / 255
    flip = torch.rand(len(x), 1, 1, 1, generator=draws) < training.flip
    x = torch.where(flip.to(x.device), x.flip(-1), x)
    return x.contiguous(memory_format=torch.channels_last)


def save(path: Path, course: Course, step: int, model: nn.Module, optimiser: torch.optim.Optimizer | None = None) -> None:
    """Write a state; with the momenta, that of a training that goes on."""
    tensors = {f"model/{name}": value for name, value in model.state_dict().items()}
    if optimiser:
        names = {id(weight): name for name, weight in model.named_parameters()}
        momenta = {names[id(weight)]: state["momentum_buffer"] for weight, state in optimiser.state.items()}
        tensors |= {f"momentum/{name}": value for name, value in momenta.items() if value is not None}
    write_tensors(path, {"identity": course.identity, "step": torch.tensor(step), **tensors})


def load(path: Path, course: Course, model: nn.Module, *more: str) -> tuple[int, list[Tensor]]:
    """Put a state back; its step, and what else is named. RarefeatError for one of another identity."""
    (found,) = read_tensors(path, "identity")
    if not torch.equal(found, course.identity):
        raise RarefeatError(f"{path} is a checkpoint of another config, other images or other code; delete it to start anew")
    names = list(model.state_dict())
    step, *tensors = read_tensors(path, "step", *(f"model/{name}" for name in names), *more)
    model.load_state_dict(dict(zip(names, tensors, strict=False)))
    return int(step), tensors[len(names) :]


def restore(course: Course, model: nn.Module, optimiser: torch.optim.Optimizer) -> int:
    """Put a checkpoint's state back; the step to go on with. A damaged one is as good as none."""
    if not course.place.exists():
        return 0
    used = {id(weight) for weight in optimiser.param_groups[0]["params"]}
    weights = {name: weight for name, weight in model.named_parameters() if id(weight) in used}
    try:
        step, momenta = load(course.place, course, model, *(f"momentum/{name}" for name in weights))
    except DamagedError:
        print(f"{course.place} is damaged; starting at the first step", file=sys.stderr)
        return 0
    for weight, momentum in zip(weights.values(), momenta, strict=True):
        optimiser.state[weight]["momentum_buffer"] = momentum.to(weight.device)
    return step


class Images(NamedTuple):
    """The images of a sweep and their superclasses."""

    train: Tensor
    labels: Tensor
    """The images' own."""
    superclass: Tensor
    test: Tensor
    test_superclass: Tensor


def missed(model: Classifier, images: Images) -> float:
    """Share of validation images whose superclass is missed, with statistics of the norms over the training images."""
    calibrate(model.encoder, images.train)
    features, _ = extract(model.encoder, images.test)
    with torch.no_grad():
        return (model.head(features).argmax(-1) != images.test_superclass).double().mean().item()


def probed(model: Classifier, images: Images, l2: float) -> float:
    """The same of a linear probe."""
    calibrate(model.encoder, images.train)
    x, unseen = standardised(*(extract(model.encoder, part)[0] for part in (images.train, images.test)))
    head = logistic_probe(x, images.superclass, int(images.superclass.max()) + 1, l2)
    return (predict(unseen, *head) != images.test_superclass).double().mean().item()


def replica(
    images: Images, named: Tensor, scheme: Scheme, training: Residuals, seed: int, draws: str, folder: Path, identity: Tensor
) -> Iterator[dict]:
    """Rows of one replica, as `digits.rows`; `named` are the classes in pretraining, (N,). Checkpoints lie in `folder`."""
    G, superclasses, device = int(named.max()) + 1, int(images.superclass.max()) + 1, images.train.device

    def network(classes: int, purpose: str) -> Classifier:
        made = Classifier(make_encoder(training.network, 1, draws, seed), classes, generator(draws, seed, f"{purpose} head"))
        return made.to(device, memory_format=torch.channels_last)

    first = Course(draws, seed, "pretraining", folder / f"pretraining.seed={seed}.safetensors", identity)
    pretrained = network(G, first.purpose)
    fit(pretrained, images.train, named, training, training.pretraining, first, training.checkpoints)
    for epoch in training.checkpoints:
        load(first.after(epoch), first, pretrained)
        errors = {"probe": probed(pretrained, images, training.l2)}
        if scheme.kind == "coarse":
            errors["once"] = missed(pretrained, images)
        tuned = network(superclasses, "superclasses")
        tuned.encoder.load_state_dict(pretrained.encoder.state_dict())
        second = Course(draws, seed, "superclasses", folder / f"superclasses.{epoch}.seed={seed}.safetensors", identity)
        fit(tuned, images.train, images.superclass, training, training.finetuning, second, [])
        errors["finetuned"] = missed(tuned, images)
        for readout, error in errors.items():
            if not math.isfinite(error):
                raise RarefeatError(f"{second.place}: the error is not finite; lower lr")
            yield {"classes": G, "epoch": epoch, "readout": readout, "seed": seed, "error": error}


def read_images(path: str, job: Job, levels: Levels, superclass: str, device: str) -> Images:
    """The images that a job reads."""
    names = "train", "train_labels", "test", "test_labels"
    train, labels, test, test_labels = read_tensors(path, *names, expected=images_of(job))
    truth, test_truth = (at_level(levels, superclass, part) for part in (labels, test_labels))
    return Images(*(part.to(device) for part in (train, labels, truth, test, test_truth)))


def main() -> None:
    """Command line of the stage: one coarse task and kind of labels."""
    parser = stage(__doc__)
    parser.add_argument("--images", required=True, help="safetensors file of the data set")
    parser.add_argument("--features", help="safetensors file of the features, where clusters are wanted")
    parser.add_argument("--checkpoints", type=Path, required=True, help="folder of the checkpoints")
    parser.add_argument("--output", required=True, help="Parquet file to write")
    args = parser.parse_args()
    job: Job = args.job
    training, scheme, superclass = job.part("training", Residuals), job.part("labels", Scheme), job.part("superclass", str)
    torch.set_num_threads(training.threads)
    if training.device == "cuda" and not torch.cuda.is_available():
        raise RarefeatError("training.device is cuda, and there is no GPU here; set it to cpu, or run where there is one")
    levels = read_levels(job.part("levels", dict[str, list[int]] | str), job.part("data", ImageData).folder)
    images = read_images(args.images, job, levels, superclass, training.device)
    features = read_tensors(args.features, "features")[0] if args.features else None
    candidates = job.part("candidates", list[int]) if "candidates" in job.config else None
    how = {key: value for key, value in told(training).items() if key not in HOW}
    rows = []
    for seed in job.seed_list:
        labels, truth = images.labels.cpu(), images.superclass.cpu()
        named = classes_of(scheme, labels, truth, levels, features, job.study, seed, candidates)
        texts = json.dumps([how, job.study, superclass, scheme.label, seed, code(NAME)], sort_keys=True).encode()
        sample = images.train[:: max(1, len(images.train) // 64)].cpu()
        content = digest(texts, named.numpy().tobytes(), truth.numpy().tobytes(), sample.numpy().tobytes())
        identity = torch.tensor(list(bytes.fromhex(content)), dtype=torch.uint8)
        rows += replica(images, named.to(training.device), scheme, training, seed, job.study, args.checkpoints, identity)
    write_table(args.output, pa.Table.from_pylist([{**job.cell, **row} for row in rows]), {KEY: job.text})
    for seed in job.seed_list:
        for path in args.checkpoints.glob(f"*.seed={seed}.*safetensors"):
            path.unlink()


if __name__ == "__main__":
    run(main)
