"""The forms in which data sets of images are distributed: their files, and what these hold.

This module imports no torch. It decodes images; selection of classes and checks of whole data sets
are in datasets.py.
"""

import gzip
import importlib.util
import io
import itertools
import os
import pickle
import re
import sys
import tarfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image, ImageOps

from rarefeat.errors import RarefeatError
from rarefeat.workflow.config.images import ImageData
from rarefeat.workflow.run.cli_helpers import progress

Files = list[tuple[str, str]]
"""Files in their order, each as (label, path); the label says what it stands for."""

IMAGE_FORMATS = ("BMP", "GIF", "JPEG", "JPEG2000", "PNG", "PPM", "TIFF", "WEBP")
"""Formats that are decoded, by their content; Pillow starts Ghostscript for EPS."""
MOST_NAMED = 10
"""Images that a message names."""
FETCH_AGAIN = "download it again, as `make fetch` does"


class ImagePart(NamedTuple):
    """The training or the test images of a data set before any is decoded."""

    source: str
    """The folder or list file, for messages."""
    labels: np.ndarray
    """Classes, int64 of shape (N,)."""
    decode: Callable[[np.ndarray], tuple[np.ndarray, dict[int, int]]]
    """Maps row numbers (n,) to uint8 images (n, 3, H, W), and their largest values by the largest
    that the bits of their files hold."""
    names: Callable[[int], str]
    """Maps a row number to the name of the image in messages."""
    files: list[tuple[str, str | bytes]] = ()
    """Encoded images: the name in messages, and the path or the content."""
    listed: int = 0
    """Number of the last rows that are images of data.pretrain_list."""


def _join_labels(labels: list[int]) -> str:
    """Format labels for a message."""
    consecutive = len(labels) > 2 and labels == list(range(labels[0], labels[-1] + 1))
    return (
        f"{labels[0]} to {labels[-1]}" if consecutive else ", ".join(map(str, labels)) or "(none)"
    )


def in_pixels(sides: tuple[int, ...]) -> str:
    """Format height and width for a message."""
    return f"{sides[0]} x {sides[1]} pixels"


def _read_error(path: str | Path, error: Exception, remedy: str) -> RarefeatError:
    """Return the one-line error for a user's file that cannot be read."""
    reason = getattr(error, "strerror", None) or next(
        iter(str(error).splitlines()), type(error).__name__
    )
    return RarefeatError(f"cannot read {path}: {reason}; {remedy}")


def _folder(data: ImageData, wanted: str) -> Path:
    """Return the folder of a data set; RarefeatError names what to put there if it is missing."""
    folder = Path(data.folder)
    if not folder.is_dir():
        raise RarefeatError(f"data.folder: {folder} is no folder; make it and put {wanted} there")
    return folder


@contextmanager
def opened(name: str, file: str | bytes) -> Iterator[Image.Image]:
    """Open an image; one line says why it cannot be read or decoded."""
    content = io.BytesIO(file) if isinstance(file, bytes) else file
    try:
        with Image.open(content, formats=IMAGE_FORMATS) as image:
            check_frames(image)
            yield image
    except RarefeatError as error:
        raise RarefeatError(f"{name}: {error}") from error
    except Image.DecompressionBombError as error:
        raise RarefeatError(
            f"{name}: it has more than {2 * Image.MAX_IMAGE_PIXELS:,} pixels; save it smaller"
        ) from error
    except Exception as error:  # Each decoder of Pillow has its own errors for damaged files.
        if isinstance(error, MemoryError):
            raise
        if reason := getattr(error, "strerror", None):
            raise RarefeatError(f"cannot read {name}: {reason}") from error
        raise RarefeatError(
            f"{name}: cannot be decoded as an image ({type(error).__name__}); replace it"
        ) from error


def _decode(
    files: list[tuple[str, str | bytes]], size: int = 0, white: int = 0
) -> tuple[np.ndarray, dict[int, int]]:
    """Decode images to (n, 3, H, W), turned as their EXIF orientation says.

    RarefeatError names every image that cannot be taken.
    """
    images, largest, wrong = None, {}, []
    for row, (name, file) in enumerate(progress(files, len(files), "images")):
        try:
            with opened(name, file) as image:
                values = pixel_values(ImageOps.exif_transpose(image))
        except RarefeatError as error:
            wrong.append(str(error))
            continue
        top = np.iinfo(values.dtype).max
        largest[top] = max(largest.get(top, 0), int(values.max()))
        coloured = colours(values, white)
        pixels = np.asarray(square(coloured, size) if size else coloured).transpose(2, 0, 1)
        if images is None:
            images = np.empty((len(files), *pixels.shape), dtype=np.uint8)
        if pixels.shape != images.shape[1:]:
            sides = in_pixels(pixels.shape[1:]), in_pixels(images.shape[2:])
            wrong.append(f"{name}: {sides[0]}, but the first image has {sides[1]}")
        elif not wrong:
            images[row] = pixels
    if wrong:
        more = f"; {len(wrong)} of {len(files)} images cannot be taken" if len(wrong) > 1 else ""
        raise RarefeatError("; ".join(wrong[:MOST_NAMED]) + more)
    return images, largest


def check_frames(image: Image.Image) -> None:
    """Raise RarefeatError for several pages; images that a camera adds (MPO) are none."""
    if (frames := getattr(image, "n_frames", 1)) > 1 and image.format != "MPO":
        raise RarefeatError(
            f"it holds {frames} images, of which one is wanted; save that by itself"
        )


EIGHT_BITS = ("1", "L", "LA", "P", "PA", "RGB", "RGBA", "RGBX", "CMYK", "YCbCr", "HSV")
"""Modes that Pillow converts to RGB with their own meaning."""


def top_value(image: Image.Image) -> int:
    """Return the largest value that the bits of an image hold; Pillow's I;16 are grey ones."""
    return 65535 if image.mode.startswith("I;16") else 255


def pixel_values(image: Image.Image) -> np.ndarray:
    """Return the values of an image by the meaning of its mode: RGB of 8 bits, or grey of 16."""
    if top_value(image) > 255:
        return np.asarray(image).astype(np.uint16)
    if image.has_transparency_data and image.convert("RGBA").getchannel("A").getextrema()[0] < 255:
        raise RarefeatError(
            "it is transparent in places, and what is behind is not known; save it on a background"
        )
    if image.mode not in EIGHT_BITS:
        raise RarefeatError(
            f"pixels of mode {image.mode} have no sure meaning in 8 bits; save it as RGB or grey"
        )
    return np.asarray(image.convert("RGB"))


def colours(values: np.ndarray, white: int = 0) -> Image.Image:
    """Convert values v to RGB of 8 bits, round(255 v / white); 0 is the largest of their bits."""
    top = np.iinfo(values.dtype).max
    white = white or top
    if (white, top) != (255, 255):
        values = ((values.astype(np.uint32) * 255 + white // 2) // white).astype(np.uint8)
    return Image.fromarray(values).convert("RGB")


def describe_range(top: int, largest: int, white: int = 0) -> str:
    """Say the largest value of images, and what may be white if it is below half of their range."""
    told = f"the largest value of the images of {top.bit_length()} bits is {largest} of {top}"
    if white or 2 * largest >= top:
        return told
    likely = max(1, 2 ** largest.bit_length() - 1)
    return f"{told}; say white: {likely} under data if that is white, or white: {top}"


def check_range(largest: dict[int, int], white: int) -> None:
    """Print the largest values; RarefeatError where white may be another value than is taken."""
    for top, value in sorted(largest.items()):
        print(told := describe_range(top, value, white), file=sys.stderr)
        if not white and 2 * value < top:
            raise RarefeatError(f"data.white: {told}")
        if white and not value <= white <= top:
            raise RarefeatError(f"data.white: must be {value} to {top}, as {told}; got {white}")


def square(image: Image.Image, size: int) -> Image.Image:
    """Bring the short side to `size` pixels (bicubic) and crop the centre to size x size."""
    short = min(image.size)
    width, height = (size * side // short for side in image.size)
    left, top = round((width - size) / 2), round((height - size) / 2)
    return image.resize((width, height), Image.Resampling.BICUBIC).crop(
        (left, top, left + size, top + size)
    )


def _from_arrays(source: str, images: np.ndarray, labels: np.ndarray) -> ImagePart:
    """Return the part of images (n, 3, H, W) that need no decoding."""
    largest = {255: int(images.max(initial=0))}
    return ImagePart(
        source, labels, lambda rows: (images[rows], largest), lambda row: f"{source}, image {row}"
    )


def _digits(data: ImageData) -> tuple[ImagePart, ImagePart]:
    """Read scikit-learn's 8 x 8 grey images; every third of each class is a test image."""
    # The file itself, as the import of sklearn.datasets takes two seconds of every plan.
    (folder,) = importlib.util.find_spec("sklearn").submodule_search_locations
    path = Path(folder, "datasets/data/digits.csv.gz")
    with gzip.open(path, "rt") as file:
        rows = np.loadtxt(file, delimiter=",")
    images = np.round(rows[:, :-1].reshape(-1, 8, 8) * 255 / 16)
    images = images.astype(np.uint8)[:, None].repeat(3, axis=1)
    labels = rows[:, -1].astype(np.int64)
    test = np.zeros(len(labels), dtype=bool)
    for label in np.unique(labels):
        test[np.flatnonzero(labels == label)[2::3]] = True
    return (
        _from_arrays("digits", images[~test], labels[~test]),
        _from_arrays("digits", images[test], labels[test]),
    )


class ArchiveFormat(NamedTuple):
    """One of the two official archives of Python batches."""

    file: str
    """Name of the archive."""
    folder: str
    """Folder that it unpacks to."""
    train: tuple[str, ...]
    """Names of the training batches."""
    test: str
    """Name of the test batch."""
    labels: bytes
    """Key of the labels in a batch."""


CIFAR10_TRAIN = tuple(f"data_batch_{i}" for i in range(1, 6))
CIFAR = (
    ArchiveFormat(
        "cifar-10-python.tar.gz", "cifar-10-batches-py", CIFAR10_TRAIN, "test_batch", b"labels"
    ),
    ArchiveFormat(
        "cifar-100-python.tar.gz", "cifar-100-python", ("train",), "test", b"fine_labels"
    ),
)


def _find_archive(data: ImageData) -> tuple[ArchiveFormat, Path]:
    """Find out which archive a folder has: the archive, its unpacked folder, or its batches."""
    forms = " or ".join(f"{archive.file} (or its folder {archive.folder})" for archive in CIFAR)
    folder = _folder(data, f"{forms}, which `make fetch` downloads,")
    archives = []
    for archive in CIFAR:
        unpacked = [
            path for path in (folder / archive.folder, folder) if (path / archive.test).is_file()
        ]
        if unpacked or (folder / archive.file).is_file():
            archives.append((archive, unpacked[0] if unpacked else folder / archive.file))
    if len(archives) != 1:
        fault = (
            "holds both CIFAR-10 and CIFAR-100, of which one is wanted"
            if archives
            else "holds no CIFAR"
        )
        raise RarefeatError(
            f"data.folder: {folder} {fault}; put {forms} there; `make fetch` downloads them"
        )
    return archives[0]


def _cifar_batches(data: ImageData) -> tuple[ImagePart, ImagePart]:
    """Read the official archive, packed or unpacked."""
    archive, path = _find_archive(data)
    contents = _read_batches(path, (*archive.train, archive.test))
    image_parts = []
    for names in (archive.train, (archive.test,)):
        images, labels = zip(
            *(_unpickle_batch(f"{path}/{name}", contents[name], archive.labels) for name in names),
            strict=True,
        )
        image_parts.append(_from_arrays(str(path), np.concatenate(images), np.concatenate(labels)))
    return image_parts[0], image_parts[1]


def _read_batches(path: Path, names: tuple[str, ...]) -> dict[str, bytes]:
    """Read pickles by name, from a folder or from an archive, which is read through once."""
    try:
        if path.is_dir():
            contents = {
                name: (path / name).read_bytes() for name in names if (path / name).is_file()
            }
        else:
            contents = {}
            with gzip.open(path) as unpacked, tarfile.open(fileobj=unpacked, mode="r|") as archive:
                for member in archive:
                    name = Path(member.name).name
                    if member.isfile() and name in names:
                        contents[name] = archive.extractfile(member).read()
                # gzip compares its checksum when it comes to the end.
                while unpacked.read(2**20):
                    pass
    except (tarfile.TarError, zlib.error, EOFError, OSError) as error:
        raise _read_error(path, error, FETCH_AGAIN) from error
    if missing := [name for name in names if name not in contents]:
        raise RarefeatError(f"{path} lacks {missing[0]}; {FETCH_AGAIN}")
    return contents


def _unpickle_batch(name: str, content: bytes, label_key: bytes) -> tuple[np.ndarray, np.ndarray]:
    """Return images (n, 3, 32, 32) and labels of one pickle."""
    try:
        batch = _ArrayUnpickler(io.BytesIO(content), encoding="bytes").load()
        images, labels = np.asarray(batch[b"data"]), np.asarray(batch[label_key])
    except Exception as error:  # A damaged pickle may raise anything.
        raise _read_error(name, error, FETCH_AGAIN) from error
    if images.dtype != np.uint8 or images.shape[1:] != (3072,):
        raise RarefeatError(
            f"{name}: data must be uint8 of shape (n, 3072), got {images.dtype} of shape"
            f" {images.shape}; {FETCH_AGAIN}"
        )
    if labels.shape != (len(images),) or labels.dtype.kind != "i":
        raise RarefeatError(
            f"{name}: {label_key.decode()} must be {len(images)} integers, got shape"
            f" {labels.shape}; {FETCH_AGAIN}"
        )
    return images.reshape(-1, 3, 32, 32), labels.astype(np.int64)


class _ArrayUnpickler(pickle.Unpickler):
    """An unpickler of arrays and plain containers alone: a downloaded pickle must not run code."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in PICKLED:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}, which is refused")
        return PICKLED[module, name]


PICKLED = {
    ("numpy", "ndarray"): np.ndarray,
    ("numpy", "dtype"): np.dtype,
    # The function that arrays are pickled with, under the names that numpy has had for it.
    ("numpy.core.multiarray", "_reconstruct"): np.empty(0).__reduce__()[0],
    ("numpy._core.multiarray", "_reconstruct"): np.empty(0).__reduce__()[0],
}


def _parquet_files(data: ImageData) -> dict[str, list[Path]]:
    """List the hub's Parquet files of training and test images, in the folder or its `data`."""
    form = "train-*.parquet and test-*.parquet"
    folder = _folder(data, form)
    paths = {}
    for name in ("train", "test"):
        paths[name] = sorted(folder.glob(f"{name}-*.parquet")) or sorted(
            (folder / "data").glob(f"{name}-*.parquet")
        )
        if not paths[name]:
            raise RarefeatError(
                f"data.folder: {folder} holds no {name}-*.parquet; put {form} of the hub there, or"
                " in data/"
            )
    return paths


def _cifar_parquet(data: ImageData) -> tuple[ImagePart, ImagePart]:
    """Read the hub's Parquet files."""
    image_parts = []
    for paths in _parquet_files(data).values():
        files, labels = zip(*(_read_parquet(path) for path in paths), strict=True)
        encoded = list(itertools.chain(*files))
        image_parts.append(_from_encoded(data.folder, encoded, np.concatenate(labels), data))
    return image_parts[0], image_parts[1]


def _read_parquet(path: Path) -> tuple[list[tuple[str, bytes]], np.ndarray]:
    """Read place and content of each image of a Parquet file, and their labels."""
    try:
        table = pq.ParquetFile(path, page_checksum_verification=True).read()
    except (pa.ArrowException, OSError) as error:
        raise _read_error(path, error, "download it again") from error
    names = table.column_names
    image, label = (
        next((key for key in keys if key in names), None)
        for keys in (("img", "image"), ("label", "fine_label"))
    )
    if image is None or label is None:
        needed = "img or image, and label or fine_label"
        raise RarefeatError(f"{path}: the columns are {', '.join(names)}; {needed} are needed")
    kind = table.schema.field(image).type
    if not pa.types.is_struct(kind) or kind.get_field_index("bytes") < 0:
        raise RarefeatError(
            f"{path}: column {image} must be a struct of bytes and path, got {kind}"
        )
    if not pa.types.is_integer(table.schema.field(label).type) or table[label].null_count:
        raise RarefeatError(f"{path}: column {label} must hold an integer in every row")
    contents = [(row or {}).get("bytes") or b"" for row in table[image].to_pylist()]
    files = [(f"{path}, row {row}", content) for row, content in enumerate(contents)]
    return files, table[label].to_numpy().astype(np.int64)


def _from_encoded(
    source: str, files: list[tuple[str, str | bytes]], labels: np.ndarray, data: ImageData
) -> ImagePart:
    """Return the part of images that Pillow decodes."""
    return ImagePart(
        source,
        labels,
        lambda rows: _decode([files[row] for row in rows], data.size, data.white),
        lambda row: files[row][0],
        files,
    )


def _image_folder(data: ImageData) -> tuple[ImagePart, ImagePart]:
    """Read image files that list files name; those of the selected classes must all exist."""
    folder = _folder(data, "the images and their list files")
    (train, labels), (test, test_labels) = (
        _read_list(folder / name, data) for name in (data.train_list, data.test_list)
    )
    extra, extra_labels = (
        _read_list(folder / data.pretrain_list, data) if data.pretrain_list else ([], labels[:0])
    )
    train_part = _from_encoded(
        str(folder / data.train_list),
        train + extra,
        np.concatenate([labels, extra_labels]),
        data,
    )
    return train_part._replace(listed=len(extra)), _from_encoded(
        str(folder / data.test_list), test, test_labels, data
    )


def _read_list(path: Path, data: ImageData) -> tuple[list[tuple[str, str]], np.ndarray]:
    """Read place and path of each image of a list that is of `data.classes`, and their labels."""
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise _read_error(
            path, error, "put a text file with a line `path label` for each image there"
        ) from error
    if text and text[-1] not in "\r\n":
        told = f"{path}: the last line, {text.splitlines()[-1]!r}, has no end; was it cut there?"
        print(told, file=sys.stderr)
    files, labels = [], []
    for number, name, label in entries(text, str(path)):
        if not data.classes or label in data.classes:
            file = os.path.join(data.folder, name)
            files.append((f"{file} ({path.name}, line {number})", file))
            labels.append(label)
    return files, np.array(labels, dtype=np.int64)


def entries(text: str, source: str) -> Iterator[tuple[int, str, int]]:
    """Yield line number, path and label of each image of a list."""
    # Not splitlines, which cuts at characters that names may hold.
    for number, line in enumerate(re.split(r"\r\n?|\n", text), start=1):
        if not line.strip():
            continue
        entry = re.fullmatch(r"\s*(\S.*?)\s+(\d{1,9})\s*", line)
        if entry is None:
            raise RarefeatError(
                f"{source}, line {number}: expected `path label` with a label of 0 or more, got"
                f" {line!r}"
            )
        yield number, entry[1], int(entry[2])


READERS: dict[str, Callable[[ImageData], tuple[ImagePart, ImagePart]]] = {
    "digits": _digits,
    "cifar_batches": _cifar_batches,
    "cifar_parquet": _cifar_parquet,
    "image_folder": _image_folder,
}
"""Reader of the training and test images of each format."""


def check_labels(data: ImageData, train: ImagePart, test: ImagePart) -> None:
    """Raise RarefeatError for labels that no class can be trained and tested on."""
    own_labels, listed_labels = np.split(train.labels, [len(train.labels) - train.listed])
    present, counts = np.unique(own_labels, return_counts=True)
    classes = data.classes or list(range(len(present)))
    if absent := sorted(set(classes) - set(present.tolist())):
        reason = (
            ", which data.classes names"
            if data.classes
            else "; labels must be 0 to K - 1 without a gap, and the last word of their lines"
        )
        raise RarefeatError(f"{train.source}: no training image has label {absent[0]}{reason}")
    if len(classes) < 2:
        raise RarefeatError(
            f"{train.source}: training images must have two classes at least, got {len(classes)}"
        )
    for kind, source, labels in (
        ("pretraining", data.pretrain_list, listed_labels),
        ("test", test.source, test.labels),
    ):
        if unknown := sorted(set(labels.tolist()) - set(present.tolist())):
            raise RarefeatError(
                f"{source}: {kind} label {unknown[0]} is none of the training labels"
                f" {_join_labels(present.tolist())}"
            )
    if untested := sorted(set(classes) - set(test.labels.tolist())):
        raise RarefeatError(
            f"{test.source}: no test image has label {untested[0]}; every training label needs some"
        )
    count_of = dict(zip(present.tolist(), counts.tolist(), strict=True))
    check_n_max(data.n_max, [count_of[label] for label in classes])


LONG_TAILED_ALREADY = (
    "Images that are long-tailed already are trained on as they are: in an image folder by"
    " data.pretrain_list, in the CIFAR formats by data.index_files.pretrain, a file of all indices"
    " (numpy.arange); rho is then their ratio, and balanced_arms is empty"
)


def check_n_max(n_max: int, available: list[int]) -> None:
    """Raise RarefeatError for a largest class of more images than some class has."""
    fewest = min(available)
    if n_max > fewest:
        raise RarefeatError(
            f"data.n_max: must be at most {fewest}, the images of class {available.index(fewest)},"
            f" as any class can be the largest; got {n_max}. {LONG_TAILED_ALREADY}"
        )


def input_files(data: ImageData) -> Files:
    """List the files that the images are read from."""
    match data.format:
        case "digits":
            return []
        case "cifar_batches":
            archive, path = _find_archive(data)
            names = (*archive.train, archive.test) if path.is_dir() else ()
            return [(name, str(path / name)) for name in names] or [("archive", str(path))]
        case "cifar_parquet":
            return [
                (name, str(path)) for name, paths in _parquet_files(data).items() for path in paths
            ]
    train, test = _image_folder(data)
    check_labels(data, train, test)
    n_train = len(train.labels) - train.listed
    roles = ["train"] * n_train + ["pretrain"] * train.listed + ["test"] * len(test.labels)
    labels = [*train.labels.tolist(), *test.labels.tolist()]
    files = [path for _, path in (*train.files, *test.files)]
    return [
        (f"{role} {label}", path) for role, label, path in zip(roles, labels, files, strict=True)
    ]


def index_file(data: ImageData, name: str, seed: int) -> Path:
    """Return the path of an index file of a seed."""
    return Path(data.folder) / name.replace("{seed}", str(seed))


def index_files(data: ImageData, seeds: Iterable[int]) -> Files:
    """List the index files of seeds, each as (kind SEED, path); none where lists are drawn."""
    names = {kind: name for kind, name in dict(data.index_files or ()).items() if name}
    return [
        (f"{kind} {seed}", str(index_file(data, name, seed)))
        for seed in seeds
        for kind, name in names.items()
    ]
