"""Masks by neuron on long-tailed digits: a perceptron, NT-Xent, and the rules that choose neurons of the theory's study.

The weights have the replicas on their leading axis, and a replica's numbers do not depend on those beside it.
"""

import math
from typing import NamedTuple

import torch
from sklearn.datasets import load_digits
from torch import Tensor
from torch.nn import functional

from rarefeat.core.activation_moments import Moments, batch_moments, update_running_moments
from rarefeat.core.batch_invariant import matmul
from rarefeat.core.pruning import mask_smallest
from rarefeat.core.randomness import generator
from rarefeat.images.evaluation import logistic_probe, predict, standardise
from rarefeat.run.cli_helpers import progress
from rarefeat.run.job import Job
from rarefeat.run.job_inputs import JobInputs
from rarefeat.studies.selection.config import Perceptron
from rarefeat.studies.selection.scores import compute_score

SIDE, CLASSES = 8, 10
Parameters = list[Tensor]
"""Weights (S, in, out) and biases (S, 1, out) of both layers."""


class Split(NamedTuple):
    """Digits of one seed: pixels in [0, 1] less their mean, (n, 64), and labels."""

    long_tailed: Tensor
    """What is trained on: of every rare digit 1 / rho of its images."""
    train: Tensor
    train_labels: Tensor
    test: Tensor
    test_labels: Tensor
    rare: Tensor
    """bool (10,)."""


def split(draws: str, training: Perceptron, rho: float, seed: int) -> Split:
    """The images of one seed; which digits are rare is drawn."""
    bunch = load_digits()
    random = generator(draws, seed, "split")
    pixels, label = torch.from_numpy(bunch.data).float() / 16, torch.from_numpy(bunch.target).long()
    order = torch.randperm(len(label), generator=random)
    x, y = (pixels - pixels.mean())[order], label[order]
    train, test = slice(None, training.train), slice(training.train, None)
    rare = torch.zeros(CLASSES, dtype=torch.bool)
    rare[torch.randperm(CLASSES, generator=random)[: training.tail]] = True
    kept = torch.ones(training.train, dtype=torch.bool)
    for digit in rare.nonzero().flatten().tolist():
        places = (y[train] == digit).nonzero().flatten()
        kept[places[max(1, round(len(places) / rho)) :]] = False
    return Split(x[train][kept], x[train], y[train], x[test], y[test], rare)


def layers(training: Perceptron, generators: list[torch.Generator]) -> Parameters:
    """He's normal weights and zero biases, one generator a replica."""
    found = []
    for a, b in ((SIDE**2, training.hidden), (training.hidden, training.m)):
        found.append(
            torch.stack([torch.randn(a, b, generator=g) for g in generators]) * math.sqrt(2 / a)
        )
        found.append(torch.zeros(len(generators), 1, b))
    return found


def respond(parameters: Parameters, x: Tensor) -> Tensor:
    """What the neurons answer, (S, n, 64) -> (S, n, m)."""
    for weights, bias in zip(parameters[::2], parameters[1::2], strict=True):
        x = torch.relu(matmul(x, weights) + bias)
    return x


def logits(f: Tensor, tau: float) -> Tensor:
    """Cosines over tau of all views with one another, -inf for a view with itself: (S, 2 B, m) -> (S, 2 B, 2 B)."""
    z = functional.normalize(f, dim=-1)
    own = torch.eye(f.shape[1], dtype=torch.bool)
    return (matmul(z, z.mT) / tau).masked_fill(own, -torch.inf)


def descended(f: Tensor, mask: Tensor, tau: float) -> Tensor:
    """What is descended, (S,): its gradient is that of NT-Xent, with the softmax weights of the masked neurons (eq. 5).

    images/nt_xent.py, nt_xent with weights, for many replicas. f: (S, 2 B, m), second views last. mask: bool (S, m).
    """
    views = f.shape[1]
    positive = torch.arange(views).roll(views // 2)
    with torch.no_grad():
        weights = logits(f.masked_fill(mask[:, None], 0.0), tau).softmax(-1)
    dense = logits(f, tau)
    attracted = dense[:, torch.arange(views), positive]
    return ((weights * dense.masked_fill(weights == 0, 0.0)).sum(-1) - attracted).mean(-1)


def views(x: Tensor, noise: float, generators: list[torch.Generator]) -> Tensor:
    """Each image moved by up to a pixel either way, with noise of its own, (S, n, 64) -> (S, n, 64)."""
    images = functional.pad(x.unflatten(-1, (SIDE, SIDE)), (1, 1, 1, 1), value=float(x.min()))
    places = images.unfold(2, SIDE, 1).unfold(3, SIDE, 1).flatten(2, 3)
    move = torch.stack([torch.randint(9, (x.shape[1],), generator=g) for g in generators])
    moved = places.gather(2, move[..., None, None, None].expand(-1, -1, 1, SIDE, SIDE))[
        :, :, 0
    ].flatten(2)
    return moved + noise * torch.stack([torch.randn(x.shape[1:], generator=g) for g in generators])


def train(
    draws: str,
    training: Perceptron,
    rule: str,
    splits: list[Split],
    seeds: list[int],
    label: str = "train",
) -> tuple[Parameters, Tensor]:
    """Train replicas under one rule, `dense` for none: the parameters, and the last mask, bool (S, m).

    The draws of a seed are the same under every rule. A random mask is drawn anew at every step: neurons that are always
    masked are always pulled, and take the whole embedding over.
    """
    random = [generator(draws, seed, "training") for seed in seeds]
    parameters = [part.requires_grad_() for part in layers(training, random)]
    of_mask = [generator(draws, seed, "random mask") for seed in seeds]
    optimiser = torch.optim.SGD(
        parameters, lr=training.lr, momentum=training.momentum, weight_decay=training.weight_decay
    )
    mask, mean = torch.zeros(len(seeds), training.m, dtype=torch.bool), None
    for step in progress(range(training.steps), training.steps, label):
        optimiser.param_groups[0]["lr"] = (
            training.lr * (1 + math.cos(math.pi * step / training.steps)) / 2
        )
        x = torch.stack(
            [
                of.long_tailed[torch.randint(len(of.long_tailed), (training.batch,), generator=g)]
                for of, g in zip(splits, random, strict=True)
            ]
        )
        f = respond(
            parameters,
            torch.cat([views(x, training.noise, random), views(x, training.noise, random)], 1),
        )
        if rule != "dense":
            mean = update_running_moments(mean, seen(parameters, f.detach()), step, training.memory)
            draw = torch.stack([torch.rand(training.m, generator=g) for g in of_mask])
            values = -mean.norm if rule == "largest" else compute_score(rule, mean, draw)
            mask = mask_smallest(values, training.alpha)
        optimiser.zero_grad()
        descended(f, mask, training.tau).sum().backward()
        optimiser.step()
    return [part.detach() for part in parameters], mask


def seen(parameters: Parameters, f: Tensor) -> Moments:
    """What scores are read from, of a step: the embeddings of both views, and the norms of the neurons' weights."""
    f_x, f_y = f.chunk(2, dim=1)
    norms = parameters[2].detach().norm(dim=1)
    return batch_moments(f_x, f_y, f_x, torch.zeros(f_x.shape[:2]), norms, norms)


def rows(draws: str, training: Perceptron, rho: float, seeds: list[int]) -> list[dict]:
    """The accuracy of a linear probe on balanced images, by rule, seed and group, and what the rule pruned at the end."""
    splits, found = [split(draws, training, rho, seed) for seed in seeds], []
    for rule in ("dense", *training.rules):
        parameters, mask = train(draws, training, rule, splits, seeds, f"digits rho={rho:g} {rule}")
        for s, (seed, of) in enumerate(zip(seeds, splits, strict=True)):
            own = [part[s : s + 1] for part in parameters]
            f_train, f_test = (respond(own, part[None])[0] for part in (of.train, of.test))
            x, unseen = standardise(f_train, f_test)
            right = (
                predict(unseen, *logistic_probe(x, of.train_labels, CLASSES, training.l2))
                == of.test_labels
            )
            best = torch.stack(
                [f_train[of.train_labels == digit].mean(0) for digit in range(CLASSES)]
            ).argmax(0)
            overlap = of.rare[best[mask[s]]].double().mean().item() if mask[s].any() else math.nan
            rare = of.rare[of.test_labels]
            for group, chosen in (("tail", rare), ("head", ~rare)):
                found.append(
                    {"rho": float(rho), "seed": seed, "rule": rule, "group": group,
                     "accuracy": right[chosen].double().mean().item(), "overlap": overlap}
                )  # fmt: skip
    return found


def digits_of_selection(read: JobInputs, job: Job) -> list[dict]:
    """The stage of one rho and block of seeds, every rule."""
    return rows(
        job.config_section("draws", str),
        job.config_section("training", Perceptron),
        job.cell["rho"],
        job.seed_list,
    )
