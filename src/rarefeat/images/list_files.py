"""List files of a folder of images with a subfolder for each class.

Image studies with the format `image_folder` read them.
"""

import os
import re
from collections import Counter
from pathlib import Path

from PIL import Image

from rarefeat.errors import RarefeatError
from rarefeat.images.formats import (
    IMAGE_FORMATS,
    describe_range,
    opened,
    pixel_values,
    top_value,
)
from rarefeat.workflow.files.sealed_files import write_file
from rarefeat.workflow.run.cli_helpers import progress

Images = dict[str, list[Path]]
"""The image files of each class."""

PARTS = ("train", "test")
LONG_TAIL = 2.0
"""Largest over smallest class from which a folder may be long-tailed already."""


def scan(folder: Path) -> tuple[list[Path], list[Path]]:
    """List the images below a folder, by their suffix, and its other files but the hidden ones."""
    kinds = Image.registered_extensions().items()
    suffixes = {suffix for suffix, kind in kinds if kind in IMAGE_FORMATS}
    found: dict[bool, list[Path]] = {True: [], False: []}

    def fail(error: OSError) -> None:
        raise error

    for root, subfolders, names in os.walk(folder, followlinks=True, onerror=fail):
        subfolders[:] = [name for name in subfolders if not name.startswith(".")]
        for path in (Path(root, name) for name in names if not name.startswith(".")):
            found[path.suffix.lower() in suffixes and path.is_file()].append(path)
    return sorted(found[True]), sorted(found[False])


def part_of(name: str) -> str:
    """Return train, test or val for a folder that is called so, in whatever spelling."""
    letters = re.sub("[^a-z]", "", name.lower())
    found = re.fullmatch("(train|test|val)(ing|id|idation)?(set|data|images|split)?", letters)
    return found[1] if found else ""


def find_parts(folder: Path, images: list[Path]) -> dict[str, str]:
    """Return the subfolders train and test; none for classes, RarefeatError if either is meant."""
    below: dict[str, set[str]] = {}
    for first, *inner in filter(None, (path.relative_to(folder).parts[:-1] for path in images)):
        below.setdefault(first, set()).update(inner[:1])
    parts = {name: part for name in below if (part := part_of(name))}
    nested = [part for name, part in parts.items() if below[name]]
    if nested.count("train") == nested.count("test") == 1:
        return {part: name for name, part in parts.items() if below[name] and part in PARTS}
    counts = Counter(inner for names in below.values() for inner in names)
    shared = {inner for inner, count in counts.items() if count > 1}
    alike = [name for name, names in below.items() if len(names & shared) > 1]
    unclear = list(parts) if nested or len(set(parts.values())) > 1 else alike
    if unclear:
        raise RarefeatError(
            f"{folder}: {', '.join(unclear[:3])} may be parts of a data set or classes; call two"
            " parts train and test, each with a subfolder for each class; give classes other names"
            " than train, test and val, and put their images into one folder each"
        )
    return {}


def split(folder: Path, every: int) -> tuple[list[str], dict[str, Images], list[Path]]:
    """List the classes, their training and test images, and the files that are in neither."""
    if not folder.is_dir():
        raise RarefeatError(
            f"{folder} is not a folder; make it, with a subfolder of images for each class"
        )
    found, others = scan(folder)
    parts = find_parts(folder, found)
    images_of: dict[str, Images] = {name: {} for name in parts.values() or [""]}
    for path in found:
        place = ("",) * (not parts) + path.relative_to(folder).parts[:-1]
        if len(place) > 1 and place[0] in images_of:
            images_of[place[0]].setdefault(place[1], []).append(path)
        else:
            others.append(path)
    if parts:
        images = {part: images_of[parts[part]] for part in PARTS}
    else:
        images = {
            "train": {
                name: [file for i, file in enumerate(files, 1) if i % every]
                for name, files in images_of[""].items()
            },
            "test": {name: files[every - 1 :: every] for name, files in images_of[""].items()},
        }
    names = sorted({*images["train"], *images["test"]})
    if len(names) < 2:
        raise RarefeatError(
            f"{folder}: must have two subfolders with images at least, one for each class, got"
            f" {len(names)}"
        )
    for part_name, classes in images.items():
        if empty := [name for name in names if not classes.get(name)]:
            raise RarefeatError(
                f"{folder}: the class {empty[0]} has no {part_name} image; every class needs some"
            )
    return names, images, others


def write_lists(folder: Path, every: int) -> list[str]:
    """Write train.txt and test.txt into a folder, a line `path label` for each image.

    Each `every`-th image is a test image; the lines that it returns say which label is which class.
    """
    try:
        names, images, others = split(folder, every)
    except OSError as error:
        raise RarefeatError(f"cannot read {error.filename}: {error.strerror}") from error
    paths = {name: folder / f"{name}.txt" for name in PARTS}
    if existing := [path for path in paths.values() if path.exists()]:
        raise RarefeatError(f"{existing[0]} exists already; delete it to have another one written")
    files = [file for classes in images.values() for listed in classes.values() for file in listed]
    largest = largest_values(files)
    for name, classes in images.items():
        lines = (
            f"{file.relative_to(folder)} {label}\n"
            for label, class_name in enumerate(names)
            for file in classes[class_name]
        )
        write_file(paths[name], "".join(lines))
    counts = [[len(images[part][name]) for part in PARTS] for name in names]
    told = [
        f"label {label}: {name}, {train} training and {test} test images"
        for label, (name, (train, test)) in enumerate(zip(names, counts, strict=True))
    ]
    told += [describe_range(top, value) for top, value in sorted(largest.items())]
    sizes = [train for train, _ in counts]
    ratio = max(sizes) / min(sizes)
    if ratio >= LONG_TAIL:
        told.append(
            f"the largest class has {ratio:.3g} times the training images of the smallest; to train"
            f" on them as they are, say pretrain_list: train.txt, rho: [{ratio:.3g}] and"
            " balanced_arms: []"
        )
    if others:
        examples = ", ".join(repr(str(path.relative_to(folder))) for path in others[:10])
        told.append(f"{len(others)} files are in no list, as {examples}")
    return told


def largest_values(files: list[Path]) -> dict[int, int]:
    """Return the largest value of images, by the largest that their bits hold."""
    largest: dict[int, int] = {}
    for file in progress(files, len(files), "images"):
        with opened(str(file), str(file)) as image:
            top = top_value(image)
            # Decoding takes long, and is done until an image has the largest value.
            if largest.setdefault(top, 0) < top:
                largest[top] = max(largest[top], int(pixel_values(image).max()))
    return largest
