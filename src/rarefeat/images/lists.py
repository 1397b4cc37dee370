"""List files of a folder of images with a subfolder for each class, as an image study reads them."""

import argparse
from pathlib import Path

from PIL import Image

from rarefeat.core.errors import RarefeatError
from rarefeat.run.command import run
from rarefeat.storage.files import replacing

PARTS = ("train", "test")


def class_images(folder: Path) -> dict[str, list[Path]]:
    """The images of each class by the name of its subfolder, both in order; what is no image by its suffix is left out."""
    suffixes = Image.registered_extensions()
    found = {}
    for place in sorted(path for path in folder.iterdir() if path.is_dir() and not path.name.startswith(".")):
        if images := sorted(path for path in place.rglob("*") if path.suffix.lower() in suffixes and path.is_file()):
            found[place.name] = images
    return found


def split(folder: Path, every: int) -> tuple[list[str], dict[str, dict[str, list[Path]]]]:
    """Names of the classes, label 0 first, and their training and test images.

    Args:
        folder: with a subfolder for each class, or with the folders train and test that have these.
        every: of each class each such image is a test image, where there are no folders train and test.

    Raises:
        RarefeatError: fewer than two classes, or one without training or test images.
    """
    if not folder.is_dir():
        raise RarefeatError(f"{folder} is no folder; it is to have a subfolder of images for each class")
    if all((folder / part).is_dir() for part in PARTS):
        parts = {part: class_images(folder / part) for part in PARTS}
    else:
        found = class_images(folder)
        parts = {
            "train": {name: [file for i, file in enumerate(files, 1) if i % every] for name, files in found.items()},
            "test": {name: files[every - 1 :: every] for name, files in found.items()},
        }
    names = sorted({*parts["train"], *parts["test"]})
    if len(names) < 2:
        raise RarefeatError(f"{folder}: two subfolders with images at least are needed, one for each class, got {len(names)}")
    for part, classes in parts.items():
        if empty := [name for name in names if not classes.get(name)]:
            raise RarefeatError(f"{folder}: the class {empty[0]} has no {part} image; every class needs some")
    return names, parts


def main() -> None:
    """Write train.txt and test.txt into the folder, a line `path label` for each image, and say which label is which class."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="with a subfolder for each class, or with train/ and test/ that have these")
    parser.add_argument("--every", type=int, default=5, metavar="N", help="each N-th image of a class is a test image")
    args = parser.parse_args()
    if args.every < 2:
        raise RarefeatError(f"--every: must be 2 or more, got {args.every}")
    names, parts = split(args.folder, args.every)
    paths = {part: args.folder / f"{part}.txt" for part in PARTS}
    if there := [path for path in paths.values() if path.exists()]:
        raise RarefeatError(f"{there[0]} is there already; delete it to have another one written")
    for part, classes in parts.items():
        lines = [f"{file.relative_to(args.folder)} {label}\n" for label, name in enumerate(names) for file in classes[name]]
        with replacing(paths[part]) as temporary:
            temporary.write_text("".join(lines), encoding="utf-8")
    for label, name in enumerate(names):
        print(f"label {label}: {name}, {len(parts['train'][name])} training and {len(parts['test'][name])} test images")


if __name__ == "__main__":
    run(main)
