"""Granularity sweep on scikit-learn's digits: perceptrons of many replicas at once.

Tensors have the S replicas on their leading axis, and the numbers of a replica do not depend on the
others.

Purposes of the random streams, in the namespace `draws`: split, self-supervised, pretraining,
superclasses, and the label of a scheme.
"""

import itertools
import math
from typing import NamedTuple

import torch
from sklearn.datasets import load_digits
from torch import Tensor
from torch.nn import functional

from rarefeat.errors import RarefeatError
from rarefeat.images.evaluation import logistic_probe, predict, standardise
from rarefeat.model.batch_invariant import matmul
from rarefeat.model.randomness import generator
from rarefeat.studies.fine_labels.config import LabelScheme, Perceptrons, SGDSettings
from rarefeat.studies.fine_labels.granularity.label_schemes import (
    Levels,
    at_level,
    classes_of,
    most_classes,
    read_levels,
)
from rarefeat.studies.fine_labels.granularity.training import learning_rate, shift_images
from rarefeat.workflow.run.job import Job
from rarefeat.workflow.run.job_inputs import JobInputs

SIDE = 8
Parameters = list[Tensor]
"""Weights (S, in, out) and biases (S, 1, out) of each layer in turn."""


class Split(NamedTuple):
    """Digits for S replicas, in an order that differs between replicas."""

    train: Tensor
    """Training images, (S, n, 64): pixels in [0, 1] minus their mean."""
    labels: Tensor
    """Their digits, (S, n)."""
    test: Tensor
    """Validation images, (S, n', 64)."""
    test_labels: Tensor
    """Their digits, (S, n')."""


def split_digits(training: Perceptrons, seeds: list[int], draws: str) -> Split:
    """Split the images into training and validation, for each seed."""
    bunch = load_digits()
    pixels, digit = torch.from_numpy(bunch.data).float() / 16, torch.from_numpy(bunch.target).long()
    order = torch.stack(
        [torch.randperm(len(digit), generator=generator(draws, seed, "split")) for seed in seeds]
    )
    x, y, n = (pixels - pixels.mean())[order], digit[order], training.train
    return Split(x[:, :n], y[:, :n], x[:, n:], y[:, n:])


def initial_parameters(sizes: list[int], generators: list[torch.Generator]) -> Parameters:
    """Draw He's normal weights, one generator for each replica; biases are 0."""
    parameters = []
    for n_in, n_out in itertools.pairwise(sizes):
        weights = torch.stack([torch.randn(n_in, n_out, generator=rng) for rng in generators])
        parameters += [weights * math.sqrt(2 / n_in), torch.zeros(len(generators), 1, n_out)]
    return parameters


def forward(parameters: Parameters, x: Tensor) -> Tensor:
    """Compute the outputs, (S, n, in) -> (S, n, out), with ReLU between layers."""
    *inner, (weights, bias) = zip(parameters[::2], parameters[1::2], strict=True)
    for layer_weights, layer_bias in inner:
        x = torch.relu(matmul(x, layer_weights) + layer_bias)
    return matmul(x, weights) + bias


def hidden(parameters: Parameters, x: Tensor) -> Tensor:
    """Compute the activations of the last hidden layer, (S, n, hidden)."""
    return torch.relu(forward(parameters[:4], x))


def fit(
    parameters: Parameters,
    x: Tensor,
    targets: Tensor | None,
    descent: SGDSettings,
    shift: int,
    streams: list[torch.Generator],
    checkpoints: list[int],
) -> dict[int, Parameters]:
    """Train by SGD on cross-entropy, or on the prediction of hidden pixels.

    x (S, n, 64), targets (S, n).
    """
    parameters = [tensor.clone().requires_grad_() for tensor in parameters]
    optimiser = torch.optim.SGD(
        parameters, lr=descent.lr, momentum=descent.momentum, weight_decay=descent.weight_decay
    )
    S, n = x.shape[:2]
    per_epoch = n // descent.batch
    steps, results = descent.epochs * per_epoch, {}
    for epoch in range(descent.epochs):
        order = torch.stack([torch.randperm(n, generator=rng) for rng in streams])
        for index, rows in enumerate(order.split(descent.batch, 1)[:per_epoch]):
            step = epoch * per_epoch + index
            optimiser.param_groups[0]["lr"] = learning_rate(descent, step, steps)
            images = x.gather(1, rows[..., None].expand(-1, -1, x.shape[-1]))
            images = shift_images(images.view(S, -1, 1, SIDE, SIDE), shift, streams).flatten(2)
            if targets is None:
                masks = [torch.rand(*images.shape[1:], generator=rng) < 0.5 for rng in streams]
                is_hidden = torch.stack(masks)
                error = forward(parameters, images * ~is_hidden) - images
                loss = (error.square() * is_hidden).mean((-2, -1))
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
            results[epoch + 1] = [tensor.detach().clone() for tensor in parameters]
    if not all(tensor.isfinite().all() for tensor in parameters):
        raise RarefeatError(
            "training on the digits diverged: the weights are no longer finite; lower lr"
        )
    return results


def self_supervised(training: Perceptrons, images: Split, seeds: list[int], draws: str) -> Tensor:
    """Compute features that no label affects, by a network that predicts hidden pixels.

    -> (S, n, hidden).
    """
    streams = [generator(draws, seed, "self-supervised") for seed in seeds]
    width, descent = training.hidden, training.features
    start = initial_parameters([SIDE**2, width, width, SIDE**2], streams)
    last = descent.epochs
    trained = fit(start, images.train, None, descent, training.shift, streams, [last])[last]
    return hidden(trained, images.train)


def error_rate(scores: Tensor, truth: Tensor) -> list[float]:
    """Compute the fraction of images with a wrong superclass, by replica.

    Scores are (S, n, superclasses), truth is (S, n).
    """
    return (scores.argmax(-1) != truth).double().mean(-1).tolist()


def probe_error_rate(
    body: Parameters, images: Split, truth: Tensor, test_truth: Tensor, l2: float
) -> list[float]:
    """Compute the error rate of a linear probe of the last hidden layer, by replica.

    truth (S, n), test_truth (S, n').
    """
    rates = []
    layers = zip(hidden(body, images.train), hidden(body, images.test), strict=True)
    for s, (train, test) in enumerate(layers):
        x_train, x_test = standardise(train, test)
        head = logistic_probe(x_train, truth[s], int(truth.max()) + 1, l2)
        rates.append((predict(x_test, *head) != test_truth[s]).double().mean().item())
    return rates


def error_rows(
    training: Perceptrons,
    levels: Levels,
    superclass: str,
    scheme: LabelScheme,
    seeds: list[int],
    draws: str,
    candidates: list[int] | None = None,
) -> list[dict]:
    """Return validation errors of the coarse task after pretraining with a kind of labels.

    Readouts: `finetuned`, all weights trained on the superclasses; `probe`, a linear probe of the
    last hidden layer; and for the scheme `coarse`, which is then trained on the superclasses twice,
    `once`, before fine-tuning.
    """
    images = split_digits(training, seeds, draws)
    truth, test_truth = (
        at_level(levels, superclass, labels) for labels in (images.labels, images.test_labels)
    )
    features = [None] * len(seeds)
    if scheme.clustered:
        features = self_supervised(training, images, seeds, draws)
    replicas = zip(images.labels, truth, features, seeds, strict=True)
    classes = torch.stack(
        [classes_of(scheme, y, s, levels, f, draws, seed, candidates) for y, s, f, seed in replicas]
    )
    counts = (classes.amax(-1) + 1).tolist()

    streams = [generator(draws, seed, "pretraining") for seed in seeds]
    body = initial_parameters([SIDE**2, training.hidden, training.hidden], streams)
    # One width for all replicas, whichever are trained together: the rounding of a product depends
    # on its width.
    width = most_classes(scheme, levels, superclass, training.train, candidates)
    heads = [make_head(training.hidden, width, G, g) for G, g in zip(counts, streams, strict=True)]
    start = [*body, *(torch.stack(tensors) for tensors in zip(*heads, strict=True))]
    descent, shift = training.pretraining, training.shift
    trained = fit(start, images.train, classes, descent, shift, streams, training.checkpoints)
    rows = []
    for epoch, parameters in trained.items():
        streams = [generator(draws, seed, "superclasses") for seed in seeds]
        tuning, last = training.finetuning, training.finetuning.epochs
        head = initial_parameters([training.hidden, int(truth.max()) + 1], streams)
        start = parameters[:4] + head
        tuned = fit(start, images.train, truth, tuning, shift, streams, [last])[last]
        errors = {
            "finetuned": error_rate(forward(tuned, images.test), test_truth),
            "probe": probe_error_rate(parameters[:4], images, truth, test_truth, training.l2),
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
    inputs: int, width: int, classes: int, stream: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Make the head of a replica, with more outputs than classes.

    Outputs beyond the classes have no weights, and a bias that makes their softmax weight 0.

    -> weights (inputs, width), bias (1, width).
    """
    weights, bias = torch.zeros(inputs, width), torch.full((1, width), -1e9)
    weights[:, :classes] = torch.randn(inputs, classes, generator=stream) * math.sqrt(2 / inputs)
    bias[:, :classes] = 0
    return weights, bias


def sweep_digits(inputs: JobInputs, job: Job) -> list[dict]:
    """Return the errors of one coarse task and kind of labels.

    Inputs: none. Config: `training`, `labels`, `levels`, `superclass`, and `candidates` for
    rebalanced clusters.
    """
    levels = read_levels(job.config_section("levels", dict[str, list[int]]))
    candidates = job.config_section("candidates", list[int]) if "candidates" in job.config else None
    rows = error_rows(
        job.config_section("training", Perceptrons),
        levels,
        job.config_section("superclass", str),
        job.config_section("labels", LabelScheme),
        job.seed_list,
        job.study,
        candidates,
    )
    return [{**job.cell, **row} for row in rows]
