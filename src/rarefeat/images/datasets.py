"""Stage 1 of the image studies: the pixels and labels of a data set in one file, whatever form it is distributed in."""

import hashlib
import sys
from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from rarefeat.config.images import ImageData
from rarefeat.core.errors import RarefeatError
from rarefeat.images.formats import READERS, ImagePart, in_pixels, inputs, refuse_labels
from rarefeat.images.input_hashes import refuse_changed, stat_files
from rarefeat.run.job import Job
from rarefeat.run.job_inputs import JobInputs

CIFAR_100 = (50_000, 10_000, 26)
"""Training images, test images, and copies among them as it is published: 14 training images are others once more, 9 of them in
another class, 2 test images likewise, and 10 test images are training images. CIFAR-10 has no copy."""


def read_images(data: ImageData) -> dict[str, Tensor]:
    """JobInputs, select and renumber.

    Returns:
        train (N, 3, H, W) in uint8, train_labels (N,) in int64 with the values 0 to K - 1, test and test_labels likewise;
        listed (), how many of the last training images are those of data.pretrain_list.

    Raises:
        RarefeatError: files are missing, damaged or of another form, the labels are not 0 to K - 1, a class has no test image
            or fewer than data.n_max, an image is there twice, or what was read is not what data.sha256 says.
    """
    train, test = READERS[data.format](data)
    refuse_labels(data, train, test)
    if data.format == "image_folder":  # before any is decoded
        stat_files([*train.files, *test.files])
    kept = data.classes or np.unique(train.labels).tolist()
    tensors, names = {"listed": torch.tensor(train.listed)}, []
    for name, part in {"train": train, "test": test}.items():
        labels = np.full(len(part.labels), -1)
        for new, old in enumerate(kept):
            labels[part.labels == old] = new
        rows = np.flatnonzero(labels >= 0)
        tensors[name] = torch.from_numpy(part.decode(rows))
        tensors[f"{name}_labels"] = torch.from_numpy(labels[rows])
        names += [(part, row) for row in rows]
    sides, test_sides = (tuple(tensors[name].shape[2:]) for name in ("train", "test"))
    if test_sides != sides:
        raise RarefeatError(
            f"{test.source}: {in_pixels(test_sides)}, but the training images have {in_pixels(sides)}"
        )
    if not data.copies:
        refuse_copies(tensors, names)
    if data.sha256 and (found := content_hash(tensors)) != data.sha256:
        raise RarefeatError(
            f"data.sha256: the images and labels in {data.folder or train.source} have {found}; replace damaged files, or set "
            "data.sha256 to this hash"
        )
    return tensors


def copies(tensors: dict[str, Tensor]) -> Iterator[tuple[int, int]]:
    """Each image that is another one to the last pixel, with that other: rows, those of the test images after all others.

    The training images and those of a list that is pretrained on may share some, as long as their labels are the same.
    """
    train, listed = len(tensors["train"]), int(tensors["listed"])
    labels = torch.cat([tensors["train_labels"], tensors["test_labels"]]).tolist()
    seen: dict[tuple[bytes, bool], int] = {}
    for row, label in enumerate(labels):
        image = tensors["train"][row] if row < train else tensors["test"][row - train]
        key = hashlib.blake2b(image.numpy().tobytes(), digest_size=16).digest()
        of_list = train - listed <= row < train
        here, there = seen.setdefault((key, of_list), row), seen.get((key, not of_list), row)
        if here < row:
            yield row, here
        elif there < row and (row >= train or labels[there] != label):
            yield row, there


def refuse_copies(tensors: dict[str, Tensor], names: list[tuple[ImagePart, int]]) -> None:
    """Refuse copies, but for those of CIFAR-100; names: part and row in it of each image, the test images last."""
    found = list(copies(tensors))
    train, labels = (
        len(tensors["train"]),
        torch.cat([tensors["train_labels"], tensors["test_labels"]]).tolist(),
    )
    if (train, len(tensors["test"]), len(found)) == CIFAR_100:
        print(
            f"{len(found)} images are copies of others, as CIFAR-100 is published", file=sys.stderr
        )
    elif found:

        def wrong(row: int, other: int) -> tuple[bool, bool]:
            """What hurts most first."""
            return (row >= train) != (other >= train), labels[row] != labels[other]

        row, other = max(found, key=lambda pair: wrong(*pair))
        trained_on, in_two_classes = wrong(row, other)
        one, before = (part.names(place) for part, place in (names[row], names[other]))
        how = ", which is trained on" * trained_on + ", in another class" * in_two_classes
        raise RarefeatError(
            f"{one}: the same image as {before}{how}; {len(found)} of {len(labels)} images are copies; take them out, or say"
            " data.copies: true to take them as they are"
        )


def content_hash(tensors: dict[str, Tensor]) -> str:
    """Of images and labels, whatever form they were distributed in."""
    hashed = hashlib.sha256()
    for name, tensor in sorted(tensors.items()):
        hashed.update(f"{name} {list(tensor.shape)}".encode())
        hashed.update(tensor.contiguous().numpy())
    return hashed.hexdigest()


def stage(read: JobInputs, job: Job) -> dict[str, Tensor]:
    """The stage; it says the hash of what it has read."""
    data = job.config_section("data", ImageData)
    tensors = read_images(data)
    refuse_changed(job, "contents", inputs(data))
    print(f"data.sha256: {content_hash(tensors)}", file=sys.stderr)
    return tensors
