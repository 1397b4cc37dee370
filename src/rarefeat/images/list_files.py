"""List files of a folder of images with a subfolder for each class.

Image studies with the format `image_folder` read them.
"""

from pathlib import Path

from PIL import Image

from rarefeat.errors import RarefeatError
from rarefeat.images.formats import IMAGE_FORMATS, entries
from rarefeat.workflow.files.sealed_files import write_file

PARTS = ("train", "test")
LONG_TAIL = 2.0
"""Largest over smallest class from which a folder may be long-tailed already."""
FEW_POINTS = 0.02
"""Standard error of an accuracy of one half from which a test set is called small."""


def class_images(folder: Path) -> dict[str, list[Path]]:
    """List the images of each class by the name of its subfolder, both in order.

    Images have a suffix of IMAGE_FORMATS; hidden files and folders are left out.
    """
    kinds = Image.registered_extensions().items()
    suffixes = {suffix for suffix, kind in kinds if kind in IMAGE_FORMATS}
    images_of = {}
    for subfolder in sorted(
        path for path in folder.iterdir() if path.is_dir() and not path.name.startswith(".")
    ):
        visible = (
            path
            for path in subfolder.rglob("*")
            if not any(name.startswith(".") for name in path.relative_to(subfolder).parts)
        )
        if images := sorted(
            path for path in visible if path.suffix.lower() in suffixes and path.is_file()
        ):
            images_of[subfolder.name] = images
    return images_of


def split(folder: Path, every: int) -> tuple[list[str], dict[str, dict[str, list[Path]]]]:
    """List the classes, and their training and test images."""
    if not folder.is_dir():
        raise RarefeatError(
            f"{folder} is not a folder; make it, with a subfolder of images for each class"
        )
    if all((folder / name).is_dir() for name in PARTS):
        images = {name: class_images(folder / name) for name in PARTS}
    else:
        images_of = class_images(folder)
        # A class may be called train; then its images lie in it.
        lonely = next(
            (
                name
                for name in PARTS
                if name in images_of
                and (folder / name) not in {file.parent for file in images_of[name]}
            ),
            "",
        )
        if lonely:
            other = PARTS[lonely == PARTS[0]]
            raise RarefeatError(
                f"{folder}: it has a folder {lonely} with subfolders, and none named {other}; both"
                " are needed, or neither"
            )
        images = {
            "train": {
                name: [file for i, file in enumerate(files, 1) if i % every]
                for name, files in images_of.items()
            },
            "test": {name: files[every - 1 :: every] for name, files in images_of.items()},
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
    return names, images


def format_list(folder: Path, names: list[str], classes: dict[str, list[Path]]) -> str:
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
        names, images = split(folder, every)
    except OSError as error:
        raise RarefeatError(f"cannot read {error.filename}: {error.strerror}") from error
    paths = {name: folder / f"{name}.txt" for name in PARTS}
    if existing := [path for path in paths.values() if path.exists()]:
        raise RarefeatError(f"{existing[0]} exists already; delete it to have another one written")
    texts = {name: format_list(folder, names, classes) for name, classes in images.items()}
    for name, text in texts.items():
        write_file(paths[name], text)
    lines = []
    for label, name in enumerate(names):
        counts = [len(images[part_name][name]) for part_name in PARTS]
        lines.append(f"label {label}: {name}, {counts[0]} training and {counts[1]} test images")
    lines += describe_sizes(*([len(images[name][label]) for label in names] for name in PARTS))
    listed = {
        file for classes in images.values() for files in classes.values() for file in files
    } | set(paths.values())
    if unlisted := sorted(
        path for path in folder.rglob("*") if path.is_file() and path not in listed
    ):
        first = str(unlisted[0].relative_to(folder))
        lines.append(f"{len(unlisted)} other files are in no list, {first!r} the first")
    return lines


def describe_sizes(train: list[int], test: list[int]) -> list[str]:
    """Return what a user should know of the sizes of the classes before the first job."""
    lines = []
    ratio = max(train) / min(train)
    if ratio >= LONG_TAIL:
        lines.append(
            f"the largest class has {ratio:.3g} times the training images of the smallest; to train"
            f" on them as they are, say pretrain_list: train.txt, rho: [{ratio:.3g}] and"
            " balanced_arms: []"
        )
    error = 0.5 / sum(test) ** 0.5
    if error > FEW_POINTS:
        lines.append(
            f"with {sum(test)} test images an accuracy has a standard error of up to"
            f" {100 * error:.1f} points"
        )
    return lines
