"""The training of a network on images: order, schedule, descent, checkpoints. What is descended and recorded is given to it."""

import contextlib
import glob
import json
import math
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from rarefeat.config.section import Section, dump_config
from rarefeat.core.errors import RarefeatError
from rarefeat.core.randomness import generator
from rarefeat.images import bfloat16
from rarefeat.run.cli_helpers import progress
from rarefeat.run.code_hashes import code_hash, hash_texts
from rarefeat.storage.sealed_files import DamagedFileError
from rarefeat.storage.tensors import read_tensors, write_tensors

Weights = dict[str, Tensor]
RUNTIME_KEYS = ("checkpoint_minutes", "threads", "device")
"""Keys of a training that say how it is run."""


class TrainingRun(NamedTuple):
    """One training of one replica."""

    draws: str
    seed: int
    checkpoint: Path
    """Safetensors file to write and to go on from."""
    identity: Tensor
    """Of config, data and code, kept in the checkpoint, uint8 (32,)."""
    minutes: float
    """Between two checkpoints."""
    label: str
    """What progress and errors call it."""
    purpose: str = ""
    """Keys its draws, where a replica has several trainings; with a space at its end."""

    def stream(self, of: str) -> torch.Generator:
        """A generator for one order, or for what is random in one step."""
        return generator(self.draws, self.seed, f"{self.purpose}{of}")

    def after(self, epoch: int) -> Path:
        """File of the weights after an epoch."""
        return self.checkpoint.with_suffix(f".{epoch}.safetensors")

    def forget(self) -> None:
        """Delete the checkpoint, and what stands beside it under its name."""
        for path in self.checkpoint.parent.glob(f"{glob.escape(self.checkpoint.stem)}.*"):
            path.unlink(missing_ok=True)


def warmed_cosine(step: int, steps: int, warmup: float, lr: float, final_lr: float = 0.0) -> float:
    """A learning rate at a step counted from 0: linear over `warmup` steps, then a cosine to final_lr."""
    if step < warmup:
        return lr * (step + 1) / max(1.0, warmup)
    share = (step - warmup) / max(1, steps - warmup)
    return final_lr + (lr - final_lr) * (1 + math.cos(math.pi * share)) / 2


def epoch_batches(stream: torch.Generator, images: int, batch: int) -> tuple[Tensor, ...]:
    """Indices of the batches of an epoch: a new order, whole batches only."""
    size = min(batch, images)
    order = torch.randperm(images, generator=stream)
    return order[: images // size * size].split(size)


def train(
    course: TrainingRun,
    weights: Weights,
    optimiser: torch.optim.Optimizer,
    size: tuple[int, int, int],
    rate_of: Callable[[int, int], float],
    loss_of: Callable[[Tensor, int], Tensor],
    state: Weights,
    begin: Callable[[], None] = lambda: None,
    end: Callable[[int, Tensor, float], None] = lambda epochs, loss, rate: None,
) -> None:
    """Train by descent with momentum, from the checkpoint where there is one.

    The order of an epoch and what is random in a step depend on (draws, seed, purpose, epoch or step) alone, so that a resumed
    training takes the same course as one that was not interrupted.

    Args:
        weights: what the optimiser moves, by name.
        size: images, images of a batch, and epochs.
        rate_of: the learning rate at a step, counted from 0, of an epoch of so many steps.
        loss_of: the loss of a batch, of the indices of its images and the step.
        state: what else the next step depends on, and what was recorded, by name: it is kept in the checkpoint and put back.
        begin: called before the first step of each epoch.
        end: called after the last step of each epoch, with the epochs that are done, the last loss and the last rate.

    Raises:
        RarefeatError: for a checkpoint of another identity, a loss or weights that are not finite, and after SIGTERM, with the
            checkpoint written.
    """
    images, batch, epochs = size
    per_epoch = images // min(batch, images)
    total, saved = epochs * per_epoch, time.monotonic()
    bfloat16.enable_emulation()
    first = restore_checkpoint(course, weights, optimiser, state)
    with catch_sigterm() as asked:
        for step in progress(range(first, total), total - first, course.label):
            epoch, index = divmod(step, per_epoch)
            if index == 0 or step == first:
                batches = epoch_batches(course.stream(f"order {epoch}"), images, batch)
            if index == 0:
                begin()
            optimiser.param_groups[0]["lr"] = rate = rate_of(step, per_epoch)
            loss = loss_of(batches[index], step)
            optimiser.zero_grad(set_to_none=True)
            loss.backward()
            optimiser.step()
            if index == per_epoch - 1:
                if not (
                    loss.isfinite() and all(weight.isfinite().all() for weight in weights.values())
                ):
                    raise RarefeatError(
                        f"{course.label}: the loss is not finite after epoch {epoch + 1}; lower lr"
                    )
                end(epoch + 1, loss, rate)
            if asked or step + 1 == total or time.monotonic() - saved > 60 * course.minutes:
                saved = time.monotonic()
                save(course, step + 1, weights, optimiser, state)
            if asked:
                where = f"run again to go on from {course.checkpoint}"
                raise RarefeatError(
                    f"{course.label}: SIGTERM at step {step + 1} of {total}; {where}"
                )


@contextlib.contextmanager
def catch_sigterm() -> Iterator[list[int]]:
    """A list that SIGTERM makes non-empty, so that a step under way can end."""
    asked: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, frame: asked.append(number))
    try:
        yield asked
    finally:
        signal.signal(signal.SIGTERM, before)


def save(
    course: TrainingRun,
    step: int,
    weights: Weights,
    optimiser: torch.optim.Optimizer,
    state: Weights,
) -> None:
    """Write a checkpoint: everything that the next step depends on and that is not derived from the seed."""
    held = {f"weight/{name}": weight.detach() for name, weight in weights.items()}
    held |= {
        f"momentum/{name}": optimiser.state[weight]["momentum_buffer"]
        for name, weight in weights.items()
    }
    write_tensors(
        course.checkpoint,
        {"identity": course.identity, "step": torch.tensor(step), **held, **state},
    )


def save_epoch(course: TrainingRun, epoch: int, weights: Weights) -> None:
    """Write the weights after an epoch."""
    held = {name: weight.detach() for name, weight in weights.items()}
    write_tensors(course.after(epoch), {"identity": course.identity, **held})


def load(course: TrainingRun, path: Path, names: Iterable[str]) -> dict[str, Tensor]:
    """The named tensors of a file of this training; RarefeatError for one of another identity."""
    (found,) = read_tensors(path, "identity")
    if not torch.equal(found, course.identity):
        raise RarefeatError(
            f"{path} is a checkpoint of another config, other images or other code; delete it to start anew"
        )
    names = list(names)
    return dict(zip(names, read_tensors(path, *names), strict=True))


def load_weights(weights: Weights, values: Weights) -> None:
    """Give weights the values of these names."""
    with torch.no_grad():
        for name, weight in weights.items():
            weight.copy_(values[name])


def restore_checkpoint(
    course: TrainingRun, weights: Weights, optimiser: torch.optim.Optimizer, state: Weights
) -> int:
    """Put a checkpoint's state back; the step to go on with. A damaged one is as good as none."""
    if not course.checkpoint.exists():
        return 0
    names = [f"{part}/{name}" for part in ("weight", "momentum") for name in weights]
    try:
        found = load(course, course.checkpoint, ["step", *names, *state])
    except DamagedFileError:
        print(f"{course.checkpoint} is damaged; starting at the first step", file=sys.stderr)
        return 0
    load_weights(weights, {name: found[f"weight/{name}"] for name in weights})
    for name, weight in weights.items():
        optimiser.state[weight]["momentum_buffer"] = torch.empty_like(weight).copy_(
            found[f"momentum/{name}"]
        )
    state |= {name: found[name].to(value.device) for name, value in state.items()}
    return int(found["step"])


def identity_of(stage: str, tensors: Sequence[Tensor], *parts: Section | str | int) -> Tensor:
    """Content hash of what a training depends on, uint8 (32,). How it is run, threads and device, is left out."""
    texts = [
        json.dumps(
            {key: value for key, value in dump_config(part).items() if key not in RUNTIME_KEYS},
            sort_keys=True,
        )
        if isinstance(part, Section)
        else str(part)
        for part in parts
    ]
    texts += [code_hash(stage), *(f"{tensor.dtype} {list(tensor.shape)}" for tensor in tensors)]
    content = hash_texts(
        *(text.encode() for text in texts),
        *(tensor.cpu().contiguous().numpy() for tensor in tensors),
    )
    return torch.tensor(list(bytes.fromhex(content)), dtype=torch.uint8)


def prepare(threads: int, device: str, key: str = "training.device") -> None:
    """Take the threads that the config grants; RarefeatError where it asks for a GPU that is not there."""
    torch.set_num_threads(threads)
    if device == "cuda" and not torch.cuda.is_available():
        raise RarefeatError(
            f"{key} is cuda, and there is no GPU here; set it to cpu, or run where there is one"
        )
