"""Stage 1 of the image studies: the pixels and labels of a data set in one file, whatever form it is distributed in."""

import gzip
import hashlib
import io
import itertools
import os
import pickle
import re
import sys
import tarfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from PIL import Image
from torch import Tensor

from rarefeat.config.images import ImageData
from rarefeat.core.errors import RarefeatError
from rarefeat.run.command import progress, run, stage
from rarefeat.storage.tensors import write_tensors


class Part(NamedTuple):
    """The training or the test images before any is decoded."""

    source: str  # the folder or list file, for messages
    labels: np.ndarray  # (N,) int64
    decode: Callable[[np.ndarray], np.ndarray]  # row numbers (n,) -> uint8 (n, 3, H, W)
    listed: int = 0  # of the last rows, images of data.pretrain_list


def read_images(data: ImageData) -> dict[str, Tensor]:
    """Read, select and renumber.

    Returns:
        train (N, 3, H, W) in uint8, train_labels (N,) in int64 with the values 0 to K - 1, test and test_labels likewise;
        listed (), how many of the last training images are those of data.pretrain_list.

    Raises:
        RarefeatError: files are missing, damaged or of another form, the labels are not 0 to K - 1, a class has no test image,
            the test images are training images, or what was read is not what data.sha256 says.
    """
    train, test = READERS[data.format](data)
    present = np.unique(train.labels).tolist()
    kept = data.classes or list(range(len(present)))
    if absent := [label for label in kept if label not in present]:
        wrong = ", which data.classes names" if data.classes else "; labels must be 0 to K - 1 without a gap"
        raise RarefeatError(f"{train.source}: no training image has label {absent[0]}{wrong}")
    if len(kept) < 2:
        raise RarefeatError(f"{train.source}: two classes at least are needed among the training images, got {len(kept)}")
    if unknown := sorted(set(test.labels.tolist()) - set(present)):
        raise RarefeatError(f"{test.source}: test label {unknown[0]} is none of the training labels {_listed(present)}")
    if untested := sorted(set(kept) - set(test.labels.tolist())):
        raise RarefeatError(f"{test.source}: no test image has label {untested[0]}; every training label needs some")
    tensors = {"listed": torch.tensor(train.listed)}
    for name, part in {"train": train, "test": test}.items():
        labels = np.full(len(part.labels), -1)
        for new, old in enumerate(kept):
            labels[part.labels == old] = new
        rows = np.flatnonzero(labels >= 0)
        tensors[name] = torch.from_numpy(part.decode(rows))
        tensors[f"{name}_labels"] = torch.from_numpy(labels[rows])
    sides, test_sides = (tuple(tensors[name].shape[2:]) for name in ("train", "test"))
    if test_sides != sides:
        raise RarefeatError(f"{test.source}: {_pixels(test_sides)}, but the training images have {_pixels(sides)}")
    if _all_within(tensors["test"], tensors["train"]):
        raise RarefeatError(f"{test.source}: the test images are training images; a test set of other images is needed")
    if data.sha256 and (found := content_hash(tensors)) != data.sha256:
        raise RarefeatError(
            f"data.sha256: the images and labels in {data.folder or train.source} have {found}; replace damaged files, or set "
            "data.sha256 to this hash"
        )
    return tensors


def _all_within(test: Tensor, train: Tensor, looked_at: int = 100) -> bool:
    """Whether the first test images (n, 3, H, W) are each, to the last pixel, among the training images (N, 3, H, W)."""
    middle = train[:, :, train.shape[2] // 2]

    def there(image: Tensor) -> bool:
        # Their middle line first, because all pixels of all images may be gigabytes.
        alike = train[(middle == image[:, image.shape[1] // 2]).flatten(1).all(1)]
        return bool((alike == image).flatten(1).all(1).any())

    return all(there(image) for image in test[:looked_at])


def content_hash(tensors: dict[str, Tensor]) -> str:
    """Of images and labels, whatever form they were distributed in."""
    hashed = hashlib.sha256()
    for name, tensor in sorted(tensors.items()):
        hashed.update(f"{name} {list(tensor.shape)}".encode())
        hashed.update(tensor.contiguous().numpy())
    return hashed.hexdigest()


def _listed(labels: list[int]) -> str:
    """Labels in a message."""
    consecutive = len(labels) > 2 and labels == list(range(labels[0], labels[-1] + 1))
    return f"{labels[0]} to {labels[-1]}" if consecutive else ", ".join(map(str, labels)) or "(none)"


def _pixels(sides: tuple[int, ...]) -> str:
    """Height and width in a message."""
    return f"{sides[0]} x {sides[1]} pixels"


def _damaged(path: str | Path, error: Exception, remedy: str) -> RarefeatError:
    """One line for a file of the user's."""
    reason = getattr(error, "strerror", None) or next(iter(str(error).splitlines()), type(error).__name__)
    return RarefeatError(f"cannot read {path}: {reason}; {remedy}")


def _folder(data: ImageData, wanted: str) -> Path:
    """The folder, or an error that says what to put there."""
    folder = Path(data.folder)
    if not folder.is_dir():
        raise RarefeatError(f"data.folder: {folder} is no folder; make it and put {wanted} there")
    return folder


def _decode(files: list[tuple[str, Path | bytes]], size: int = 0) -> np.ndarray:
    """Decode image files, (n, 3, H, W).

    Args:
        files: what messages call each one, and its path or content. size: as in `square`; 0 keeps the sides as they are.
    """
    images = None
    for row, (name, file) in enumerate(progress(files, len(files), "images")):
        try:
            with Image.open(io.BytesIO(file) if isinstance(file, bytes) else file) as image:
                colours = image.convert("RGB")
        except Exception as error:  # every decoder of Pillow has its own errors for damaged files
            raise RarefeatError(f"{name}: cannot be decoded as an image ({type(error).__name__}); replace it") from error
        pixels = np.asarray(square(colours, size) if size else colours).transpose(2, 0, 1)
        if images is None:
            images = np.empty((len(files), *pixels.shape), dtype=np.uint8)
        if pixels.shape != images.shape[1:]:
            raise RarefeatError(f"{name}: {_pixels(pixels.shape[1:])}, but the first image has {_pixels(images.shape[2:])}")
        images[row] = pixels
    return images


def square(image: Image.Image, size: int) -> Image.Image:
    """Bring the short side to `size` pixels by bicubic interpolation and crop the centre to size x size."""
    short = min(image.size)
    width, height = (size * side // short for side in image.size)
    left, top = round((width - size) / 2), round((height - size) / 2)
    return image.resize((width, height), Image.Resampling.BICUBIC).crop((left, top, left + size, top + size))


def _arrays(source: str, images: np.ndarray, labels: np.ndarray) -> Part:
    """Images that need no decoding."""
    return Part(source, labels, lambda rows: images[rows])


def _digits(data: ImageData) -> tuple[Part, Part]:
    """scikit-learn's 8 x 8 grey images; of each class, in the bundled order, every third one is a test image."""
    try:
        from sklearn.datasets import load_digits
    except ImportError as error:
        raise RarefeatError("data.format: digits come with scikit-learn, which is missing; pip install scikit-learn") from error
    digits = load_digits()
    images = np.round(digits.images * 255 / 16).astype(np.uint8)[:, None].repeat(3, axis=1)
    labels = digits.target.astype(np.int64)
    test = np.zeros(len(labels), dtype=bool)
    for label in np.unique(labels):
        test[np.flatnonzero(labels == label)[2::3]] = True
    return _arrays("digits", images[~test], labels[~test]), _arrays("digits", images[test], labels[test])


class Archive(NamedTuple):
    """One of the two official archives of Python batches."""

    file: str
    folder: str  # that it unpacks to
    train: tuple[str, ...]
    test: str
    labels: bytes  # key of a batch


CIFAR10_TRAIN = tuple(f"data_batch_{i}" for i in range(1, 6))
CIFAR = (
    Archive("cifar-10-python.tar.gz", "cifar-10-batches-py", CIFAR10_TRAIN, "test_batch", b"labels"),
    Archive("cifar-100-python.tar.gz", "cifar-100-python", ("train",), "test", b"fine_labels"),
)


def _cifar_batches(data: ImageData) -> tuple[Part, Part]:
    """The archive, the folder with what it unpacks to, or that itself."""
    forms = " or ".join(f"{archive.file} (or its folder {archive.folder})" for archive in CIFAR)
    folder = _folder(data, f"{forms}, which `make fetch` downloads,")
    found = []
    for archive in CIFAR:
        unpacked = [place for place in (folder / archive.folder, folder) if (place / archive.test).is_file()]
        if unpacked or (folder / archive.file).is_file():
            found.append((archive, unpacked[0] if unpacked else folder / archive.file))
    if len(found) != 1:
        fault = "holds both CIFAR-10 and CIFAR-100, of which one is wanted" if found else "holds no CIFAR"
        raise RarefeatError(f"data.folder: {folder} {fault}; put {forms} there; `make fetch` downloads them")
    archive, place = found[0]
    contents = _contents(place, (*archive.train, archive.test))
    parts = []
    for names in (archive.train, (archive.test,)):
        images, labels = zip(*(_batch(f"{place}/{name}", contents[name], archive.labels) for name in names), strict=True)
        parts.append(_arrays(str(place), np.concatenate(images), np.concatenate(labels)))
    return parts[0], parts[1]


def _contents(place: Path, names: tuple[str, ...]) -> dict[str, bytes]:
    """The pickles by name, from a folder or from an archive, which is read through once."""
    try:
        if place.is_dir():
            contents = {name: (place / name).read_bytes() for name in names if (place / name).is_file()}
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
        raise RarefeatError(f"{name}: data must be uint8 of shape (n, 3072), got {images.dtype} of shape {images.shape}")
    if labels.shape != (len(images),) or labels.dtype.kind != "i":
        raise RarefeatError(f"{name}: {label_key.decode()} must be {len(images)} integers, got shape {labels.shape}")
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


def _cifar_parquet(data: ImageData) -> tuple[Part, Part]:
    """The hub's Parquet, in the folder or in its subfolder data."""
    form = "train-*.parquet and test-*.parquet"
    folder = _folder(data, form)
    parts = []
    for name in ("train", "test"):
        paths = sorted(folder.glob(f"{name}-*.parquet")) or sorted((folder / "data").glob(f"{name}-*.parquet"))
        if not paths:
            raise RarefeatError(f"data.folder: {folder} holds no {name}-*.parquet; put {form} of the hub there, or in data/")
        files, labels = zip(*(_parquet(path) for path in paths), strict=True)
        parts.append(_encoded(str(folder), list(itertools.chain(*files)), np.concatenate(labels)))
    return parts[0], parts[1]


def _parquet(path: Path) -> tuple[list[tuple[str, bytes]], np.ndarray]:
    """Encoded images with what messages call them, and labels (n,), of one file."""
    try:
        table = pq.ParquetFile(path, page_checksum_verification=True).read()
    except (pa.ArrowException, OSError) as error:
        raise _damaged(path, error, "download it again") from error
    names = table.column_names
    image, label = (next((key for key in keys if key in names), None) for keys in (("img", "image"), ("label", "fine_label")))
    if image is None or label is None:
        needed = "img or image, and label or fine_label"
        raise RarefeatError(f"{path}: the columns are {', '.join(names)}; {needed} are needed")
    kind = table.schema.field(image).type
    if not pa.types.is_struct(kind) or kind.get_field_index("bytes") < 0:
        raise RarefeatError(f"{path}: column {image} must be a struct of bytes and path, got {kind}")
    if not pa.types.is_integer(table.schema.field(label).type) or table[label].null_count:
        raise RarefeatError(f"{path}: column {label} must hold an integer in every row")
    contents = [(row or {}).get("bytes") or b"" for row in table[image].to_pylist()]
    files = [(f"{path}, row {row}", content) for row, content in enumerate(contents)]
    return files, table[label].to_numpy().astype(np.int64)


def _encoded(source: str, files: list[tuple[str, Path | bytes]], labels: np.ndarray, size: int = 0) -> Part:
    """Images that Pillow decodes."""
    return Part(source, labels, lambda rows: _decode([files[row] for row in rows], size))


def _image_folder(data: ImageData) -> tuple[Part, Part]:
    """Image files named by two list files; those of the classes that are kept must all be there."""
    folder = _folder(data, "the images and their list files")
    named = [data.train_list, data.test_list, *([data.pretrain_list] if data.pretrain_list else [])]
    lists = [_list(folder / name, folder, data.classes) for name in named]
    every = [file for files, _ in lists for _, file in files]
    if missing := [file for file in every if not file.is_file()]:
        raise RarefeatError(
            f"data.folder: {len(missing)} of {len(every)} listed images are missing, {missing[0]} the first; put them there"
        )
    (train, train_labels), (test, test_labels), *more = lists
    (listed, listed_labels) = more[0] if more else ([], train_labels[:0])
    _refuse_shared(test, train + listed)
    labels = np.concatenate([train_labels, listed_labels])
    first = _encoded(str(folder / data.train_list), train + listed, labels, data.size)._replace(listed=len(listed))
    return first, _encoded(str(folder / data.test_list), test, test_labels, data.size)


def _refuse_shared(test: list[tuple[str, Path]], others: list[tuple[str, Path]]) -> None:
    """Refuse test images that are trained or probed on, by whatever path; the lists of training may share images."""
    tested = {os.path.realpath(file): name for name, file in test}
    for name, file in others:
        if (again := tested.get(os.path.realpath(file))) is not None:
            raise RarefeatError(f"{name}: the same image is a test image, {again}; a list of test images is of others alone")


def _list(path: Path, folder: Path, classes: list[int]) -> tuple[list[tuple[str, Path]], np.ndarray]:
    """Image files of a list with what messages call them, and labels (n,); those of `classes`, or all where it is empty."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise _damaged(path, error, "put a text file with a line `path label` for each image there") from error
    files, labels, seen = [], [], {}
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        entry = re.fullmatch(r"\s*(\S.*?)\s+(\d{1,9})\s*", line)
        if entry is None:
            raise RarefeatError(f"{path}, line {number}: {line!r} is not `path label` with a label of 0 or more")
        file, label = folder / entry[1], int(entry[2])
        if (before := seen.setdefault(os.path.realpath(file), number)) != number:
            raise RarefeatError(f"{path}, line {number}: {entry[1]} is the image of line {before}; an image may be there once")
        if not classes or label in classes:
            files.append((f"{file} ({path.name}, line {number})", file))
            labels.append(label)
    return files, np.array(labels, dtype=np.int64)


READERS: dict[str, Callable[[ImageData], tuple[Part, Part]]] = {
    "digits": _digits,
    "cifar_batches": _cifar_batches,
    "cifar_parquet": _cifar_parquet,
    "image_folder": _image_folder,
}


def main() -> None:
    """Command line of the stage."""
    parser = stage(__doc__)
    parser.add_argument("--output", required=True, help="safetensors file to write")
    args = parser.parse_args()
    tensors = read_images(args.job.part("data", ImageData))
    write_tensors(args.output, tensors, args.job.text)
    print(f"data.sha256: {content_hash(tensors)}", file=sys.stderr)


if __name__ == "__main__":
    run(main)
