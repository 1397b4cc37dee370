"""The training loop on images: order, schedule, descent and checkpoints.

The loss and the records are functions that its callers pass. Axes: B images of a batch.
"""

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
from jaxtyping import Float, Int, Shaped, UInt8
from torch import Tensor

from rarefeat.errors import RarefeatError
from rarefeat.images import bfloat16
from rarefeat.model.randomness import generator
from rarefeat.workflow.config.section import Section, dump_config
from rarefeat.workflow.files.sealed_files import DamagedFileError
from rarefeat.workflow.files.tensors import read_tensors, write_tensors
from rarefeat.workflow.run.cli_helpers import progress
from rarefeat.workflow.run.code_hashes import hash_code, hash_texts, module_hashes

Weights = dict[str, Shaped[Tensor, "..."]]
"""Tensors by name."""
RUNTIME_KEYS = ("checkpoint_minutes", "threads", "device")
"""Keys of the training's config that set no number."""


class TrainingRun(NamedTuple):
    """Identity, random streams and checkpoint of the training of one replica."""

    namespace: str
    """Namespace of the random streams."""
    seed: int
    checkpoint_path: Path
    """Safetensors file that is written during training and resumed from."""
    identity: UInt8[Tensor, "32"]
    """Hash of config, data and code, stored in the checkpoint."""
    checkpoint_minutes: float
    """Time between two checkpoints (minutes)."""
    label: str
    """Name in progress and errors."""
    stream_prefix: str = ""
    """Prefix of stream names, ending with a space, if a replica has several trainings."""

    def stream(self, name: str) -> torch.Generator:
        """Return the generator of a stream, as of one order, or of one step."""
        return generator(self.namespace, self.seed, f"{self.stream_prefix}{name}")

    def epoch_path(self, epoch: int) -> Path:
        """Return the path of the weights after an epoch."""
        return self.checkpoint_path.with_suffix(f".{epoch}.safetensors")

    def delete_files(self) -> None:
        """Delete the checkpoint, and the files beside it under its name."""
        stem = glob.escape(self.checkpoint_path.stem)
        for path in self.checkpoint_path.parent.glob(f"{stem}.*"):
            path.unlink(missing_ok=True)


def warmed_cosine(step: int, steps: int, warmup: float, lr: float, final_lr: float = 0.0) -> float:
    """Compute a learning rate: linear over `warmup` steps, then a cosine to `final_lr`."""
    if step < warmup:
        return lr * (step + 1) / max(1.0, warmup)
    fraction = (step - warmup) / max(1, steps - warmup)
    return final_lr + (lr - final_lr) * (1 + math.cos(math.pi * fraction)) / 2


def epoch_batches(
    stream: torch.Generator, n_images: int, batch: int
) -> tuple[Int[Tensor, " B"], ...]:
    """Draw the batches of an epoch: a new order, full batches only."""
    size = min(batch, n_images)
    order = torch.randperm(n_images, generator=stream)
    return order[: n_images // size * size].split(size)


def train(
    run: TrainingRun,
    weights: Weights,
    optimiser: torch.optim.Optimizer,
    size: tuple[int, int, int],
    rate_of: Callable[[int, int], float],
    loss_of: Callable[[Int[Tensor, " B"], int], Float[Tensor, ""]],
    state: Weights,
    begin: Callable[[], None] = lambda: None,
    end: Callable[[int, Tensor, float], None] = lambda epochs, loss, rate: None,
) -> None:
    """Train by descent with momentum, from the checkpoint if there is one.

    The order of an epoch and the draws of a step depend only on (namespace, seed, stream prefix,
    epoch or step), so that a resumed training takes the same steps as one that was not interrupted.
    """
    n_images, batch, epochs = size
    per_epoch = n_images // min(batch, n_images)
    total, saved = epochs * per_epoch, time.monotonic()
    bfloat16.enable_emulation()
    first = restore_checkpoint(run, weights, optimiser, state)
    with catch_sigterm() as signals:
        for step in progress(range(first, total), total - first, run.label):
            epoch, index = divmod(step, per_epoch)
            if index == 0 or step == first:
                batches = epoch_batches(run.stream(f"order {epoch}"), n_images, batch)
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
                        f"{run.label}: the loss is not finite after epoch {epoch + 1}; lower lr"
                    )
                end(epoch + 1, loss, rate)
            if (
                signals
                or step + 1 == total
                or time.monotonic() - saved > 60 * run.checkpoint_minutes
            ):
                saved = time.monotonic()
                save_checkpoint(run, step + 1, weights, optimiser, state)
            if signals:
                raise RarefeatError(
                    f"{run.label}: SIGTERM at step {step + 1} of {total}; run again to continue"
                    f" from {run.checkpoint_path}"
                )


@contextlib.contextmanager
def catch_sigterm() -> Iterator[list[int]]:
    """Give a list that SIGTERM makes non-empty, so that a step under way can end."""
    signals: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, frame: signals.append(number))
    try:
        yield signals
    finally:
        signal.signal(signal.SIGTERM, before)


def save_checkpoint(
    run: TrainingRun,
    step: int,
    weights: Weights,
    optimiser: torch.optim.Optimizer,
    state: Weights,
) -> None:
    """Write everything that the next step depends on and that is not derived from the seed."""
    tensors = {f"weight/{name}": weight.detach() for name, weight in weights.items()}
    tensors |= {
        f"momentum/{name}": optimiser.state[weight]["momentum_buffer"]
        for name, weight in weights.items()
    }
    write_tensors(
        run.checkpoint_path,
        {"identity": run.identity, "step": torch.tensor(step), **tensors, **state},
    )


def save_epoch(run: TrainingRun, epoch: int, weights: Weights) -> None:
    """Write the weights after an epoch."""
    tensors = {name: weight.detach() for name, weight in weights.items()}
    write_tensors(run.epoch_path(epoch), {"identity": run.identity, **tensors})


def load(run: TrainingRun, path: Path, names: Iterable[str]) -> Weights:
    """Read tensors of a file of a training."""
    (identity,) = read_tensors(path, "identity")
    if not torch.equal(identity, run.identity):
        raise RarefeatError(
            f"{path} is a checkpoint of another config, other images or other code; delete it to"
            " start at the first step"
        )
    names = list(names)
    return dict(zip(names, read_tensors(path, *names), strict=True))


def load_weights(weights: Weights, values: Weights) -> None:
    """Copy values into the weights of the same names."""
    with torch.no_grad():
        for name, weight in weights.items():
            weight.copy_(values[name])


def restore_checkpoint(
    run: TrainingRun, weights: Weights, optimiser: torch.optim.Optimizer, state: Weights
) -> int:
    """Restore the state of a checkpoint in place, and return the next step."""
    if not run.checkpoint_path.exists():
        return 0
    names = [f"{kind}/{name}" for kind in ("weight", "momentum") for name in weights]
    try:
        tensors = load(run, run.checkpoint_path, ["step", *names, *state])
    except DamagedFileError:
        print(f"{run.checkpoint_path} is damaged; starting at the first step", file=sys.stderr)
        return 0
    load_weights(weights, {name: tensors[f"weight/{name}"] for name in weights})
    for name, weight in weights.items():
        optimiser.state[weight]["momentum_buffer"] = torch.empty_like(weight).copy_(
            tensors[f"momentum/{name}"]
        )
    state |= {name: tensors[name].to(value.device) for name, value in state.items()}
    return int(tensors["step"])


def identity_of(
    stage: str, tensors: Sequence[Tensor], *settings: Section | str | int
) -> UInt8[Tensor, "32"]:
    """Hash everything that the numbers of a training depend on."""
    texts = [
        json.dumps(
            {key: value for key, value in dump_config(item).items() if key not in RUNTIME_KEYS},
            sort_keys=True,
        )
        if isinstance(item, Section)
        else str(item)
        for item in settings
    ]
    code = hash_code(module_hashes(stage))
    texts += [code, *(f"{tensor.dtype} {list(tensor.shape)}" for tensor in tensors)]
    content = hash_texts(
        *(text.encode() for text in texts),
        *(tensor.cpu().contiguous().numpy() for tensor in tensors),
    )
    return torch.tensor(list(bytes.fromhex(content)), dtype=torch.uint8)


def prepare(threads: int, device: str, key: str = "training.device") -> None:
    """Set the number of threads; RarefeatError if the config asks for a GPU that is not there."""
    torch.set_num_threads(threads)
    if device == "cuda" and not torch.cuda.is_available():
        raise RarefeatError(
            f"{key} is cuda, and there is no GPU here; set it to cpu, or run where there is one"
        )
    # The shapes of a training never change, so cuDNN needs to search for its kernels but once.
    torch.backends.cudnn.benchmark = device == "cuda"
