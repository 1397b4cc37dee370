"""Masks of neurons on long-tailed digits: a perceptron that is trained with NT-Xent.

The numbers of a replica do not depend on the others.
Purposes of the random streams, in the namespace `draws`: split, training, random mask.
Axes: S replicas, n images, B images of a batch, m neurons, v = 2 B views.
"""

import math
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from sklearn.datasets import load_digits
from torch import Tensor
from torch.nn import functional

from rarefeat.images.evaluation import logistic_probe, predict, standardise
from rarefeat.model.activation_moments import Moments, batch_moments, update_running_moments
from rarefeat.model.batch_invariant import matmul
from rarefeat.model.pruning import mask_smallest
from rarefeat.model.randomness import generator
from rarefeat.studies.selection.config import Perceptron
from rarefeat.studies.selection.scores import compute_score
from rarefeat.training.perceptrons import Parameters, forward, initial_parameters
from rarefeat.workflow.run.cli_helpers import progress

SIDE, CLASSES = 8, 10


class Split(NamedTuple):
    """Digits of one seed, as pixels in [0, 1] minus their mean."""

    long_tailed: Float[Tensor, "n 64"]
    """Training images; 1 / rho of the images of every rare digit."""
    train: Float[Tensor, "n_train 64"]
    """All training images, on which the probe is fitted."""
    train_labels: Int[Tensor, " n_train"]
    test: Float[Tensor, "n_test 64"]
    test_labels: Int[Tensor, " n_test"]
    rare: Bool[Tensor, " 10"]
    """True for rare digits."""


def split_digits(draws: str, training: Perceptron, rho: float, seed: int) -> Split:
    """Split the images for one seed, and draw which digits are rare."""
    bunch = load_digits()
    random = generator(draws, seed, "split")
    pixels, label = torch.from_numpy(bunch.data).float() / 16, torch.from_numpy(bunch.target).long()
    order = torch.randperm(len(label), generator=random)
    x, y = (pixels - pixels.mean())[order], label[order]
    train, test = slice(None, training.train), slice(training.train, None)
    rare = torch.zeros(CLASSES, dtype=torch.bool)
    rare[torch.randperm(CLASSES, generator=random)[: training.tail]] = True
    is_used = torch.ones(training.train, dtype=torch.bool)
    for digit in rare.nonzero().flatten().tolist():
        indices = (y[train] == digit).nonzero().flatten()
        is_used[indices[max(1, round(len(indices) / rho)) :]] = False
    return Split(x[train][is_used], x[train], y[train], x[test], y[test], rare)


def embed_images(parameters: Parameters, x: Float[Tensor, "S n 64"]) -> Float[Tensor, "S n m"]:
    """Compute the activations of the neurons."""
    return torch.relu(forward(parameters, x))


def logits(f: Float[Tensor, "S v m"], tau: float) -> Float[Tensor, "S v v"]:
    """Compute cosines over tau of all views with each other, -inf of a view with itself."""
    z = functional.normalize(f, dim=-1)
    is_same = torch.eye(f.shape[1], dtype=torch.bool)
    return (matmul(z, z.mT) / tau).masked_fill(is_same, -torch.inf)


def masked_objective(
    f: Float[Tensor, "S v m"], mask: Bool[Tensor, "S m"], tau: float
) -> Float[Tensor, " S"]:
    """Compute what has the gradient of NT-Xent (images/nt_xent.py) under a mask, eq. (5)."""
    n_views = f.shape[1]
    positive = torch.arange(n_views).roll(n_views // 2)
    with torch.no_grad():
        weights = logits(f.masked_fill(mask[:, None], 0.0), tau).softmax(-1)
    dense = logits(f, tau)
    attracted = dense[:, torch.arange(n_views), positive]
    return ((weights * dense.masked_fill(weights == 0, 0.0)).sum(-1) - attracted).mean(-1)


def views(
    x: Float[Tensor, "S n 64"], noise: float, generators: list[torch.Generator]
) -> Float[Tensor, "S n 64"]:
    """Draw a view of each image: a shift by up to one pixel either way, and noise."""
    images = functional.pad(x.unflatten(-1, (SIDE, SIDE)), (1, 1, 1, 1), value=float(x.min()))
    windows = images.unfold(2, SIDE, 1).unfold(3, SIDE, 1).flatten(2, 3)
    shift = torch.stack([torch.randint(9, (x.shape[1],), generator=rng) for rng in generators])
    index = shift[..., None, None, None].expand(-1, -1, 1, SIDE, SIDE)
    shifted = windows.gather(2, index)[:, :, 0].flatten(2)
    draws = [torch.randn(x.shape[1:], generator=rng) for rng in generators]
    return shifted + noise * torch.stack(draws)


def train(
    draws: str, training: Perceptron, rule: str, splits: list[Split], seeds: list[int],
    label: str = "train",
) -> tuple[Parameters, Bool[Tensor, "S m"]]:  # fmt: skip
    """Train replicas under one rule; return their parameters and the last mask.

    A random mask is drawn at every step: neurons that are always masked would take over.
    """
    random = [generator(draws, seed, "training") for seed in seeds]
    start = initial_parameters([SIDE**2, training.hidden, training.m], random)
    parameters = [tensor.requires_grad_() for tensor in start]
    mask_generators = [generator(draws, seed, "random mask") for seed in seeds]
    rates = {"momentum": training.momentum, "weight_decay": training.weight_decay}
    optimiser = torch.optim.SGD(parameters, lr=training.lr, **rates)
    mask, mean = torch.zeros(len(seeds), training.m, dtype=torch.bool), None
    for step in progress(range(training.steps), training.steps, label):
        cosine = math.cos(math.pi * step / training.steps)
        optimiser.param_groups[0]["lr"] = training.lr * (1 + cosine) / 2
        batch = []
        for images, rng in zip((split.long_tailed for split in splits), random, strict=True):
            batch.append(images[torch.randint(len(images), (training.batch,), generator=rng)])
        first, second = (views(torch.stack(batch), training.noise, random) for _ in range(2))
        f = embed_images(parameters, torch.cat([first, second], 1))
        if rule != "dense":
            moments = measure_moments(parameters, f.detach())
            mean = update_running_moments(mean, moments, step, training.memory)
            draw = torch.stack([torch.rand(training.m, generator=rng) for rng in mask_generators])
            values = -mean.norm if rule == "largest" else compute_score(rule, mean, draw)
            mask = mask_smallest(values, training.alpha)
        optimiser.zero_grad()
        masked_objective(f, mask, training.tau).sum().backward()
        optimiser.step()
    return [tensor.detach() for tensor in parameters], mask


def measure_moments(parameters: Parameters, f: Float[Tensor, "S v m"]) -> Moments:
    """Return the moments of a step, of the embeddings of both views and of the weights."""
    f_x, f_y = f.chunk(2, dim=1)
    norms = parameters[2].detach().norm(dim=1)
    return batch_moments(f_x, f_y, f_x, torch.zeros(f_x.shape[:2]), norms, norms)


def digits_of_selection(
    cell: dict, seeds: list[int], label: str, draws: str, training: Perceptron
) -> list[dict]:
    """Return accuracies on rare and frequent digits of a probe of balanced ones, by rule."""
    rho, rows = float(cell["rho"]), []
    splits = [split_digits(draws, training, rho, seed) for seed in seeds]
    for rule in ("dense", *training.rules):
        parameters, mask = train(draws, training, rule, splits, seeds, f"{label} {rule}")
        for s, (seed, images) in enumerate(zip(seeds, splits, strict=True)):
            replica = [tensor[s : s + 1] for tensor in parameters]
            f_train, f_test = (
                embed_images(replica, x[None])[0] for x in (images.train, images.test)
            )
            x_train, x_test = standardise(f_train, f_test)
            probe = logistic_probe(x_train, images.train_labels, CLASSES, training.l2)
            is_right = predict(x_test, *probe) == images.test_labels
            by_digit = [f_train[images.train_labels == digit].mean(0) for digit in range(CLASSES)]
            best, overlap = torch.stack(by_digit).argmax(0), math.nan
            if mask[s].any():
                overlap = images.rare[best[mask[s]]].double().mean().item()
            keys, is_rare = {"rho": rho, "seed": seed}, images.rare[images.test_labels]
            for group, chosen in (("tail", is_rare), ("head", ~is_rare)):
                accuracy = is_right[chosen].double().mean().item()
                found = {"group": group, "accuracy": accuracy, "overlap": overlap}
                rows.append(keys | {"rule": rule} | found)
    return rows
