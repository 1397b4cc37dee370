"""The granularity sweep on images (Figure 5, Tables 1 and 2) at the size of scikit-learn's digits.

A network is trained with G labels, then fine-tuned, or read by a linear head, on the superclasses. The weights have the
replicas on their leading axis, so that all seeds are one training.
"""

import itertools
import math
from typing import Literal, NamedTuple

import numpy as np
import torch
from pydantic import Field, model_validator
from sklearn.cluster import KMeans
from sklearn.datasets import load_digits
from torch import Tensor
from torch.nn import functional

from rarefeat.config.section import Section
from rarefeat.core.errors import RarefeatError
from rarefeat.core.randomness import generator

SUPERCLASSES = {"parity": [y % 2 for y in range(10)], "loops": [int(y in (0, 6, 8, 9)) for y in range(10)]}
"""Of each digit: odd, or with a closed loop."""
Parameters = list[Tensor]


class DigitsSweep(Section):
    """Labels, network and training of the sweep."""

    superclass: Literal["parity", "loops"] = Field(description="the coarse task: odd digits, or digits with a closed loop")
    seeds: int = Field(ge=1, description="replicas: split, initial weights, batches, and labels where they are random")
    first_seed: int = Field(ge=0, description="the seeds are first_seed, first_seed + 1, ...")
    train: int = Field(ge=100, le=1700, description="training images of the 1,797; the others are for validation")
    random: list[int] = Field(description="random classes within each superclass")
    clusters: list[int] = Field(description="k-means clusters within each superclass, of self-supervised features")
    smallest: list[int] = Field(description="rebalanced clusters: as many as leave every cluster this many images")
    candidates: list[int] = Field(min_length=1, description="numbers of clusters of a superclass that rebalancing chooses from")
    hidden: int = Field(ge=1, description="neurons of either hidden layer")
    epochs: int = Field(ge=1, description="epochs of pretraining, and of fine-tuning")
    checkpoints: list[int] = Field(min_length=1, description="epochs of pretraining after which it is fine-tuned and read")
    batch: int = Field(ge=2, description="images of a batch")
    lr: float = Field(gt=0, description="largest learning rate; a linear warm-up of a tenth, then a cosine")
    momentum: float = Field(ge=0, lt=1, description="momentum of SGD")
    weight_decay: float = Field(ge=0, description="weight decay")

    @model_validator(mode="after")
    def _consistent(self) -> "DigitsSweep":
        if max(self.checkpoints) > self.epochs:
            raise ValueError(f"checkpoints must be at most epochs = {self.epochs}, got {self.checkpoints}")
        if self.batch > self.train:
            raise ValueError(f"batch must be at most train = {self.train}, got {self.batch}")
        too_many = max([*self.random, *self.clusters, *self.candidates])
        if too_many > self.train // 4:
            raise ValueError(f"at most train / 4 = {self.train // 4} classes a superclass, got {too_many}")
        return self

    @property
    def seed_range(self) -> list[int]:
        """The seeds."""
        return list(range(self.first_seed, self.first_seed + self.seeds))


class Split(NamedTuple):
    """Digits for S replicas, in an order of their own: those for training, then those for validation."""

    train: Tensor
    """(S, n, 64), pixels in [0, 1] less their mean."""
    test: Tensor
    """(S, n', 64)."""
    digit: Tensor
    """Of the training images, (S, n)."""
    superclass: Tensor
    """(S, n)."""
    test_superclass: Tensor
    """(S, n')."""


def split(sweep: DigitsSweep, draws: str) -> Split:
    """The images, divided anew by each seed."""
    bunch = load_digits()
    pixels = torch.from_numpy(bunch.data).float() / 16
    digit = torch.from_numpy(bunch.target)
    order = torch.stack([torch.randperm(len(digit), generator=generator(draws, seed, "split")) for seed in sweep.seed_range])
    x = (pixels - pixels.mean())[order]
    named = torch.tensor(SUPERCLASSES[sweep.superclass])[digit][order]
    n = sweep.train
    return Split(x[:, :n], x[:, n:], digit[order[:, :n]], named[:, :n], named[:, n:])


def layers(sizes: list[int], generators: list[torch.Generator]) -> Parameters:
    """Weights (S, in, out), He's normal, and zero biases (S, 1, out), one generator a replica."""
    found = []
    for a, b in itertools.pairwise(sizes):
        weights = torch.stack([torch.randn(a, b, generator=g) for g in generators]) * math.sqrt(2 / a)
        found += [weights, torch.zeros(len(generators), 1, b)]
    return found


def forward(parameters: Parameters, x: Tensor) -> Tensor:
    """(S, n, in) -> (S, n, out); ReLU between layers and none after the last."""
    pairs = list(zip(parameters[::2], parameters[1::2], strict=True))
    for weights, bias in pairs[:-1]:
        x = torch.relu(torch.baddbmm(bias, x, weights))
    weights, bias = pairs[-1]
    return torch.baddbmm(bias, x, weights)


def shifted(x: Tensor, generators: list[torch.Generator]) -> Tensor:
    """Images of 8 x 8 moved by up to a pixel either way, each by a draw of its own: (S, n, 64) -> (S, n, 64)."""
    S, n = x.shape[:2]
    move = torch.stack([torch.randint(3, (n, 2), generator=g) for g in generators])
    padded = functional.pad(x.view(S, n, 8, 8), (1, 1, 1, 1), mode="constant", value=x.min().item())
    at = torch.arange(8)
    row = (move[..., :1] + at)[..., :, None] * 10
    column = (move[..., 1:] + at)[..., None, :]
    return padded.flatten(2).gather(2, (row + column).flatten(2))


def fit(
    parameters: Parameters,
    x: Tensor,
    targets: Tensor,
    sweep: DigitsSweep,
    seeds: list[torch.Generator],
    frozen: int = 0,
    masked: bool = False,
) -> dict[int, Parameters]:
    """Train by SGD on cross-entropy; what the parameters are after each checkpoint, and at the end.

    Args:
        x: (S, n, 64). targets: (S, n) classes. frozen: so many tensors at the front stay.
        masked: fill in the half of the pixels that is hidden, by mean squared error, instead.

    Raises:
        RarefeatError: for weights that are no longer finite.
    """
    parameters = [part.clone().requires_grad_(i >= frozen) for i, part in enumerate(parameters)]
    optimiser = torch.optim.SGD(parameters[frozen:], lr=sweep.lr, momentum=sweep.momentum, weight_decay=sweep.weight_decay)
    S, n = x.shape[:2]
    steps = sweep.epochs * (n // sweep.batch)
    kept, step = {}, 0
    for epoch in range(sweep.epochs):
        order = torch.stack([torch.randperm(n, generator=g) for g in seeds])
        for rows in order.split(sweep.batch, 1)[: n // sweep.batch]:
            warm, turn = (step + 1) / (0.1 * steps), math.pi * step / steps
            optimiser.param_groups[0]["lr"] = sweep.lr * min(warm, 0.5 * (1 + math.cos(turn)))
            images = shifted(x.gather(1, rows[..., None].expand(-1, -1, x.shape[-1])), seeds)
            if masked:
                hidden = torch.stack([torch.rand(*images.shape[1:], generator=g) < 0.5 for g in seeds])
                loss = ((forward(parameters, images * ~hidden) - images).square() * hidden).mean((-2, -1))
            else:
                scores = forward(parameters, images)
                loss = functional.cross_entropy(scores.flatten(0, 1), targets.gather(1, rows).flatten(), reduction="none")
                loss = loss.view(S, -1).mean(-1)
            optimiser.zero_grad()
            loss.sum().backward()
            optimiser.step()
            step += 1
        if epoch + 1 in sweep.checkpoints or epoch + 1 == sweep.epochs:
            kept[epoch + 1] = [part.detach().clone() for part in parameters]
    if not all(part.isfinite().all() for part in kept[sweep.epochs]):
        raise RarefeatError("training on the digits diverged: the weights are no longer finite; lower lr")
    return kept


def self_supervised(sweep: DigitsSweep, images: Split, draws: str) -> Tensor:
    """Features that no label has shaped, (S, n, hidden): the last hidden layer of a network that fills in hidden pixels."""
    seeds = [generator(draws, seed, "self-supervised") for seed in sweep.seed_range]
    start = layers([64, sweep.hidden, sweep.hidden, 64], seeds)
    trained = fit(start, images.train, images.superclass, sweep, seeds, masked=True)[sweep.epochs]
    return torch.relu(forward(trained[:4], images.train))


def clusters(features: Tensor, superclass: Tensor, number: int, seed: int) -> Tensor:
    """k-means within each superclass, (n, p), (n,) -> class (n,): `number` of superclass 0, then those of superclass 1."""
    named = torch.empty_like(superclass)
    for s in (0, 1):
        member = superclass == s
        found = KMeans(number, n_init=1, random_state=seed).fit_predict(features[member].numpy())
        named[member] = torch.from_numpy(found).to(named.dtype) + s * number
    return named


def rebalanced(features: Tensor, superclass: Tensor, candidates: list[int], smallest: int, seed: int) -> Tensor:
    """`clusters` with, in each superclass, the most candidates that leave every cluster `smallest` images, or one."""
    named, first = torch.empty_like(superclass), 0
    for s in (0, 1):
        member = superclass == s
        best = np.zeros(int(member.sum()), dtype=int)
        for number in sorted(candidates):
            found = KMeans(number, n_init=1, random_state=seed).fit_predict(features[member].numpy())
            if np.bincount(found, minlength=number).min() >= smallest:
                best = found
        named[member] = torch.from_numpy(best).to(named.dtype) + first
        first += int(best.max()) + 1
    return named


def schemes(sweep: DigitsSweep, images: Split, draws: str) -> dict[tuple[str, int], Tensor]:
    """Every way to label the training images: (S, n) by its name and its parameter, the coarse labels first."""
    S, n = images.superclass.shape
    found = {("coarse", 0): images.superclass, ("manual", 0): images.digit, ("sample", 0): torch.arange(n).expand(S, n)}
    for ids in sweep.random:
        drawn = [torch.randint(ids, (n,), generator=generator(draws, seed, f"random {ids}")) for seed in sweep.seed_range]
        found["random", ids] = images.superclass * ids + torch.stack(drawn)
    if sweep.clusters or sweep.smallest:
        features = self_supervised(sweep, images, draws)
        each = list(zip(features, images.superclass, sweep.seed_range, strict=True))
        for number in sweep.clusters:
            found["clusters", number] = torch.stack([clusters(f, s, number, seed) for f, s, seed in each])
        for smallest in sweep.smallest:
            found["rebalanced", smallest] = torch.stack(
                [rebalanced(f, s, sweep.candidates, smallest, seed) for f, s, seed in each]
            )
    return found


def error(parameters: Parameters, images: Split) -> Tensor:
    """Share of validation images whose superclass is missed, (S,)."""
    return (forward(parameters, images.test).argmax(-1) != images.test_superclass).double().mean(-1)


def sweep_rows(sweep: DigitsSweep, draws: str) -> list[dict]:
    """Validation error of the coarse task after each kind of pretraining, by checkpoint, seed and G.

    `network` is `finetuned`, all of it trained on the superclasses, or `probe`, a new head alone. The scheme `coarse` is
    the paper's baseline: trained with the superclasses twice.
    """
    images = split(sweep, draws)
    rows = []
    for (scheme, parameter), named in schemes(sweep, images, draws).items():
        G = int(named.max()) + 1
        streams = [generator(draws, seed, "pretraining") for seed in sweep.seed_range]
        body = layers([64, sweep.hidden, sweep.hidden], streams)
        kept = fit(body + layers([sweep.hidden, G], streams), images.train, named, sweep, streams)
        for epoch in sweep.checkpoints:
            for network, frozen in (("finetuned", 0), ("probe", 4)):
                streams = [generator(draws, seed, "superclasses") for seed in sweep.seed_range]
                start = kept[epoch][:4] + layers([sweep.hidden, 2], streams)
                tuned = fit(start, images.train, images.superclass, sweep, streams, frozen)[sweep.epochs]
                rows += [
                    {
                        "scheme": scheme, "parameter": parameter, "classes": len(named[s].unique()), "epoch": epoch,
                        "network": network, "seed": seed, "error": value,
                    }
                    for s, (seed, value) in enumerate(zip(sweep.seed_range, error(tuned, images).tolist(), strict=True))
                ]  # fmt: skip
    return rows
