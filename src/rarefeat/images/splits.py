"""Which training images are pretrained on: long-tailed lists, balanced lists of the same size, few-shot lists."""

from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from rarefeat.config.images import ImageData
from rarefeat.core.errors import RarefeatError
from rarefeat.core.randomness import generator
from rarefeat.images.formats import index_file, index_files, refuse_n_max
from rarefeat.images.input_hashes import refuse_changed
from rarefeat.run.job import Job
from rarefeat.run.job_inputs import JobInputs


def long_tailed_counts(n_max: int, rho: float, classes: int) -> list[int]:
    """Images of each class by decreasing count, int(n_max rho^(-i / (K - 1))) for i = 0, ..., K - 1.

    Cui et al. 2019, Class-Balanced Loss Based on Effective Number of Samples, the usual long-tailed CIFAR.

    Args:
        n_max: images of the largest class. rho: largest over smallest class, 1 or more. classes: K, 2 or more.

    Raises:
        RarefeatError: rho leaves a class without an image.
    """
    # A product such as 49.999999999999993 that stands for 50 must not lose an image.
    counts = [int(n_max * rho ** (-i / (classes - 1)) * (1 + 1e-12)) for i in range(classes)]
    if not counts[-1]:
        raise RarefeatError(
            f"rho: {rho:g} leaves the smallest class without an image; at most {n_max} is allowed"
        )
    return counts


def class_order(study: str, seed: int, classes: int) -> list[int]:
    """A permutation of the classes; its k-th entry is the class with the k-th largest count."""
    return torch.randperm(classes, generator=generator(study, seed, "class order")).tolist()


def long_tailed(labels: Tensor, rho: float, study: str, seed: int, n_max: int = 0) -> Tensor:
    """A long-tailed list, sorted indices (n,) into labels (N,), which has every value of 0 to K - 1.

    Every class is cut from equally many images, so that any can be the largest. The list of a larger rho is a subset of that
    of a smaller one.

    Args:
        n_max: images of the largest class; 0 for as many as the smallest class has.

    Raises:
        RarefeatError: rho leaves a class without an image, or a class has fewer than n_max.
    """
    available = torch.bincount(labels)
    refuse_n_max(n_max, available.tolist())
    counts = torch.zeros_like(available)
    order = class_order(study, seed, len(available))
    counts[order] = torch.tensor(
        long_tailed_counts(n_max or int(available.min()), rho, len(available))
    )
    return _draw(labels, counts.tolist(), study, seed, "images")


def balanced(labels: Tensor, size: int, study: str, seed: int) -> Tensor:
    """A list of at most `size` images, as many as possible of each class and equally many, sorted indices into labels (N,).

    Its images of a class and those of a long-tailed list of the same seed are one a subset of the other.
    """
    available = torch.bincount(labels)
    count = min(size // len(available), int(available.min()))
    return _draw(labels, [count] * len(available), study, seed, "images")


def few_shot(labels: Tensor, per_class: int, study: str, seed: int) -> Tensor:
    """A list of `per_class` images of each class, sorted indices into labels (N,).

    Raises:
        RarefeatError: a class has fewer.
    """
    available = torch.bincount(labels)
    if int(available.min()) < per_class:
        smallest = int(available.argmin())
        count = int(available[smallest])
        raise RarefeatError(
            f"probe.few_shot: {per_class} images per class, but class {smallest} has {count}; at most {count}"
        )
    return _draw(labels, [per_class] * len(available), study, seed, "few-shot")


def _draw(labels: Tensor, counts: list[int], study: str, seed: int, purpose: str) -> Tensor:
    """The first counts[k] images of a permutation of each class k, sorted indices into labels (N,)."""
    draws = generator(study, seed, purpose)
    chosen = []
    for label, count in enumerate(counts):
        images = (labels == label).nonzero().squeeze(1)
        chosen.append(images[torch.randperm(len(images), generator=draws)[:count]])
    return torch.cat(chosen).sort().values


def read_indices(path: str | Path, images: int) -> Tensor:
    """Indices of a .npy file, sorted, (n,) in int64.

    Args:
        path: file of distinct int64 indices, in any order. images: how many there are to point at.

    Raises:
        RarefeatError: the file is missing or damaged, or does not hold distinct indices below `images`.
    """
    try:
        with open(path, "rb") as file:
            indices = np.lib.format.read_array(file, allow_pickle=False)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "it is no whole .npy file of numbers"
        raise RarefeatError(
            f"cannot read {path}: {reason}; put int64 indices as numpy.save writes them there"
        ) from error
    if indices.dtype != np.int64 or indices.ndim != 1 or not indices.size:
        got = f"{indices.dtype} of shape {indices.shape}"
        raise RarefeatError(f"{path}: one row of int64 indices is needed, got {got}")
    indices = np.sort(indices)
    if indices[0] < 0 or indices[-1] >= images:
        wrong = indices[0] if indices[0] < 0 else indices[-1]
        raise RarefeatError(
            f"{path}: index {wrong} is not of the {images} training images; 0 to {images - 1} are allowed"
        )
    if (twice := indices[1:][indices[1:] == indices[:-1]]).size:
        raise RarefeatError(f"{path}: index {twice[0]} is there twice; indices must be distinct")
    return torch.from_numpy(indices)


def split_indices(
    data: ImageData,
    labels: Tensor,
    rho: float,
    split: str,
    study: str,
    seed: int,
    few_shot_per_class: int,
    listed: int = 0,
) -> dict[str, Tensor]:
    """The images of one cell and seed: drawn, read from index files, or those of a list that is long-tailed already.

    Args:
        data: its index files count, and classes and folder with them. labels: (N,), of all training images, 0 to K - 1.
        split: long_tailed or balanced, where balanced has the size of the long-tailed list. few_shot_per_class: images per
            class of the few-shot list, where none is read. listed: the last of the images, if they are such a list.

    Returns:
        int64 indices into labels, sorted: pool, what may be drawn from; pretrain; few_shot. class_order (K,), the classes by
        decreasing count of the long-tailed list, equal ones by number, whatever `split` is. counts (K,), of pretrain.

    Raises:
        RarefeatError: rho or few_shot_per_class asks for too much, or an index file does not suit the images or rho.
    """
    files = data.index_files
    classes = int(labels.max()) + 1

    def read(name: str) -> Tensor:
        path = index_file(data, name, seed)
        indices = read_indices(path, len(labels))
        if outside := sorted(set(indices.tolist()) - set(pool.tolist())):
            raise RarefeatError(
                f"{path}: index {outside[0]} is not in data.index_files.pool, {files.pool}"
            )
        refuse_empty(labels[indices], classes, str(path))
        return indices

    pool = torch.arange(len(labels) - listed)
    if files and files.pool:
        pool = read(files.pool)
    if files:
        tail = read(files.pretrain)
        _check_rho(labels[tail], rho, files.pretrain.replace("{seed}", str(seed)))
    elif listed:
        tail = torch.arange(len(pool), len(labels))
        refuse_empty(labels[tail], classes, data.pretrain_list)
        _check_rho(labels[tail], rho, data.pretrain_list)
    else:
        tail = pool[long_tailed(labels[pool], rho, study, seed, data.n_max)]
    pretrain = (
        tail if split == "long_tailed" else pool[balanced(labels[pool], len(tail), study, seed)]
    )
    few = (
        read(files.few_shot)
        if files and files.few_shot
        else pool[few_shot(labels[pool], few_shot_per_class, study, seed)]
    )
    return {
        "pool": pool,
        "pretrain": pretrain,
        "few_shot": few,
        "class_order": torch.bincount(labels[tail]).argsort(descending=True, stable=True),
        "counts": torch.bincount(labels[pretrain]),
    }


def refuse_empty(labels: Tensor, classes: int, name: str) -> None:
    """Refuse a list without an image of some class."""
    if (empty := (torch.bincount(labels, minlength=classes) == 0).nonzero()).numel():
        raise RarefeatError(
            f"{name}: class {int(empty[0])} has no image; every class needs one at least"
        )


def _check_rho(labels: Tensor, rho: float, name: str) -> None:
    """Refuse a rho that a list was not made with; counts are rounded down, as 450 / 100 to 4."""
    counts = torch.bincount(labels)
    largest, smallest = int(counts.max()), int(counts.min())
    if int(largest / rho) != smallest and abs(largest / smallest / rho - 1) > 0.02:
        ratio = f"{largest} / {smallest} = {largest / smallest:.4g}"
        raise RarefeatError(
            f"rho: {rho:g}, but the classes of {name} have {ratio}; set rho to that"
        )


def stage(read: JobInputs, job: Job) -> dict[str, Tensor]:
    """The stage."""
    data, draws, few_shot = (
        job.config_section("data", ImageData),
        job.config_section("draws", str),
        job.config_section("few_shot", int),
    )
    labels, listed = read.file("images").tensors("train_labels", "listed")
    tensors = {}
    for seed in job.seed_list:
        split = split_indices(
            data, labels, job.cell["rho"], job.cell["split"], draws, seed, few_shot, int(listed)
        )
        tensors |= {f"{seed}/{name}": indices for name, indices in split.items()}
    refuse_changed(job, "lists", index_files(data, job.seed_list))
    return tensors
