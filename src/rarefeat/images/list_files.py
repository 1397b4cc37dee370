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
    entries,
    opened,
    pixel_values,
    top_value,
)
from rarefeat.workflow.files.sealed_files import write_file
from rarefeat.workflow.run.cli_helpers import progress

Images = dict[str, list[Path]]
"""The image files of each class."""

PARTS = ("train", "test")


def scan(folder: Path) -> tuple[list[Path], dict[Path, str]]:
    """List the images below a folder, by their suffix, and why each other file is none."""
    kinds = Image.registered_extensions().items()
    suffixes = {suffix for suffix, kind in kinds if kind in IMAGE_FORMATS}
    images, others = [], {}

    def fail(error: OSError) -> None:
        raise error

    for root, subfolders, names in os.walk(folder, followlinks=True, onerror=fail):
        for path in (Path(root, name) for name in sorted([*subfolders, *names])):
            if path.name.startswith("."):
                others[path] = "hidden"
            elif not path.exists():
                others[path] = "a link to nothing"
            elif path.is_dir():
                if path.is_symlink() and Path(root).resolve().is_relative_to(path.resolve()):
                    others[path] = "a link to a folder that it lies in"
            elif path.suffix.lower() not in suffixes or not path.is_file():
                others[path] = f"no image by the suffix {path.suffix!r}"
            else:
                images.append(path)
        subfolders[:] = [name for name in subfolders if Path(root, name) not in others]
    return sorted(images), others


def part_of(name: str) -> str:
    """Return train, test or val for a folder that is called so, in whatever spelling."""
    letters = re.sub("[^a-z]", "", name.lower())
    found = re.fullmatch("(train|test|val)(ing|id|idation)?(set|data|images|split)?", letters)
    return found[1] if found else ""


def find_parts(folder: Path, images: list[Path]) -> dict[str, str]:
    """Return the subfolders train and test; none for classes, RarefeatError if either is meant."""
    below: dict[str, set[str]] = {}
    for first, *inner in filter(None, (path.relative_to(folder).parts[:-1] for path in images)):
        below.setdefault(first, set()).update(inner)
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


def split(folder: Path, every: int) -> tuple[list[str], dict[str, Images], dict[Path, str]]:
    """List the classes, their training and test images, and why all else is in neither."""
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
            others[path] = "in no folder of a class"
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
    roots = {folder / name for name in images_of}
    read = roots | {root / name for root in roots for name in names}
    for root in {folder, *roots}:
        for path in root.iterdir():
            if path.is_dir() and path not in read:
                others.setdefault(path, "a folder without an image" if root in roots else "no part")
    return names, images, others


def format_list(folder: Path, names: list[str], classes: Images) -> str:
    """Return the text of a list, a line `path label` for each image."""
    lines = []
    for label, name in enumerate(names):
        for file in classes[name]:
            relative = str(file.relative_to(folder))
            lines.append(f"{relative} {label}\n")
            try:
                parsed = [*entries(lines[-1].encode().decode("utf-8-sig"), "")]
            except (UnicodeEncodeError, RarefeatError):
                parsed = []
            if parsed != [(1, relative, label)]:
                reason = "it is not UTF-8, begins with a space, or has a line break"
                raise RarefeatError(
                    f"{folder}: {relative!r} cannot stand in a list: {reason}; rename it"
                )
    return "".join(lines)


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
    texts = {name: format_list(folder, names, classes) for name, classes in images.items()}
    files = [file for classes in images.values() for listed in classes.values() for file in listed]
    largest = largest_values(files)
    for name, text in texts.items():
        write_file(paths[name], text)
    lines = []
    for label, name in enumerate(names):
        counts = [len(images[part_name][name]) for part_name in PARTS]
        lines.append(f"label {label}: {name}, {counts[0]} training and {counts[1]} test images")
    lines += [describe_range(top, value) for top, value in sorted(largest.items())]
    return lines + describe_others(folder, others)


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


def describe_others(folder: Path, others: dict[Path, str]) -> list[str]:
    """Say of each folder and file that is in no list why it is not; ten files for each reason."""
    names: dict[tuple[str, bool], list[str]] = {}
    for path, reason in sorted(others.items()):
        names.setdefault((reason, path.is_dir()), []).append(repr(str(path.relative_to(folder))))
    return [
        f"in no list, {len(found)} as {reason}: {', '.join(found if are_folders else found[:10])}"
        for (reason, are_folders), found in names.items()
    ]
