"""Lists of training images: long-tailed lists, balanced lists of this size, few-shot lists.

Axes: N images, n images of a list.
"""

import sys
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from rarefeat.errors import RarefeatError
from rarefeat.images.formats import LONG_TAILED_ALREADY, check_n_max, index_file, index_files
from rarefeat.images.input_hashes import check_unchanged
from rarefeat.model.randomness import generator
from rarefeat.workflow.config.images import ImageData
from rarefeat.workflow.run.job import Job
from rarefeat.workflow.run.job_inputs import JobInputs


def long_tailed_counts(n_max: int, rho: float, n_classes: int) -> list[int]:
    """Compute the images of each class: int(n_max rho^(-i / (K - 1))) for i = 0, ..., K - 1.

    This is the usual long-tailed CIFAR, of Cui et al. 2019, Class-Balanced Loss Based on Effective
    Number of Samples.
    """
    # A product such as 49.999999999999993 that stands for 50 must not lose an image.
    counts = [int(n_max * rho ** (-i / (n_classes - 1)) * (1 + 1e-12)) for i in range(n_classes)]
    if not counts[-1]:
        raise RarefeatError(
            f"rho: must be at most {n_max}, so that the smallest class has an image, got {rho:g}"
        )
    return counts


def class_order(namespace: str, seed: int, n_classes: int) -> list[int]:
    """Draw the order of the classes; its k-th entry is the class with the k-th largest count."""
    return torch.randperm(n_classes, generator=generator(namespace, seed, "class order")).tolist()


def long_tailed(
    labels: Int[Tensor, " N"], rho: float, namespace: str, seed: int, n_max: int = 0
) -> Int[Tensor, " n"]:
    """Draw a long-tailed list, as indices of its images.

    Every class is cut from equally many images, so that any can be the largest. The list of a
    larger rho is a subset of that of a smaller one.
    """
    available = torch.bincount(labels)
    check_n_max(n_max, available.tolist())
    counts = torch.zeros_like(available)
    order = class_order(namespace, seed, len(available))
    counts[order] = torch.tensor(
        long_tailed_counts(n_max or int(available.min()), rho, len(available))
    )
    return _draw(labels, counts.tolist(), namespace, seed, "images")


def balanced(labels: Int[Tensor, " N"], size: int, namespace: str, seed: int) -> Int[Tensor, " n"]:
    """Draw a list with equally many images of each class, as many as `size` allows.

    Of each class, its images and those of a long-tailed list of the same seed are nested: one set
    is a subset of the other.
    """
    available = torch.bincount(labels)
    count = min(size // len(available), int(available.min()))
    return _draw(labels, [count] * len(available), namespace, seed, "images")


def few_shot(
    labels: Int[Tensor, " N"], per_class: int, namespace: str, seed: int
) -> Int[Tensor, " n"]:
    """Draw a list of `per_class` images of each class."""
    available = torch.bincount(labels)
    if int(available.min()) < per_class:
        smallest = int(available.argmin())
        count = int(available[smallest])
        raise RarefeatError(
            f"probe.few_shot: must be at most {count}, the images of class {smallest}, got"
            f" {per_class}"
        )
    return _draw(labels, [per_class] * len(available), namespace, seed, "few-shot")


def _draw(
    labels: Int[Tensor, " N"], counts: list[int], namespace: str, seed: int, purpose: str
) -> Int[Tensor, " n"]:
    """Draw the first counts[k] images of a permutation of each class k."""
    stream = generator(namespace, seed, purpose)
    chosen = []
    for label, count in enumerate(counts):
        images = (labels == label).nonzero().squeeze(1)
        chosen.append(images[torch.randperm(len(images), generator=stream)[:count]])
    return torch.cat(chosen).sort().values


def read_indices(path: str | Path, n_images: int) -> Int[Tensor, " n"]:
    """Read the sorted indices of a .npy file."""
    try:
        with open(path, "rb") as file:
            indices = np.lib.format.read_array(file, allow_pickle=False)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "it is no whole .npy file of numbers"
        raise RarefeatError(
            f"cannot read {path}: {reason}; put int64 indices as numpy.save writes them there"
        ) from error
    if indices.dtype != np.int64 or indices.ndim != 1 or not indices.size:
        raise RarefeatError(
            f"{path}: must be one row of int64 indices, got {indices.dtype} of shape"
            f" {indices.shape}"
        )
    indices = np.sort(indices)
    if (outside := indices[(indices < 0) | (indices >= n_images)]).size:
        raise RarefeatError(
            f"{path}: indices must be 0 to {n_images - 1}, those of the training images, got"
            f" {outside[0]}"
        )
    if (repeated := indices[1:][indices[1:] == indices[:-1]]).size:
        raise RarefeatError(f"{path}: indices must be distinct, got {repeated[0]} twice")
    return torch.from_numpy(indices)


def split_indices(
    data: ImageData,
    labels: Int[Tensor, " N"],
    rho: float,
    split: str,
    namespace: str,
    seed: int,
    few_shot_per_class: int,
    listed: int = 0,
) -> dict[str, Int[Tensor, " _"]]:
    """Choose the images of one cell and seed.

    They are drawn, read from index files, or those of a list that is long-tailed already.
    """
    files = data.index_files
    n_classes = int(labels.max()) + 1

    def read(name: str) -> Int[Tensor, " n"]:
        """Read an index file of the seed, with images of the pool of every class."""
        path = index_file(data, name, seed)
        indices = read_indices(path, len(labels))
        if outside := sorted(set(indices.tolist()) - set(pool.tolist())):
            raise RarefeatError(
                f"{path}: indices must be in data.index_files.pool, {files.pool}, got {outside[0]}"
            )
        check_classes(labels[indices], n_classes, str(path), f", or {OTHER_ORDER}")
        return indices

    pool = torch.arange(len(labels) - listed)
    if files and files.pool:
        pool = read(files.pool)
    if files:
        tail = read(files.pretrain)
        _check_rho(
            labels[tail], rho, files.pretrain.replace("{seed}", str(seed)), f", or {OTHER_ORDER}"
        )
    elif listed:
        tail = torch.arange(len(pool), len(labels))
        check_classes(labels[tail], n_classes, data.pretrain_list)
        _check_rho(labels[tail], rho, data.pretrain_list)
    else:
        tail = pool[long_tailed(labels[pool], rho, namespace, seed, data.n_max)]
    pretrain = (
        tail if split == "long_tailed" else pool[balanced(labels[pool], len(tail), namespace, seed)]
    )
    few = (
        read(files.few_shot)
        if files and files.few_shot
        else pool[few_shot(labels[pool], few_shot_per_class, namespace, seed)]
    )
    return {
        "pool": pool,
        "pretrain": pretrain,
        "few_shot": few,
        "class_order": torch.bincount(labels[tail]).argsort(descending=True, stable=True),
        "counts": torch.bincount(labels[pretrain]),
    }


def check_classes(labels: Int[Tensor, " n"], n_classes: int, name: str, hint: str = "") -> None:
    """Raise RarefeatError for a list without an image of some class."""
    if (empty := (torch.bincount(labels, minlength=n_classes) == 0).nonzero()).numel():
        raise RarefeatError(
            f"{name}: class {int(empty[0])} has no image; every class needs one at least{hint}"
        )


OTHER_ORDER = (
    "the list may be made for another order of the images: SDCLR's lists count those of the"
    " archive, format cifar_batches, and a Parquet file may be sorted by class"
)


def _check_rho(labels: Int[Tensor, " n"], rho: float, name: str, hint: str = "") -> None:
    """Raise RarefeatError for a rho that a list was not made with; 450 / 100 may be 4."""
    counts = torch.bincount(labels)
    largest, smallest = int(counts.max()), int(counts.min())
    if int(largest / rho) != smallest and abs(largest / smallest / rho - 1) > 0.02:
        ratio = f"{name}, {largest} / {smallest} = {largest / smallest:.4g}"
        raise RarefeatError(f"rho: must be that of the classes of {ratio}, got {rho:g}{hint}")


def stage(
    inputs: JobInputs, job: Job, draws: str, data: ImageData, few_shot: int
) -> dict[str, Tensor]:
    """Choose the images of each seed of a block."""
    labels, listed = inputs.file("images").tensors("train_labels", "listed")
    rho, split = job.cell["rho"], job.cell["split"]
    least, most = torch.bincount(labels).aminmax()
    if most >= 2 * least and not (data.n_max or data.index_files or listed):
        told = f"every class is cut to {least} images, as the smallest has; the largest has {most}"
        print(f"{told}. {LONG_TAILED_ALREADY}", file=sys.stderr)
    tensors = {}
    for seed in job.seed_list:
        lists = split_indices(data, labels, rho, split, draws, seed, few_shot, int(listed))
        tensors |= {f"{seed}/{name}": indices for name, indices in lists.items()}
    check_unchanged(job, "lists", index_files(data, job.seed_list))
    return tensors
