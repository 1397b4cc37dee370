"""Stage 1 of the image studies: the pixels and labels of a data set in one file.

The forms in which data sets are distributed are in formats.py.
"""

import hashlib
import sys
from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from rarefeat.errors import RarefeatError
from rarefeat.images.formats import (
    READERS,
    ImagePart,
    check_labels,
    check_range,
    in_pixels,
    input_files,
)
from rarefeat.images.input_hashes import check_unchanged, stat_files
from rarefeat.workflow.config.images import ImageData
from rarefeat.workflow.run.job import Job

CIFAR_100 = (50_000, 10_000, 26)
"""Training images, test images, and copies of CIFAR-100 as it is published.

14 training images are copies of others, 9 of them in another class; 2 test images are copies of
others, and 10 test images are training images. CIFAR-10 has no copy.
"""


def read_images(data: ImageData) -> dict[str, Tensor]:
    """Read a data set, select its classes and renumber their labels."""
    train, test = READERS[data.format](data)
    check_labels(data, train, test)
    # A missing file is reported before any is decoded.
    if data.format == "image_folder":
        stat_files([*train.files, *test.files])
    classes = data.classes or np.unique(train.labels).tolist()
    tensors, names, largest, wrong = {"listed": torch.tensor(train.listed)}, [], {}, []
    for name, image_part in {"train": train, "test": test}.items():
        labels = np.full(len(image_part.labels), -1)
        for new, old in enumerate(classes):
            labels[image_part.labels == old] = new
        rows = np.flatnonzero(labels >= 0)
        try:
            images, values = image_part.decode(rows)
        except RarefeatError as error:
            wrong.append(str(error))
            continue
        largest = {top: max(largest.get(top, 0), values.get(top, 0)) for top in largest | values}
        tensors[name] = torch.from_numpy(images)
        tensors[f"{name}_labels"] = torch.from_numpy(labels[rows])
        names += [(image_part, row) for row in rows]
    if wrong:
        raise RarefeatError("; ".join(wrong))
    check_range(largest, data.white)
    sides, test_sides = (tuple(tensors[name].shape[2:]) for name in ("train", "test"))
    if test_sides != sides:
        raise RarefeatError(
            f"{test.source}: {in_pixels(test_sides)}, but the training images have"
            f" {in_pixels(sides)}"
        )
    if not data.copies:
        check_copies(tensors, names)
    if data.sha256 and (digest := content_hash(tensors)) != data.sha256:
        raise RarefeatError(
            f"data.sha256: the images and labels in {data.folder or train.source} have {digest};"
            " replace damaged files, or set data.sha256 to this hash"
        )
    return tensors


def copies(tensors: dict[str, Tensor]) -> Iterator[tuple[int, int]]:
    """Yield each image that equals another one to the last pixel, with that other.

    The training images and those of a list that is pretrained on may share some, as long as their
    labels are the same.
    """
    train, listed = len(tensors["train"]), int(tensors["listed"])
    labels = torch.cat([tensors["train_labels"], tensors["test_labels"]]).tolist()
    first_rows: dict[tuple[bytes, bool], int] = {}
    for row, label in enumerate(labels):
        image = tensors["train"][row] if row < train else tensors["test"][row - train]
        key = hashlib.blake2b(image.numpy().tobytes(), digest_size=16).digest()
        in_list = train - listed <= row < train
        same_side = first_rows.setdefault((key, in_list), row)
        other_side = first_rows.get((key, not in_list), row)
        if same_side < row:
            yield row, same_side
        elif other_side < row and (row >= train or labels[other_side] != label):
            yield row, other_side


def check_copies(tensors: dict[str, Tensor], names: list[tuple[ImagePart, int]]) -> None:
    """Raise RarefeatError if images are copies of others, except for those of CIFAR-100."""
    pairs = list(copies(tensors))
    if (len(tensors["train"]), len(tensors["test"]), len(pairs)) == CIFAR_100:
        message = f"{len(pairs)} images are copies of others, as CIFAR-100 is published"
        print(message, file=sys.stderr)
    elif pairs:
        copy_name, other_name = (
            image_part.names(row) for image_part, row in (names[index] for index in pairs[0])
        )
        raise RarefeatError(
            f"{copy_name}: the same image as {other_name}; {len(pairs)} of {len(names)} images are"
            " copies; take them out, or say data.copies: true to take them as they are"
        )


def content_hash(tensors: dict[str, Tensor]) -> str:
    """Hash images and labels, in whatever form they were distributed."""
    digest = hashlib.sha256()
    for name, tensor in sorted(tensors.items()):
        digest.update(f"{name} {list(tensor.shape)}".encode())
        digest.update(tensor.contiguous().numpy())
    return digest.hexdigest()


def stage(job: Job, data: ImageData) -> dict[str, Tensor]:
    """Return the images of a study, and print their hash."""
    tensors = read_images(data)
    check_unchanged(job, "contents", input_files(data))
    print(f"data.sha256: {content_hash(tensors)}", file=sys.stderr)
    return tensors
