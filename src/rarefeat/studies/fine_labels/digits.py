"""Granularity sweep on scikit-learn's digits: perceptrons of many replicas at once.

The numbers of a replica do not depend on the others. Purposes of the random streams, in the
namespace of the study's name: split, self-supervised, pretraining, superclasses, and the label of a
scheme.
Axes: S replicas, n images (n_test for validation), G classes, in and out units of a layer.
"""

import math
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from sklearn.datasets import load_digits
from torch import Tensor
from torch.nn import functional

from rarefeat.errors import RarefeatError
from rarefeat.images.evaluation import logistic_probe, predict, standardise
from rarefeat.model.randomness import draw, make_generators
from rarefeat.studies.fine_labels.granularity import LabelScheme, Perceptrons, SGDSettings
from rarefeat.studies.fine_labels.label_schemes import (
    Levels,
    at_level,
    classes_of,
    learning_rate,
    most_classes,
    read_levels,
    shift_images,
)
from rarefeat.training.perceptrons import Parameters, forward, initial_parameters
from rarefeat.workflow.run.job import Job

SIDE = 8
Generators = list[torch.Generator]


class Split(NamedTuple):
    """Digits for S replicas, in an order that differs between replicas."""

    train: Float[Tensor, "S n 64"]
    """Training images: pixels in [0, 1] minus their mean."""
    labels: Int[Tensor, "S n"]
    test: Float[Tensor, "S n_test 64"]
    test_labels: Int[Tensor, "S n_test"]


def split_digits(n: int, seeds: list[int], draws: str) -> Split:
    """Split the images into n for training, and the others for validation, for each seed."""
    bunch = load_digits()
    pixels, digit = torch.from_numpy(bunch.data).float() / 16, torch.from_numpy(bunch.target).long()
    order = draw(torch.randperm, make_generators(draws, seeds, "split"), len(digit))
    x, y = (pixels - pixels.mean())[order], digit[order]
    return Split(x[:, :n], y[:, :n], x[:, n:], y[:, n:])


def hidden(parameters: Parameters, x: Float[Tensor, "S n in"]) -> Float[Tensor, "S n hidden"]:
    """Compute the activations of the last hidden layer."""
    return torch.relu(forward(parameters[:4], x))


def hidden_pixels_loss(
    parameters: Parameters, images: Float[Tensor, "S n 64"], streams: Generators
) -> Float[Tensor, " S"]:
    """Compute the squared error of predicting pixels, each hidden with probability one half."""
    is_hidden = draw(torch.rand, streams, *images.shape[1:]) < 0.5
    error = forward(parameters, images * ~is_hidden) - images
    return (error.square() * is_hidden).mean((-2, -1))


def class_loss(
    parameters: Parameters, images: Float[Tensor, "S n 64"], targets: Int[Tensor, "S n"]
) -> Float[Tensor, " S"]:
    """Compute the cross-entropy of classes."""
    scores = forward(parameters, images).flatten(0, 1)
    loss = functional.cross_entropy(scores, targets.flatten(), reduction="none")
    return loss.view(len(images), -1).mean(-1)


def fit(
    parameters: Parameters, x: Float[Tensor, "S n 64"], targets: Int[Tensor, "S n"] | None,
    descent: SGDSettings, shift: int, streams: Generators, checkpoints: list[int],
) -> dict[int, Parameters]:  # fmt: skip
    """Train by SGD on classes, or to predict hidden pixels; return parameters of some epochs."""
    parameters = [tensor.clone().requires_grad_() for tensor in parameters]
    optimiser = torch.optim.SGD(
        parameters, lr=descent.lr, momentum=descent.momentum, weight_decay=descent.weight_decay
    )
    S, n = x.shape[:2]
    per_epoch = n // descent.batch
    steps, results = descent.epochs * per_epoch, {}
    for epoch in range(descent.epochs):
        order = draw(torch.randperm, streams, n)
        for index, rows in enumerate(order.split(descent.batch, 1)[:per_epoch]):
            rate = learning_rate(descent, epoch * per_epoch + index, steps)
            optimiser.param_groups[0]["lr"] = rate
            images = x.gather(1, rows[..., None].expand(-1, -1, x.shape[-1]))
            images = shift_images(images.view(S, -1, 1, SIDE, SIDE), shift, streams).flatten(2)
            loss = (
                hidden_pixels_loss(parameters, images, streams)
                if targets is None
                else class_loss(parameters, images, targets.gather(1, rows))
            )
            optimiser.zero_grad()
            loss.sum().backward()
            optimiser.step()
        if epoch + 1 in checkpoints:
            results[epoch + 1] = [tensor.detach().clone() for tensor in parameters]
    if not all(tensor.isfinite().all() for tensor in parameters):
        raise RarefeatError(
            "training on the digits diverged: the weights are no longer finite; lower lr"
        )
    return results


def self_supervised(
    training: Perceptrons, images: Float[Tensor, "S n 64"], seeds: list[int], draws: str
) -> Float[Tensor, "S n hidden"]:
    """Compute features that no label affects, by a network that predicts hidden pixels."""
    streams = make_generators(draws, seeds, "self-supervised")
    width, descent = training.hidden, training.features
    start = initial_parameters([SIDE**2, width, width, SIDE**2], streams)
    last = descent.epochs
    trained = fit(start, images, None, descent, training.shift, streams, [last])[last]
    return hidden(trained, images)


def error_rate(scores: Float[Tensor, "S n G"], truth: Int[Tensor, "S n"]) -> list[float]:
    """Compute the fraction of images with a wrong superclass, by replica."""
    return (scores.argmax(-1) != truth).double().mean(-1).tolist()


def probe_error_rate(
    body: Parameters, images: Split, truth: Int[Tensor, "S n"], test_truth: Int[Tensor, "S n_test"],
    l2: float,
) -> list[float]:  # fmt: skip
    """Compute the error rate of a linear probe of the last hidden layer, by replica."""
    rates = []
    layers = zip(hidden(body, images.train), hidden(body, images.test), strict=True)
    for s, (train, test) in enumerate(layers):
        x_train, x_test = standardise(train, test)
        head = logistic_probe(x_train, truth[s], int(truth.max()) + 1, l2)
        rates.append((predict(x_test, *head) != test_truth[s]).double().mean().item())
    return rates


def error_rows(
    training: Perceptrons, levels: Levels, superclass: str, scheme: LabelScheme, seeds: list[int],
    draws: str, candidates: list[int],
) -> list[dict]:  # fmt: skip
    """Return validation errors of the coarse task by readout (tables.READOUTS) and checkpoint."""
    images = split_digits(training.train, seeds, draws)
    truth, test_truth = (
        at_level(levels, superclass, labels) for labels in (images.labels, images.test_labels)
    )
    features = [None] * len(seeds)
    if scheme.clustered:
        features = self_supervised(training, images.train, seeds, draws)
    replicas = zip(images.labels, truth, features, seeds, strict=True)
    classes = torch.stack(
        [classes_of(scheme, y, s, levels, f, draws, seed, candidates) for y, s, f, seed in replicas]
    )
    counts = (classes.amax(-1) + 1).tolist()

    streams, width = make_generators(draws, seeds, "pretraining"), training.hidden
    body = initial_parameters([SIDE**2, width, width], streams)
    # One number of outputs for all replicas, whichever are trained together: the rounding of a
    # product depends on it.
    outputs = most_classes(scheme, levels, superclass, training.train, candidates)
    heads = [make_head(width, outputs, G, g) for G, g in zip(counts, streams, strict=True)]
    start = [*body, *map(torch.stack, zip(*heads, strict=True))]
    descent, tuning, shift = training.pretraining, training.finetuning, training.shift
    trained = fit(start, images.train, classes, descent, shift, streams, training.checkpoints)
    rows = []
    for epoch, parameters in trained.items():
        body, streams = parameters[:4], make_generators(draws, seeds, "superclasses")
        start = body + initial_parameters([width, int(truth.max()) + 1], streams)
        last = tuning.epochs
        tuned = fit(start, images.train, truth, tuning, shift, streams, [last])[last]
        errors = {
            "finetuned": error_rate(forward(tuned, images.test), test_truth),
            "probe": probe_error_rate(body, images, truth, test_truth, training.l2),
        }
        if scheme.kind == "coarse":
            errors["once"] = error_rate(forward(parameters, images.test), test_truth)
        rows += [
            {"classes": G, "epoch": epoch, "readout": readout, "seed": seed, "error": error}
            for readout, values in errors.items()
            for seed, G, error in zip(seeds, counts, values, strict=True)
        ]
    return rows


def make_head(
    inputs: int, outputs: int, classes: int, stream: torch.Generator
) -> tuple[Float[Tensor, "inputs outputs"], Float[Tensor, "1 outputs"]]:
    """Make a head whose outputs beyond the classes have weight 0 in the softmax."""
    weights, bias = torch.zeros(inputs, outputs), torch.full((1, outputs), -1e9)
    weights[:, :classes] = torch.randn(inputs, classes, generator=stream) * math.sqrt(2 / inputs)
    bias[:, :classes] = 0
    return weights, bias


def sweep_digits(
    cell: dict, seeds: list[int], job: Job, training: Perceptrons, levels: dict[str, list[int]],
    candidates: list[int],
) -> list[dict]:  # fmt: skip
    """Return the errors of one coarse task and kind of labels."""
    scheme, hierarchy = LabelScheme.named(cell["labels"]), read_levels(levels)
    rows = error_rows(training, hierarchy, cell["superclass"], scheme, seeds, job.study, candidates)
    return [{**cell, **row} for row in rows]
