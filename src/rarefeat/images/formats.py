"""The forms in which data sets of images are distributed: which files they are, and what these hold. Without torch."""

import gzip
import io
import itertools
import os
import pickle
import re
import tarfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image, ImageOps

from rarefeat.config.images import ImageData
from rarefeat.core.errors import RarefeatError
from rarefeat.run.cli_helpers import progress

Files = list[tuple[str, str]]
"""Files in the order that counts, each after what it stands for, such as its label."""


class ImagePart(NamedTuple):
    """The training or the test images before any is decoded."""

    source: str  # the folder or list file, for messages
    labels: np.ndarray  # (N,) int64
    decode: Callable[[np.ndarray], np.ndarray]  # row numbers (n,) -> uint8 (n, 3, H, W)
    names: Callable[[int], str]  # row number -> what messages call the image
    files: list[
        tuple[str, str | bytes]
    ] = ()  # of encoded images: the name, and the path or what stands there
    listed: int = 0  # of the last rows, images of data.pretrain_list


def _listed(labels: list[int]) -> str:
    """Labels in a message."""
    consecutive = len(labels) > 2 and labels == list(range(labels[0], labels[-1] + 1))
    return (
        f"{labels[0]} to {labels[-1]}" if consecutive else ", ".join(map(str, labels)) or "(none)"
    )


def in_pixels(sides: tuple[int, ...]) -> str:
    """Height and width in a message."""
    return f"{sides[0]} x {sides[1]} pixels"


def _damaged(path: str | Path, error: Exception, remedy: str) -> RarefeatError:
    """One line for a file of the user's."""
    reason = getattr(error, "strerror", None) or next(
        iter(str(error).splitlines()), type(error).__name__
    )
    return RarefeatError(f"cannot read {path}: {reason}; {remedy}")


def _folder(data: ImageData, wanted: str) -> Path:
    """The folder, or an error that says what to put there."""
    folder = Path(data.folder)
    if not folder.is_dir():
        raise RarefeatError(f"data.folder: {folder} is no folder; make it and put {wanted} there")
    return folder


def _decode(files: list[tuple[str, str | bytes]], size: int = 0) -> np.ndarray:
    """Decode image files, (n, 3, H, W), turned as their EXIF orientation says: as a viewer shows them.

    Args:
        files: what messages call each one, and its path or content. size: as in `square`; 0 keeps the sides as they are.
    """
    images = None
    for row, (name, file) in enumerate(progress(files, len(files), "images")):
        try:
            with Image.open(io.BytesIO(file) if isinstance(file, bytes) else file) as image:
                refuse_frames(image)
                coloured = colours(ImageOps.exif_transpose(image))
        except RarefeatError as error:
            raise RarefeatError(f"{name}: {error}") from error
        except Exception as error:  # every decoder of Pillow has its own errors for damaged files
            raise RarefeatError(
                f"{name}: cannot be decoded as an image ({type(error).__name__}); replace it"
            ) from error
        pixels = np.asarray(square(coloured, size) if size else coloured).transpose(2, 0, 1)
        if images is None:
            images = np.empty((len(files), *pixels.shape), dtype=np.uint8)
        if pixels.shape != images.shape[1:]:
            raise RarefeatError(
                f"{name}: {in_pixels(pixels.shape[1:])}, but the first image has {in_pixels(images.shape[2:])}"
            )
        images[row] = pixels
    return images


def refuse_frames(image: Image.Image) -> None:
    """RarefeatError for an animation or a file of several pages; what a camera adds to a photograph (MPO) is no page."""
    if (frames := getattr(image, "n_frames", 1)) > 1 and image.format != "MPO":
        raise RarefeatError(
            f"it holds {frames} images, of which one is wanted; save that by itself"
        )


EIGHT_BITS = ("1", "L", "LA", "P", "PA", "RGB", "RGBA", "RGBX", "CMYK", "YCbCr", "HSV")
"""Modes of Pillow that it brings to RGB as they mean it."""


def colours(image: Image.Image) -> Image.Image:
    """An image as RGB of 8 bits, by what its mode means.

    Whole numbers of 16 bits are scaled, 65535 to 255. Modes of 32 bits, whole or float, do not say what is white, LAB has no
    conversion in Pillow, and what shows through a transparent place is not in the file.

    Raises:
        RarefeatError: for these.
    """
    if image.mode.startswith("I;16"):
        grey = np.asarray(image).astype(np.uint32)
        return Image.fromarray(((grey + 128) // 257).astype(np.uint8)).convert("RGB")
    if image.has_transparency_data and image.convert("RGBA").getchannel("A").getextrema()[0] < 255:
        raise RarefeatError(
            "it is transparent in places, and what is behind is not known; save it on a background"
        )
    if image.mode not in EIGHT_BITS:
        raise RarefeatError(
            f"pixels of mode {image.mode} have no meaning in 8 bits that is sure; save it as RGB or grey"
        )
    return image.convert("RGB")


def square(image: Image.Image, size: int) -> Image.Image:
    """Bring the short side to `size` pixels by bicubic interpolation and crop the centre to size x size."""
    short = min(image.size)
    width, height = (size * side // short for side in image.size)
    left, top = round((width - size) / 2), round((height - size) / 2)
    return image.resize((width, height), Image.Resampling.BICUBIC).crop(
        (left, top, left + size, top + size)
    )


def _arrays(source: str, images: np.ndarray, labels: np.ndarray) -> ImagePart:
    """Images that need no decoding."""
    return ImagePart(
        source, labels, lambda rows: images[rows], lambda row: f"{source}, image {row}"
    )


def _digits(data: ImageData) -> tuple[ImagePart, ImagePart]:
    """scikit-learn's 8 x 8 grey images; of each class, in the bundled order, every third one is a test image."""
    try:
        from sklearn.datasets import load_digits
    except ImportError as error:
        raise RarefeatError(
            "data.format: digits come with scikit-learn, which is missing; pip install scikit-learn"
        ) from error
    digits = load_digits()
    images = np.round(digits.images * 255 / 16).astype(np.uint8)[:, None].repeat(3, axis=1)
    labels = digits.target.astype(np.int64)
    test = np.zeros(len(labels), dtype=bool)
    for label in np.unique(labels):
        test[np.flatnonzero(labels == label)[2::3]] = True
    return _arrays("digits", images[~test], labels[~test]), _arrays(
        "digits", images[test], labels[test]
    )


class ArchiveFormat(NamedTuple):
    """One of the two official archives of Python batches."""

    file: str
    folder: str  # that it unpacks to
    train: tuple[str, ...]
    test: str
    labels: bytes  # key of a batch


CIFAR10_TRAIN = tuple(f"data_batch_{i}" for i in range(1, 6))
CIFAR = (
    ArchiveFormat(
        "cifar-10-python.tar.gz", "cifar-10-batches-py", CIFAR10_TRAIN, "test_batch", b"labels"
    ),
    ArchiveFormat(
        "cifar-100-python.tar.gz", "cifar-100-python", ("train",), "test", b"fine_labels"
    ),
)


def _archive(data: ImageData) -> tuple[ArchiveFormat, Path]:
    """Which of the two, and where: the archive, the folder with what it unpacks to, or that itself."""
    forms = " or ".join(f"{archive.file} (or its folder {archive.folder})" for archive in CIFAR)
    folder = _folder(data, f"{forms}, which `make fetch` downloads,")
    found = []
    for archive in CIFAR:
        unpacked = [
            place for place in (folder / archive.folder, folder) if (place / archive.test).is_file()
        ]
        if unpacked or (folder / archive.file).is_file():
            found.append((archive, unpacked[0] if unpacked else folder / archive.file))
    if len(found) != 1:
        fault = (
            "holds both CIFAR-10 and CIFAR-100, of which one is wanted"
            if found
            else "holds no CIFAR"
        )
        raise RarefeatError(
            f"data.folder: {folder} {fault}; put {forms} there; `make fetch` downloads them"
        )
    return found[0]


def _cifar_batches(data: ImageData) -> tuple[ImagePart, ImagePart]:
    """The official archive, packed or unpacked."""
    archive, place = _archive(data)
    contents = _contents(place, (*archive.train, archive.test))
    parts = []
    for names in (archive.train, (archive.test,)):
        images, labels = zip(
            *(_batch(f"{place}/{name}", contents[name], archive.labels) for name in names),
            strict=True,
        )
        parts.append(_arrays(str(place), np.concatenate(images), np.concatenate(labels)))
    return parts[0], parts[1]


def _contents(place: Path, names: tuple[str, ...]) -> dict[str, bytes]:
    """The pickles by name, from a folder or from an archive, which is read through once."""
    try:
        if place.is_dir():
            contents = {
                name: (place / name).read_bytes() for name in names if (place / name).is_file()
            }
        else:
            contents = {}
            with gzip.open(place) as unpacked, tarfile.open(fileobj=unpacked, mode="r|") as archive:
                for member in archive:
                    name = Path(member.name).name
                    if member.isfile() and name in names:
                        contents[name] = archive.extractfile(member).read()
                while unpacked.read(2**20):  # gzip looks at its checksum when it comes to the end
                    pass
    except (tarfile.TarError, zlib.error, EOFError, OSError) as error:
        raise _damaged(place, error, "download it again, as `make fetch` does") from error
    if missing := [name for name in names if name not in contents]:
        raise RarefeatError(f"{place} lacks {missing[0]}; download it again, as `make fetch` does")
    return contents


def _batch(name: str, content: bytes, label_key: bytes) -> tuple[np.ndarray, np.ndarray]:
    """Images (n, 3, 32, 32) and labels (n,) of one pickle; the name is for messages."""
    try:
        batch = _Unpickler(io.BytesIO(content), encoding="bytes").load()
        images, labels = np.asarray(batch[b"data"]), np.asarray(batch[label_key])
    except Exception as error:  # a damaged pickle may raise anything
        raise _damaged(name, error, "download it again, as `make fetch` does") from error
    if images.dtype != np.uint8 or images.shape[1:] != (3072,):
        raise RarefeatError(
            f"{name}: data must be uint8 of shape (n, 3072), got {images.dtype} of shape {images.shape}"
        )
    if labels.shape != (len(images),) or labels.dtype.kind != "i":
        raise RarefeatError(
            f"{name}: {label_key.decode()} must be {len(images)} integers, got shape {labels.shape}"
        )
    return images.reshape(-1, 3, 32, 32), labels.astype(np.int64)


class _Unpickler(pickle.Unpickler):
    """Admits arrays and plain containers alone: a pickle from the net must not run code."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in PICKLED:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}, which is refused")
        return PICKLED[module, name]


PICKLED = {
    ("numpy", "ndarray"): np.ndarray,
    ("numpy", "dtype"): np.dtype,
    # What an array is pickled as, under the names that numpy has had for it.
    ("numpy.core.multiarray", "_reconstruct"): np.empty(0).__reduce__()[0],
    ("numpy._core.multiarray", "_reconstruct"): np.empty(0).__reduce__()[0],
}


def _tables(data: ImageData) -> dict[str, list[Path]]:
    """The hub's Parquet of training and of test images, in the folder or in its subfolder data."""
    form = "train-*.parquet and test-*.parquet"
    folder = _folder(data, form)
    found = {}
    for name in ("train", "test"):
        found[name] = sorted(folder.glob(f"{name}-*.parquet")) or sorted(
            (folder / "data").glob(f"{name}-*.parquet")
        )
        if not found[name]:
            raise RarefeatError(
                f"data.folder: {folder} holds no {name}-*.parquet; put {form} of the hub there, or in data/"
            )
    return found


def _cifar_parquet(data: ImageData) -> tuple[ImagePart, ImagePart]:
    """The hub's Parquet."""
    parts = []
    for paths in _tables(data).values():
        files, labels = zip(*(_parquet(path) for path in paths), strict=True)
        parts.append(_encoded(data.folder, list(itertools.chain(*files)), np.concatenate(labels)))
    return parts[0], parts[1]


def _parquet(path: Path) -> tuple[list[tuple[str, bytes]], np.ndarray]:
    """Encoded images with what messages call them, and labels (n,), of one file."""
    try:
        table = pq.ParquetFile(path, page_checksum_verification=True).read()
    except (pa.ArrowException, OSError) as error:
        raise _damaged(path, error, "download it again") from error
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


def _encoded(
    source: str, files: list[tuple[str, str | bytes]], labels: np.ndarray, size: int = 0
) -> ImagePart:
    """Images that Pillow decodes."""
    return ImagePart(
        source,
        labels,
        lambda rows: _decode([files[row] for row in rows], size),
        lambda row: files[row][0],
        files,
    )


def _image_folder(data: ImageData) -> tuple[ImagePart, ImagePart]:
    """Image files named by list files; those of the classes that are kept must all be there."""
    folder = _folder(data, "the images and their list files")
    (train, labels), (test, test_labels) = (
        _list(folder / name, data) for name in (data.train_list, data.test_list)
    )
    more, more_labels = (
        _list(folder / data.pretrain_list, data) if data.pretrain_list else ([], labels[:0])
    )
    first = _encoded(
        str(folder / data.train_list),
        train + more,
        np.concatenate([labels, more_labels]),
        data.size,
    )
    return first._replace(listed=len(more)), _encoded(
        str(folder / data.test_list), test, test_labels, data.size
    )


def _list(path: Path, data: ImageData) -> tuple[list[tuple[str, str]], np.ndarray]:
    """Image files of a list with what messages call them, and labels (n,), of `data.classes`, or all where it is empty."""
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise _damaged(
            path, error, "put a text file with a line `path label` for each image there"
        ) from error
    files, labels = [], []
    for number, name, label in entries(text, str(path)):
        if not data.classes or label in data.classes:
            file = os.path.join(data.folder, name)
            files.append((f"{file} ({path.name}, line {number})", file))
            labels.append(label)
    return files, np.array(labels, dtype=np.int64)


def entries(text: str, source: str) -> Iterator[tuple[int, str, int]]:
    """Line, path and label of each image of a list; source: what messages call it."""
    # Not splitlines, which cuts at characters that names may hold.
    for number, line in enumerate(re.split(r"\r\n?|\n", text), start=1):
        if not line.strip():
            continue
        entry = re.fullmatch(r"\s*(\S.*?)\s+(\d{1,9})\s*", line)
        if entry is None:
            raise RarefeatError(
                f"{source}, line {number}: {line!r} is not `path label` with a label of 0 or more"
            )
        yield number, entry[1], int(entry[2])


READERS: dict[str, Callable[[ImageData], tuple[ImagePart, ImagePart]]] = {
    "digits": _digits,
    "cifar_batches": _cifar_batches,
    "cifar_parquet": _cifar_parquet,
    "image_folder": _image_folder,
}


def refuse_labels(data: ImageData, train: ImagePart, test: ImagePart) -> None:
    """Refuse labels of which no class could be trained and tested on, or a largest class that no draw can give."""
    own, listed = np.split(train.labels, [len(train.labels) - train.listed])
    present, counts = np.unique(own, return_counts=True)
    kept = data.classes or list(range(len(present)))
    if absent := sorted(set(kept) - set(present.tolist())):
        wrong = (
            ", which data.classes names"
            if data.classes
            else "; labels must be 0 to K - 1 without a gap"
        )
        raise RarefeatError(f"{train.source}: no training image has label {absent[0]}{wrong}")
    if len(kept) < 2:
        raise RarefeatError(
            f"{train.source}: two classes at least are needed among the training images, got {len(kept)}"
        )
    for kind, source, labels in (
        ("pretraining", data.pretrain_list, listed),
        ("test", test.source, test.labels),
    ):
        if unknown := sorted(set(labels.tolist()) - set(present.tolist())):
            told = _listed(present.tolist())
            raise RarefeatError(
                f"{source}: {kind} label {unknown[0]} is none of the training labels {told}"
            )
    if untested := sorted(set(kept) - set(test.labels.tolist())):
        raise RarefeatError(
            f"{test.source}: no test image has label {untested[0]}; every training label needs some"
        )
    of = dict(zip(present.tolist(), counts.tolist(), strict=True))
    refuse_n_max(data.n_max, [of[label] for label in kept])


def refuse_n_max(n_max: int, available: list[int]) -> None:
    """Refuse a largest class of more images than each class has."""
    fewest = min(available)
    if n_max > fewest:
        raise RarefeatError(
            f"data.n_max: {n_max} images of the largest class, which any can be, but class {available.index(fewest)} has"
            f" {fewest}; at most {fewest}"
        )


def inputs(data: ImageData) -> Files:
    """The files that the images are read from, with what each is; none of the digits.

    Raises:
        RarefeatError: lists are missing, damaged or of labels that are refused.
    """
    match data.format:
        case "digits":
            return []
        case "cifar_batches":
            archive, place = _archive(data)
            names = (*archive.train, archive.test) if place.is_dir() else ()
            return [(name, str(place / name)) for name in names] or [("archive", str(place))]
        case "cifar_parquet":
            return [(name, str(path)) for name, paths in _tables(data).items() for path in paths]
    train, test = _image_folder(data)
    refuse_labels(data, train, test)
    own = len(train.labels) - train.listed
    parts = ["train"] * own + ["pretrain"] * train.listed + ["test"] * len(test.labels)
    labels = [*train.labels.tolist(), *test.labels.tolist()]
    files = [path for _, path in (*train.files, *test.files)]
    return [
        (f"{part} {label}", path) for part, label, path in zip(parts, labels, files, strict=True)
    ]


def index_file(data: ImageData, name: str, seed: int) -> Path:
    """Where an index file of a seed lies."""
    return Path(data.folder) / name.replace("{seed}", str(seed))


def index_files(data: ImageData, seeds: Iterable[int]) -> Files:
    """The index files of seeds, with what each is; none where lists are drawn."""
    names = {kind: name for kind, name in dict(data.index_files or ()).items() if name}
    return [
        (f"{kind} {seed}", str(index_file(data, name, seed)))
        for seed in seeds
        for kind, name in names.items()
    ]
