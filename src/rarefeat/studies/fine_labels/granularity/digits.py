"""The granularity sweep on scikit-learn's digits: perceptrons of many replicas at once.

The weights have the replicas on their leading axis, and a replica's numbers do not depend on those beside it.
"""

import itertools
import math
from typing import NamedTuple

import torch
from sklearn.datasets import load_digits
from torch import Tensor
from torch.nn import functional

from rarefeat.core.batch_invariant import matmul
from rarefeat.core.errors import RarefeatError
from rarefeat.core.randomness import generator
from rarefeat.images.evaluation import logistic_probe, predict, standardise
from rarefeat.run.job import Job
from rarefeat.run.job_inputs import JobInputs
from rarefeat.studies.fine_labels.config import LabelScheme, Perceptrons, SGDSettings
from rarefeat.studies.fine_labels.granularity.label_schemes import (
    Levels,
    at_level,
    classes_of,
    most_classes,
    read_levels,
)
from rarefeat.studies.fine_labels.granularity.training import learning_rate, moved

SIDE = 8
Parameters = list[Tensor]
"""Weights (S, in, out) and biases (S, 1, out) of each layer in turn."""


class Split(NamedTuple):
    """Digits for S replicas, in an order of their own: those for training, then those for validation."""

    train: Tensor
    """(S, n, 64), pixels in [0, 1] less their mean."""
    labels: Tensor
    """Digits, (S, n)."""
    test: Tensor
    """(S, n', 64)."""
    test_labels: Tensor
    """(S, n')."""


def split(training: Perceptrons, seeds: list[int], draws: str) -> Split:
    """The images, divided anew by each seed."""
    bunch = load_digits()
    pixels, digit = torch.from_numpy(bunch.data).float() / 16, torch.from_numpy(bunch.target).long()
    order = torch.stack(
        [torch.randperm(len(digit), generator=generator(draws, seed, "split")) for seed in seeds]
    )
    x, y, n = (pixels - pixels.mean())[order], digit[order], training.train
    return Split(x[:, :n], y[:, :n], x[:, n:], y[:, n:])


def layers(sizes: list[int], generators: list[torch.Generator]) -> Parameters:
    """He's normal weights and zero biases, one generator a replica."""
    found = []
    for a, b in itertools.pairwise(sizes):
        weights = torch.stack([torch.randn(a, b, generator=g) for g in generators]) * math.sqrt(
            2 / a
        )
        found += [weights, torch.zeros(len(generators), 1, b)]
    return found


def forward(parameters: Parameters, x: Tensor) -> Tensor:
    """(S, n, in) -> (S, n, out); ReLU between layers and none after the last."""
    *before, (weights, bias) = zip(parameters[::2], parameters[1::2], strict=True)
    for inner, own in before:
        x = torch.relu(matmul(x, inner) + own)
    return matmul(x, weights) + bias


def hidden(parameters: Parameters, x: Tensor) -> Tensor:
    """What the last hidden layer answers, (S, n, hidden)."""
    return torch.relu(forward(parameters[:4], x))


def fit(
    parameters: Parameters, x: Tensor, targets: Tensor | None, descent: SGDSettings, shift: int, streams: list[torch.Generator],
    checkpoints: list[int],
) -> dict[int, Parameters]:  # fmt: skip
    """Train by SGD on cross-entropy; what the parameters are after each checkpoint.

    Args:
        x: (S, n, 64). targets: classes (S, n); None to fill in the half of the pixels that is hidden, by mean squared error.

    Raises:
        RarefeatError: for weights that are no longer finite.
    """
    parameters = [part.clone().requires_grad_() for part in parameters]
    optimiser = torch.optim.SGD(
        parameters, lr=descent.lr, momentum=descent.momentum, weight_decay=descent.weight_decay
    )
    S, n = x.shape[:2]
    per_epoch = n // descent.batch
    steps, kept = descent.epochs * per_epoch, {}
    for epoch in range(descent.epochs):
        order = torch.stack([torch.randperm(n, generator=g) for g in streams])
        for index, rows in enumerate(order.split(descent.batch, 1)[:per_epoch]):
            optimiser.param_groups[0]["lr"] = learning_rate(
                descent, epoch * per_epoch + index, steps
            )
            images = x.gather(1, rows[..., None].expand(-1, -1, x.shape[-1]))
            images = moved(images.view(S, -1, 1, SIDE, SIDE), shift, streams).flatten(2)
            if targets is None:
                unseen = torch.stack(
                    [torch.rand(*images.shape[1:], generator=g) < 0.5 for g in streams]
                )
                loss = ((forward(parameters, images * ~unseen) - images).square() * unseen).mean(
                    (-2, -1)
                )
            else:
                scores = forward(parameters, images)
                loss = functional.cross_entropy(
                    scores.flatten(0, 1), targets.gather(1, rows).flatten(), reduction="none"
                )
                loss = loss.view(S, -1).mean(-1)
            optimiser.zero_grad()
            loss.sum().backward()
            optimiser.step()
        if epoch + 1 in checkpoints:
            kept[epoch + 1] = [part.detach().clone() for part in parameters]
    if not all(part.isfinite().all() for part in parameters):
        raise RarefeatError(
            "training on the digits diverged: the weights are no longer finite; lower lr"
        )
    return kept


def self_supervised(training: Perceptrons, images: Split, seeds: list[int], draws: str) -> Tensor:
    """Features that no label has shaped, (S, n, hidden): the last hidden layer of a network that fills in hidden pixels."""
    streams = [generator(draws, seed, "self-supervised") for seed in seeds]
    start, descent = (
        layers([SIDE**2, training.hidden, training.hidden, SIDE**2], streams),
        training.features,
    )
    return hidden(
        fit(start, images.train, None, descent, training.shift, streams, [descent.epochs])[
            descent.epochs
        ],
        images.train,
    )


def error_rate(scores: Tensor, truth: Tensor) -> list[float]:
    """Share of validation images whose superclass is missed, by replica: (S, n, superclasses), (S, n)."""
    return (scores.argmax(-1) != truth).double().mean(-1).tolist()


def probe_error_rate(
    body: Parameters, images: Split, truth: Tensor, test_truth: Tensor, l2: float
) -> list[float]:
    """The same of a linear probe of the last hidden layer, by replica; truth (S, n), of the validation images (S, n')."""
    found = []
    for s, (train, test) in enumerate(
        zip(hidden(body, images.train), hidden(body, images.test), strict=True)
    ):
        x, unseen = standardise(train, test)
        head = logistic_probe(x, truth[s], int(truth.max()) + 1, l2)
        found.append((predict(unseen, *head) != test_truth[s]).double().mean().item())
    return found


def rows(
    training: Perceptrons, levels: Levels, superclass: str, scheme: LabelScheme, seeds: list[int], draws: str,
    candidates: list[int] | None = None,
) -> list[dict]:  # fmt: skip
    """Validation error of the coarse task after pretraining with the labels of a scheme, by checkpoint, readout and seed.

    Readouts: `finetuned`, all of it trained on the superclasses; `probe`, a linear one of the last hidden layer; and of the
    scheme `coarse`, which is then trained with the superclasses twice, `once`, before it is.
    """
    images = split(training, seeds, draws)
    truth, test_truth = (
        at_level(levels, superclass, images.labels),
        at_level(levels, superclass, images.test_labels),
    )
    features = (
        self_supervised(training, images, seeds, draws) if scheme.clustered else [None] * len(seeds)
    )
    each = zip(images.labels, truth, features, seeds, strict=True)
    named = torch.stack(
        [classes_of(scheme, y, s, levels, f, draws, seed, candidates) for y, s, f, seed in each]
    )
    counts = (named.amax(-1) + 1).tolist()

    streams = [generator(draws, seed, "pretraining") for seed in seeds]
    body = layers([SIDE**2, training.hidden, training.hidden], streams)
    # One width for all replicas, whichever are trained together, as products of another width round in another way.
    most = most_classes(scheme, levels, superclass, training.train, candidates)
    heads = [head_of(training.hidden, most, G, g) for G, g in zip(counts, streams, strict=True)]
    start = [*body, *(torch.stack(parts) for parts in zip(*heads, strict=True))]
    kept = fit(
        start,
        images.train,
        named,
        training.pretraining,
        training.shift,
        streams,
        training.checkpoints,
    )
    found = []
    for epoch, parameters in kept.items():
        streams = [generator(draws, seed, "superclasses") for seed in seeds]
        tuning, last = training.finetuning, training.finetuning.epochs
        second = parameters[:4] + layers([training.hidden, int(truth.max()) + 1], streams)
        tuned = fit(second, images.train, truth, tuning, training.shift, streams, [last])[last]
        errors = {
            "finetuned": error_rate(forward(tuned, images.test), test_truth),
            "probe": probe_error_rate(parameters[:4], images, truth, test_truth, training.l2),
        }
        if scheme.kind == "coarse":
            errors["once"] = error_rate(forward(parameters, images.test), test_truth)
        found += [
            {"classes": G, "epoch": epoch, "readout": readout, "seed": seed, "error": error}
            for readout, values in errors.items()
            for seed, G, error in zip(seeds, counts, values, strict=True)
        ]
    return found


def head_of(width: int, most: int, classes: int, stream: torch.Generator) -> tuple[Tensor, Tensor]:
    """A head (width, most), (1, most) for so many classes: the others have no weight, and a bias that no softmax hears."""
    weights, bias = torch.zeros(width, most), torch.full((1, most), -1e9)
    weights[:, :classes] = torch.randn(width, classes, generator=stream) * math.sqrt(2 / width)
    bias[:, :classes] = 0
    return weights, bias


def sweep_digits(read: JobInputs, job: Job) -> list[dict]:
    """The stage of one coarse task and kind of labels."""
    training, scheme = (
        job.config_section("training", Perceptrons),
        job.config_section("labels", LabelScheme),
    )
    levels = read_levels(job.config_section("levels", dict[str, list[int]]))
    candidates = job.config_section("candidates", list[int]) if "candidates" in job.config else None
    found = rows(
        training,
        levels,
        job.config_section("superclass", str),
        scheme,
        job.seed_list,
        job.study,
        candidates,
    )
    return [{**job.cell, **row} for row in found]
