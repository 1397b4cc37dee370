"""List files of a folder of images with a subfolder for each class, as an image study reads them."""

import argparse
from pathlib import Path

from PIL import Image

from rarefeat.core.errors import RarefeatError
from rarefeat.images.formats import entries
from rarefeat.run.cli_helpers import run_main
from rarefeat.storage.sealed_files import write_file

PARTS = ("train", "test")


def class_images(folder: Path) -> dict[str, list[Path]]:
    """The images of each class by the name of its subfolder, both in order: what Pillow reads by its suffix, and not hidden."""
    suffixes = {
        suffix for suffix, kind in Image.registered_extensions().items() if kind in Image.OPEN
    }
    found = {}
    for place in sorted(
        path for path in folder.iterdir() if path.is_dir() and not path.name.startswith(".")
    ):
        seen = (
            path
            for path in place.rglob("*")
            if not any(part.startswith(".") for part in path.relative_to(place).parts)
        )
        if images := sorted(
            path for path in seen if path.suffix.lower() in suffixes and path.is_file()
        ):
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
        raise RarefeatError(
            f"{folder} is no folder; it is to have a subfolder of images for each class"
        )
    if all((folder / part).is_dir() for part in PARTS):
        parts = {part: class_images(folder / part) for part in PARTS}
    else:
        found = class_images(folder)
        # A class may be called train; then its images lie in it.
        if part := next(
            (
                name
                for name in PARTS
                if name in found and (folder / name) not in {f.parent for f in found[name]}
            ),
            "",
        ):
            other = PARTS[part == PARTS[0]]
            raise RarefeatError(
                f"{folder} has a folder {part} with subfolders, and none named {other}; both are needed, or neither"
            )
        parts = {
            "train": {
                name: [file for i, file in enumerate(files, 1) if i % every]
                for name, files in found.items()
            },
            "test": {name: files[every - 1 :: every] for name, files in found.items()},
        }
    names = sorted({*parts["train"], *parts["test"]})
    if len(names) < 2:
        raise RarefeatError(
            f"{folder}: two subfolders with images at least are needed, one for each class, got {len(names)}"
        )
    for part, classes in parts.items():
        if empty := [name for name in names if not classes.get(name)]:
            raise RarefeatError(
                f"{folder}: the class {empty[0]} has no {part} image; every class needs some"
            )
    return names, parts


def listing(folder: Path, names: list[str], classes: dict[str, list[Path]]) -> str:
    """The text of a list; RarefeatError for a name that no list can hold, as a reader would find another one there."""
    lines = []
    for label, name in enumerate(names):
        for file in classes[name]:
            inside = str(file.relative_to(folder))
            lines.append(f"{inside} {label}\n")
            try:
                read = [*entries(lines[-1].encode().decode("utf-8-sig"), "")]
            except (UnicodeEncodeError, RarefeatError):
                read = []
            if read != [(1, inside, label)]:
                why = "it is not UTF-8, begins with a space, or has a line break"
                raise RarefeatError(
                    f"{folder}: {inside!r} cannot stand in a list: {why}; rename it"
                )
    return "".join(lines)


def main() -> None:
    """Write train.txt and test.txt into the folder, a line `path label` for each image, and say which label is which class."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "folder",
        type=Path,
        help="with a subfolder for each class, or with train/ and test/ that have these",
    )
    parser.add_argument(
        "--every",
        type=int,
        default=5,
        metavar="N",
        help="each N-th image of a class is a test image",
    )
    args = parser.parse_args()
    if args.every < 2:
        raise RarefeatError(f"--every: must be 2 or more, got {args.every}")
    try:
        names, parts = split(args.folder, args.every)
    except OSError as error:
        raise RarefeatError(f"cannot read {error.filename}: {error.strerror}") from error
    paths = {part: args.folder / f"{part}.txt" for part in PARTS}
    if there := [path for path in paths.values() if path.exists()]:
        raise RarefeatError(f"{there[0]} is there already; delete it to have another one written")
    texts = {part: listing(args.folder, names, classes) for part, classes in parts.items()}
    for part, text in texts.items():
        write_file(paths[part], text)
    for label, name in enumerate(names):
        print(
            f"label {label}: {name}, {len(parts['train'][name])} training and {len(parts['test'][name])} test images"
        )
    listed = {
        file for classes in parts.values() for files in classes.values() for file in files
    } | set(paths.values())
    if left := sorted(
        path for path in args.folder.rglob("*") if path.is_file() and path not in listed
    ):
        print(
            f"{len(left)} other files are in no list, {str(left[0].relative_to(args.folder))!r} the first"
        )


if __name__ == "__main__":
    run_main(main)
