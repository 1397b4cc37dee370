"""Image data sets in the forms they are distributed in, lists of images, and the download."""

import hashlib
import io
import os
import pickle
import pickletools
import tarfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from conftest import job_at, refusal, run_stage, some_damage
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image, ImageOps

from rarefeat.errors import RarefeatError
from rarefeat.images import input_hashes
from rarefeat.images.datasets import CIFAR_100, content_hash, copies, read_images
from rarefeat.images.fetch import fetch
from rarefeat.images.formats import _decode, colours, index_files, input_files
from rarefeat.images.input_hashes import hash_files
from rarefeat.images.splits import (
    balanced,
    class_order,
    few_shot,
    long_tailed,
    long_tailed_counts,
    read_indices,
    split_indices,
)
from rarefeat.workflow.config.cells import cell
from rarefeat.workflow.config.images import ImageData
from rarefeat.workflow.files.tensors import read_tensors, write_tensors
from rarefeat.workflow.run.metadata import read_job_metadata
from rarefeat.workflow.study_kind import IMAGE_DATA, IMAGE_SPLITS

CIFAR10 = Path(__file__).parents[3] / "shared/data/cifar10"
needs_cifar10 = pytest.mark.skipif(not CIFAR10.is_dir(), reason=f"CIFAR-10 is not at {CIFAR10}")
SDCLR_COUNTS = [4500, 2697, 1617, 969, 581, 348, 208, 125, 75, 45]
DIGITS = ImageData(format="digits")
LABELS = torch.arange(3).repeat(20)


# Counts and lists.


@pytest.mark.parametrize(
    ("classes", "n_max", "totals", "smallest"),
    [
        (10, 5000, [20431, 13996, 12406, 10844], [500, 100, 50, 19]),
        (10, 4500, [18388, 12596, 11165, 9758], [450, 90, 45, 17]),
        (100, 500, [19573, 12608, 10847, 9098], [50, 10, 5, 1]),
        (100, 450, [17614, 11349, 9754, 8180], [45, 9, 4, 1]),
        (200, 500, [39072, 25082, 21549, 18030], [50, 10, 5, 1]),
    ],
)
def test_the_counts_are_the_published_ones(classes, n_max, totals, smallest):
    counts = [long_tailed_counts(n_max, rho, classes) for rho in (10, 50, 100, 256)]
    assert [sum(each) for each in counts] == totals
    assert [each[-1] for each in counts] == smallest
    assert long_tailed_counts(4500, 100, 10) == SDCLR_COUNTS


@given(
    st.lists(st.integers(8, 30), min_size=2, max_size=5),
    st.floats(1, 8),
    st.floats(1, 8),
    st.integers(0, 1000),
)
def test_long_tailed_lists(sizes, rho, larger, seed):
    """Lists are nested in rho, and a balanced one of as many images differs as little as can be."""
    rho, larger = sorted((rho, larger))
    labels = torch.arange(len(sizes)).repeat_interleave(torch.tensor(sizes))
    labels = labels[torch.randperm(len(labels), generator=torch.Generator().manual_seed(seed))]
    indices = long_tailed(labels, rho, "study", seed)
    order = class_order("study", seed, len(sizes))
    assert sorted(order) == list(range(len(sizes)))
    counts = labels[indices].bincount()
    assert counts[order].tolist() == long_tailed_counts(min(sizes), rho, len(sizes))
    assert set(long_tailed(labels, larger, "study", seed).tolist()) <= set(indices.tolist())
    even = balanced(labels, len(indices), "study", seed)
    assert labels[even].bincount().tolist() == [len(indices) // len(sizes)] * len(sizes)
    for label in range(len(sizes)):
        tail, same = (set(part[labels[part] == label].tolist()) for part in (indices, even))
        assert tail <= same or same <= tail
    few = few_shot(labels, 3, "study", seed)
    assert labels[few].bincount().tolist() == [3] * len(sizes)
    for part in (indices, even, few):
        assert part.dtype == torch.int64
        assert (part.diff() > 0).all()


def test_a_draw_depends_on_its_own_study_and_seed_alone():
    labels = torch.arange(4).repeat(50)
    first = long_tailed(labels, 5, "study", 1)
    lists = [long_tailed(labels, 5, *key) for key in (("study", 2), ("other", 1))]
    assert torch.equal(long_tailed(labels, 5, "study", 1), first)
    assert not any(torch.equal(first, other) for other in lists)
    assert len({tuple(class_order("study", seed, 6)) for seed in range(20)}) > 10


def test_a_list_can_be_cut_from_fewer_images_than_there_are():
    labels = torch.arange(3).repeat_interleave(torch.tensor([30, 20, 25]))
    whole, cut = (long_tailed(labels, 4, "study", 1, n_max=n_max) for n_max in (20, 8))
    assert torch.equal(long_tailed(labels, 4, "study", 1), whole)
    assert sorted(labels[whole].bincount().tolist()) == [5, 10, 20]
    assert sorted(labels[cut].bincount().tolist()) == [2, 4, 8]
    assert set(cut.tolist()) <= set(whole.tolist())
    said = "data.n_max: must be at most 20, the images of class 1, "
    assert refusal(long_tailed, labels, 4, "study", 1, 21).startswith(said)
    data = ImageData(format="digits", n_max=8)
    split = split_indices(data, labels, 4.0, "long_tailed", "study", 1, 2)
    assert sorted(split["counts"].tolist()) == [2, 4, 8]


@pytest.mark.parametrize(
    ("array", "said"),
    [
        (np.array([0, 5]), "indices must be 0 to 4, those of the training images, got 5"),
        (np.array([3, 1, 3]), "indices must be distinct, got 3 twice"),
        (np.array([[0, 1]]), "got int64 of shape (1, 2)"),
        (np.array([{}]), "it is no whole .npy file"),
        (None, "No such file"),
    ],
)
def test_index_files(tmp_path, array, said):
    path = tmp_path / "list.npy"
    if array is not None:
        np.save(path, array)
    assert said in refusal(read_indices, path, 5)
    np.save(path, np.array([4, 0, 2]))
    assert read_indices(path, 5).tolist() == [0, 2, 4]
    path.write_bytes(path.read_bytes()[:-1])
    assert f"{path}: it is no whole .npy file" in refusal(read_indices, path, 5)


def test_drawn_splits():
    tail, even, equal = (
        split_indices(DIGITS, LABELS, rho, split, "study", 7, 2)
        for rho, split in ((4.0, "long_tailed"), (4.0, "balanced"), (1.0, "long_tailed"))
    )
    assert tail["pool"].tolist() == list(range(60))
    assert torch.equal(tail["pretrain"], long_tailed(LABELS, 4.0, "study", 7))
    assert torch.equal(even["pretrain"], balanced(LABELS, 35, "study", 7))
    assert torch.equal(tail["few_shot"], few_shot(LABELS, 2, "study", 7))
    assert tail["class_order"].tolist() == class_order("study", 7, 3)
    assert tail["counts"][tail["class_order"]].tolist() == [20, 10, 5]
    assert even["counts"].tolist() == [11, 11, 11]
    assert equal["class_order"].tolist() == [0, 1, 2]


def with_index_files(folder: Path, index_files={"pretrain": "{seed}.npy"}, **changes):  # noqa: B006
    files = {"folder": str(folder), "index_files": index_files}
    return ImageData(format="cifar_batches", **files, **changes)


def test_splits_from_index_files(tmp_path):
    pool = np.flatnonzero(np.arange(60) % 4 != 3)  # 15 images of each class
    classes = [pool[pool % 3 == k] for k in range(3)]
    np.save(tmp_path / "pool.npy", pool)
    np.save(tmp_path / "7.npy", np.concatenate([classes[0][:7], classes[1][:15], classes[2][:3]]))
    np.save(tmp_path / "few7.npy", np.concatenate([each[:1] for each in classes]))
    files = {"pretrain": "{seed}.npy", "pool": "pool.npy"}
    data = with_index_files(tmp_path, index_files=files)

    def drawn(rho):
        return split_indices(data, LABELS, rho, "long_tailed", "study", 7, 2)

    split = drawn(5.0)
    assert split["pool"].tolist() == pool.tolist()
    assert split["counts"].tolist() == [7, 15, 3]
    assert split["class_order"].tolist() == [1, 0, 2]
    assert set(split["few_shot"].tolist()) <= set(pool.tolist())
    assert LABELS[split["few_shot"]].bincount().tolist() == [2, 2, 2]
    assert refusal(drawn, 10.0) == "rho: must be that of the classes of 7.npy, 15 / 3 = 5, got 10"
    data = with_index_files(tmp_path, index_files=files | {"few_shot": "few{seed}.npy"})
    assert LABELS[drawn(4.97)["few_shot"]].bincount().tolist() == [1, 1, 1]
    np.save(tmp_path / "few7.npy", np.array([0, 1]))
    assert "class 2 has no image" in refusal(drawn, 5.0)
    np.save(tmp_path / "7.npy", np.array([0, 1, 2, 3]))
    assert "7.npy: indices must be in data.index_files.pool, pool.npy, got 3" in refusal(drawn, 1.0)
    with pytest.raises(ValueError, match="leave classes empty"):
        with_index_files(tmp_path, classes=[0, 1])


def test_a_list_with_rounded_counts_has_the_rho_it_was_made_with(tmp_path):
    labels = torch.arange(2).repeat(450)
    np.save(tmp_path / "1.npy", long_tailed(labels, 100, "study", 1).numpy())
    data = with_index_files(tmp_path)
    for rho in (100, 112.5):
        split = split_indices(data, labels, rho, "long_tailed", "s", 1, 1)
        assert sorted(split["counts"].tolist()) == [4, 450]
    assert "450 / 4 = 112.5" in refusal(split_indices, data, labels, 50, "long_tailed", "s", 1, 1)


# Data sets.


def random_pixels(n: int, side: int = 32) -> np.ndarray:
    return np.random.default_rng(n).integers(0, 256, (n, 3, side, side), dtype=np.uint8)


def python2_pickle(batch: dict[bytes, object]) -> bytes:
    """Pickle as Python 2 did: protocol 2, every string one of bytes, numpy under its old names."""
    as_python2 = {
        "PROTO": b"\x80\x02",
        "SHORT_BINBYTES": b"U",
        "BINBYTES": b"T",
        "BINUNICODE": b"T",
    }
    content = bytearray(pickle.dumps(batch, protocol=3))
    for code, _, position in pickletools.genops(bytes(content)):
        if replacement := as_python2.get(code.name):
            content[position : position + len(replacement)] = replacement
    return bytes(content).replace(b"cnumpy._core.multiarray\n", b"cnumpy.core.multiarray\n")


def cifar10_batches(images: np.ndarray, labels: list[int]) -> dict[str, bytes]:
    """Two images a batch: five training batches and the test batch."""
    names = [*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"]
    return {
        name: python2_pickle(
            {
                b"batch_label": name.encode(),
                b"labels": labels[i : i + 2],
                b"data": images[i : i + 2].reshape(2, -1),
            }
        )
        for name, i in zip(names, range(0, 12, 2), strict=True)
    }


def write_archive(path: Path, folder: str, batches: dict[str, bytes]) -> None:
    with tarfile.open(path, "w:gz") as archive:
        for name, content in batches.items():
            member = tarfile.TarInfo(f"{folder}/{name}")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))


def write_cifar10(folder: Path, batches: dict[str, bytes]) -> None:
    write_archive(folder / "cifar-10-python.tar.gz", "cifar-10-batches-py", batches)


def write_files(folder: Path, contents: dict[str, bytes]) -> None:
    folder.mkdir(exist_ok=True)
    for name, content in contents.items():
        (folder / name).write_bytes(content)


def batches_in(folder: Path) -> ImageData:
    return ImageData(format="cifar_batches", folder=str(folder))


IMAGES, TWELVE = random_pixels(12), [0, 1] * 6


def test_digits():
    tensors = read_images(DIGITS)
    assert tensors["train"].shape == (1201, 3, 8, 8)
    assert tensors["test"].shape == (596, 3, 8, 8)
    assert tensors["train"].dtype == torch.uint8
    assert tensors["train"].max() == 255
    assert torch.equal(tensors["train"][:, 0], tensors["train"][:, 2])
    labels, test_labels = tensors["train_labels"], tensors["test_labels"]
    every = labels.bincount() + test_labels.bincount()
    assert torch.equal(test_labels.bincount(), every // 3)
    some = read_images(ImageData(format="digits", classes=[7, 2]))
    assert torch.equal(some["test"], tensors["test"][(test_labels == 7) | (test_labels == 2)])
    assert torch.equal(some["train"][some["train_labels"] == 0], tensors["train"][labels == 7])


@pytest.mark.parametrize("form", ["archive", "unpacked", "itself"])
def test_cifar10_batches(tmp_path, form):
    batches = cifar10_batches(IMAGES, TWELVE)
    if form == "archive":
        write_cifar10(tmp_path, batches)
    else:
        write_files(tmp_path / "cifar-10-batches-py" if form == "unpacked" else tmp_path, batches)
    tensors = read_images(batches_in(tmp_path))
    assert np.array_equal(tensors["train"], IMAGES[:10])
    assert np.array_equal(tensors["test"], IMAGES[10:])
    assert tensors["train_labels"].tolist() + tensors["test_labels"].tolist() == TWELVE


def test_cifar100_batches(tmp_path):
    parts = {"train": slice(0, 8), "test": slice(8, 12)}
    batches = {
        name: python2_pickle(
            {
                b"data": IMAGES[part].reshape(-1, 3072),
                b"fine_labels": TWELVE[part],
                b"coarse_labels": [0] * 9,
            }
        )
        for name, part in parts.items()
    }
    write_archive(tmp_path / "cifar-100-python.tar.gz", "cifar-100-python", batches)
    data = batches_in(tmp_path)
    tensors = read_images(data)
    assert np.array_equal(tensors["train"], IMAGES[:8])
    assert tensors["test_labels"].tolist() == TWELVE[8:]
    write_cifar10(tmp_path, cifar10_batches(IMAGES, TWELVE))
    assert "holds both CIFAR-10 and CIFAR-100" in refusal(read_images, data)


class Malicious:
    def __init__(self, victim: Path):
        self.victim = victim

    def __reduce__(self):
        return os.mkdir, (str(self.victim),)


def test_damaged_batches_and_those_that_would_run_code(tmp_path):
    archive, data = tmp_path / "cifar-10-python.tar.gz", batches_in(tmp_path)
    pixels = IMAGES[:2].reshape(2, -1)
    whole, victim = cifar10_batches(IMAGES, TWELVE), tmp_path / "made_by_the_pickle"
    narrow, one = {b"data": pixels[:, 1:], b"labels": [0, 1]}, {b"data": pixels, b"labels": [0]}
    running_code = pickle.dumps({b"data": Malicious(victim), b"labels": []})
    for name, content, said in (
        (
            "data_batch_2",
            python2_pickle(narrow),
            "data must be uint8 of shape (n, 3072), got",
        ),
        ("data_batch_2", python2_pickle(one), "labels must be 2 integers, got shape (1,)"),
        ("test_batch", whole["test_batch"][:-50], "pickle data was truncated"),
        ("data_batch_3", running_code, "it asks for posix.mkdir, which is refused"),
    ):
        write_cifar10(tmp_path, whole | {name: content})
        assert f"{name}: {said}" in refusal(read_images, data)
    assert not victim.exists()
    write_cifar10(tmp_path, {"test_batch": b""})
    assert f"{archive} lacks data_batch_1" in refusal(read_images, data)
    archive.write_bytes(b"no archive")
    assert f"cannot read {archive}" in refusal(read_images, data)
    archive.unlink()
    assert "make fetch" in refusal(read_images, data)
    assert "absent is no folder" in refusal(read_images, batches_in(tmp_path / "absent"))


@pytest.mark.parametrize("name", ["cifar-10-python.tar.gz", "data_batch_2", "train-0.parquet"])
def test_a_damaged_data_set_is_refused_or_read_as_it_was(tmp_path, name):
    """gzip keeps a checksum of its own; what has none needs data.sha256."""
    batches, data = cifar10_batches(IMAGES, TWELVE), batches_in(tmp_path)
    match name:
        case "data_batch_2":
            write_files(tmp_path, batches)
        case "train-0.parquet":
            write_twelve(tmp_path)
            data = ImageData(format="cifar_parquet", folder=str(tmp_path))
        case _:
            write_cifar10(tmp_path, batches)
    whole = read_images(data)
    if not name.endswith("gz"):
        data = data.model_copy(update={"sha256": content_hash(whole)})
    refusals = []
    for damaged in some_damage((tmp_path / name).read_bytes(), 150):
        (tmp_path / name).write_bytes(damaged)
        try:
            found = read_images(data)
        except RarefeatError as error:
            refusals.append(str(error))
        else:
            assert all(torch.equal(found[key], tensor) for key, tensor in whole.items())
    assert len(refusals) > 50
    assert all(str(tmp_path) in said and "\n" not in said for said in refusals)


def encoded(pixels: np.ndarray) -> bytes:
    """One image (3, H, W) as PNG."""
    file = io.BytesIO()
    Image.fromarray(np.ascontiguousarray(pixels.transpose(1, 2, 0))).save(file, "png")
    return file.getvalue()


def write_parquet(
    path: Path, contents: list[bytes], labels: list[int], image: str = "img", label: str = "label"
) -> None:
    path.parent.mkdir(exist_ok=True)
    images = [{"bytes": content, "path": None} for content in contents]
    kind = pa.struct({"bytes": pa.binary(), "path": pa.string()})
    pq.write_table(
        pa.table({image: pa.array(images, kind), label: pa.array(labels, pa.int64())}), path
    )


def write_twelve(folder: Path) -> None:
    for name, part in {"train": slice(10), "test": slice(10, 12)}.items():
        write_parquet(
            folder / f"{name}-0.parquet", [encoded(pixels) for pixels in IMAGES[part]], TWELVE[part]
        )


@pytest.mark.parametrize(
    ("place", "image", "label"), [(".", "img", "label"), ("data", "image", "fine_label")]
)
def test_cifar_parquet(tmp_path, place, image, label):
    contents = [encoded(pixels) for pixels in IMAGES]
    parts = {"train-0-of-2": slice(5), "train-1-of-2": slice(5, 10), "test-0-of-1": slice(10, 12)}
    for name, part in parts.items():
        path = tmp_path / place / f"{name}.parquet"
        write_parquet(path, contents[part], TWELVE[part], image, label)
    tensors = read_images(ImageData(format="cifar_parquet", folder=str(tmp_path)))
    assert np.array_equal(tensors["train"], IMAGES[:10])
    assert np.array_equal(tensors["test"], IMAGES[10:])
    assert tensors["train_labels"].tolist() == TWELVE[:10]


def test_damaged_parquet(tmp_path):
    contents = [encoded(pixels) for pixels in IMAGES[:4]]
    train, test = tmp_path / "train-0.parquet", tmp_path / "test-0.parquet"
    data = ImageData(format="cifar_parquet", folder=str(tmp_path))
    assert "holds no train-*.parquet" in refusal(read_images, data)
    write_parquet(test, contents[:2], [0, 1])
    postscript = io.BytesIO()  # Pillow would start Ghostscript for it, whatever the file's name.
    Image.new("RGB", (32, 32)).save(postscript, "EPS")
    other_size = [encoded(pixels) for pixels in random_pixels(2, 16)]
    for images, labels, said in (
        ([*contents[:2], contents[2][:60]], [0, 1, 0], "row 2: cannot be decoded as an image"),
        ([contents[0], postscript.getvalue()], [0, 1], "row 1: cannot be decoded as an image"),
        ([contents[0], other_size[0]], [0, 1], "row 1: 16 x 16 pixels, but the first image has"),
        (other_size, [0, 1], "32 x 32 pixels, but the training images have 16 x 16 pixels"),
        (contents, [0, 1, 0, None], "column label must hold an integer in every row"),
    ):
        write_parquet(train, images, labels)
        assert said in refusal(read_images, data)
    write_parquet(train, contents, [0, 1, 0, 1], image="picture")
    assert "the columns are picture, label; img or image" in refusal(read_images, data)
    train.write_bytes(train.read_bytes()[:-9])
    assert f"cannot read {train}" in refusal(read_images, data)


def image_folder(folder: Path, **changes) -> ImageData:
    keys = {"size": 8, "train_list": "train.txt", "test_list": "test.txt"}
    return ImageData(format="image_folder", folder=str(folder), **keys | changes)


def write_image_folder(folder: Path) -> np.ndarray:
    """Four training images, one of them wide and one tall, and two test images, two classes."""
    pixels, place = random_pixels(6, 8), folder / "some images"
    place.mkdir()
    for i in range(6):
        (place / f"{i}.png").write_bytes(encoded(pixels[i]))
    left, right = np.zeros((3, 8, 2), np.uint8), np.full((3, 8, 6), 255, np.uint8)
    wide, tall = (np.concatenate([side, pixels[i], side], 2) for side, i in ((left, 2), (right, 3)))
    (place / "2.png").write_bytes(encoded(wide))
    (place / "3.png").write_bytes(encoded(tall.transpose(0, 2, 1)))
    pixels[3] = pixels[3].transpose(0, 2, 1)
    (folder / "train.txt").write_text("".join(f"some images/{i}.png {i % 2}\n" for i in range(4)))
    (folder / "test.txt").write_text(f"\nsome images/4.png 0\n{place}/5.png\t1\n\n")
    return pixels


def test_an_image_folder(tmp_path):
    pixels = write_image_folder(tmp_path)
    tensors = read_images(image_folder(tmp_path))
    assert np.array_equal(tensors["train"], pixels[:4])
    assert np.array_equal(tensors["test"], pixels[4:])
    assert tensors["train_labels"].tolist() == [0, 1, 0, 1]
    small = read_images(image_folder(tmp_path, size=4))
    assert small["train"].shape == (4, 3, 4, 4)
    expected = Image.open(tmp_path / "some images/1.png").resize((4, 4), Image.Resampling.BICUBIC)
    assert np.array_equal(small["train"][1], np.asarray(expected).transpose(2, 0, 1))


def test_pretrain_list_is_used_whole_and_not_for_probes(tmp_path):
    pixels = write_image_folder(tmp_path)
    lines = ("3.png 1", "0.png 0", "2.png 0")
    (tmp_path / "long.txt").write_text("".join(f"some images/{line}\n" for line in lines))
    data = image_folder(tmp_path, pretrain_list="long.txt")
    tensors = read_images(data)
    labels = tensors["train_labels"]
    assert np.array_equal(tensors["train"], pixels[[0, 1, 2, 3, 3, 0, 2]])
    assert labels.tolist() == [0, 1, 0, 1, 1, 0, 0]
    at = 2, "long_tailed", "study", 1, 1
    split = split_indices(data, labels, *at, listed=int(tensors["listed"]))
    assert split["pool"].tolist() == [0, 1, 2, 3]
    assert split["pretrain"].tolist() == [4, 5, 6]
    assert split["class_order"].tolist() == [0, 1]
    assert set(split["few_shot"].tolist()) < {0, 1, 2, 3}
    words = refusal(split_indices, data, labels[:-2], *at, 1)
    assert words == "long.txt: class 0 has no image; every class needs one at least"


def test_splits_stage_writes_every_seed(tmp_path):
    labels, data = torch.arange(60) % 3, ImageData(format="digits")
    write_tensors(
        tmp_path / "images/s.safetensors",
        {"train_labels": labels, "listed": torch.tensor(0)},
        job_at(IMAGE_DATA, {"data": data}, "s", None, "").to_json,
    )
    config, output = {"draws": "s", "data": data, "few_shot": 2}, tmp_path / "out.safetensors"
    job = job_at(IMAGE_SPLITS, config, "s", cell(rho=4.0, split="long_tailed"), "4-5")
    run_stage(job, tmp_path, output)
    expected = split_indices(data, labels, 4.0, "long_tailed", "s", 5, 2)
    found = read_tensors(output, *(f"5/{key}" for key in expected))
    assert all(map(torch.equal, found, expected.values()))


def test_missing_images_are_told_before_any_is_decoded(tmp_path):
    """A file that two lists name counts once."""
    write_image_folder(tmp_path)
    (tmp_path / "some images/1.png").write_bytes(b"no image")
    for name in ("test", "long"):
        (tmp_path / f"{name}.txt").write_text("a.png 0\nb.png 1\n")
    said = f"data.folder: 2 of 6 files are missing, {tmp_path}/a.png the first; put them there"
    assert refusal(read_images, image_folder(tmp_path, pretrain_list="long.txt")) == said


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("test some images/../some images/1.png 1", "which is trained on; 1 of 7"),
        ("test some images/link.png 1", "link.png (test.txt, line 5): the same image as"),
        ("test some images/again.bmp 0", "0.png (train.txt, line 1), which is trained on; 1 of 7"),
        ("train some images/0.png 1", "0.png (train.txt, line 1), in another class; 1 of 7"),
        ("long some images/4.png 0", "4.png (long.txt, line 2), which is trained on; 1 of 8"),
        ("long some images/1.png 0", "1.png (train.txt, line 2), in another class; 1 of 8"),
    ],
)
def test_copies_are_refused_unless_allowed(tmp_path, line, said):
    write_image_folder(tmp_path)
    (tmp_path / "long.txt").write_text("some images/3.png 1\n")
    (tmp_path / "some images/link.png").symlink_to("1.png")
    Image.open(tmp_path / "some images/0.png").save(tmp_path / "some images/again.bmp")
    name, _, entry = line.partition(" ")
    with (tmp_path / f"{name}.txt").open("a") as list_:
        list_.write(f"{entry}\n")
    data = image_folder(tmp_path, **({"pretrain_list": "long.txt"} if name == "long" else {}))
    message = refusal(read_images, data)
    assert said in message
    assert message.endswith("say data.copies: true to take them as they are")
    read_images(data.model_copy(update={"copies": True}))


# What the modes of Pillow mean.

RAMP = np.arange(256, dtype=np.uint8).reshape(16, 16)
GREY, COLOUR = Image.fromarray(RAMP), Image.fromarray(np.stack([RAMP, RAMP.T, 255 - RAMP], -1))
WIDE = RAMP.astype(np.uint16) * 257


def opaque(mode: str, alpha: int = 255) -> Image.Image:
    """The ramp in a mode with an alpha channel."""
    image = (GREY if mode == "LA" else COLOUR).convert(mode)
    image.putalpha(alpha)
    return image


PALETTE = GREY.convert("P")
SEE_THROUGH = PALETTE.copy()
SEE_THROUGH.info["transparency"] = 7


def three(grey: np.ndarray) -> np.ndarray:
    return grey[..., None].repeat(3, -1)


@pytest.mark.parametrize(
    ("image", "expected"),
    [
        (Image.fromarray(RAMP > 99), three((RAMP > 99) * 255)),
        (GREY, three(RAMP)),
        (opaque("LA"), three(RAMP)),
        (PALETTE, three(RAMP)),
        (COLOUR, np.asarray(COLOUR)),
        (opaque("RGBA"), np.asarray(COLOUR)),
        (COLOUR.convert("CMYK"), np.asarray(COLOUR)),
        (COLOUR.convert("YCbCr"), np.asarray(COLOUR)),
        (COLOUR.convert("HSV"), np.asarray(COLOUR)),
        (Image.fromarray(WIDE), three(RAMP)),
        (Image.frombytes("I;16B", (16, 16), WIDE.astype(">u2").tobytes()), three(RAMP)),
    ],
    ids=lambda item: item.mode if isinstance(item, Image.Image) else "",
)
def test_a_ramp_reads_as_its_mode_means_it(image, expected):
    found = np.asarray(colours(image)).astype(int)
    near = {"YCbCr": 4, "HSV": 8}.get(image.mode, 0)  # they are rounded on the way there and back
    assert np.abs(found - expected).max() <= near


@pytest.mark.parametrize(
    ("image", "said"),
    [
        (opaque("LA", 254), "transparent in places"),
        (SEE_THROUGH, "transparent in places"),
        (Image.fromarray(WIDE.astype(np.int32)), "mode I have no sure meaning in 8 bits"),
        (Image.new("LAB", (4, 4)), "mode LAB have no sure meaning in 8 bits"),
    ],
    ids=lambda item: item.mode if isinstance(item, Image.Image) else "",
)
def test_mode_that_is_refused(image, said):
    assert said in refusal(colours, image)


@pytest.mark.parametrize(("form", "taken"), [("GIF", False), ("TIFF", False), ("MPO", True)])
def test_file_of_several_images_is_refused(tmp_path, form, taken):
    """A photograph with further images of the camera is none."""
    COLOUR.save(tmp_path / "some", format=form, save_all=True, append_images=[COLOUR.rotate(90)])
    files = [("some", str(tmp_path / "some"))]
    if taken:
        assert _decode(files).shape == (1, 3, *COLOUR.size)
    else:
        assert refusal(_decode, files).startswith("some: it holds 2 images, of which one is wanted")


def test_an_image_is_read_as_a_viewer_shows_it(tmp_path):
    exif, path = Image.Exif(), tmp_path / "turned.png"
    for turned in range(1, 9):
        exif[0x0112] = turned
        COLOUR.save(path, exif=exif)
        expected = np.asarray(ImageOps.exif_transpose(Image.open(path)))
        assert np.array_equal(expected, np.asarray(COLOUR)) == (turned == 1)
        assert np.array_equal(_decode([("turned", str(path))])[0].transpose(1, 2, 0), expected)


# Inputs by content.


def hash_of(data: ImageData, known: Path | None = None) -> str:
    return hash_files(input_files(data), known)


@pytest.mark.parametrize(
    ("change", "same"),
    [
        ("renamed", True),
        ("reformatted", True),
        ("reordered", False),
        ("one byte and the old date", False),
        ("one image less", False),
    ],
)
def test_hash_depends_on_content_not_on_names_or_times(tmp_path, change, same):
    place, known = tmp_path / "mine", tmp_path / "known.json"
    place.mkdir()
    write_image_folder(place)
    data, image, test = image_folder(place), place / "some images/4.png", place / "test.txt"
    for path in place.rglob("*.*"):
        os.utime(path, ns=(0, 0))
    before, text = hash_of(data, known), test.read_text()
    match change:
        case "renamed":
            image.rename(image.with_name("four.png"))
            test.write_text(text.replace("4.png", "four.png"))
        case "reformatted":
            test.write_bytes(b"\xef\xbb\xbf" + text.encode().replace(b"\n", b" \r\n\r\n"))
        case "reordered":
            test.write_text("\n".join(reversed(text.split("\n"))))
        case "one image less":
            train = place / "train.txt"
            train.write_text(train.read_text().replace("some images/2.png 0\n", ""))
        case _:
            image.write_bytes(image.read_bytes()[:-1] + b"?")
            os.utime(image, ns=(0, 0))
    assert (hash_of(data, known) == before) == same
    assert hash_of(data, known) == hash_of(data)


def test_hash_cache_spares_reading_unless_damaged(tmp_path, monkeypatch):
    """And leaves out files that just changed."""
    write_image_folder(tmp_path)
    data, known, read = image_folder(tmp_path), tmp_path / "known.json", []
    first, hash_file = hash_of(data, known), input_hashes.hash_file
    assert known.read_text() == "{}"
    monkeypatch.setattr(input_hashes, "CLOCK_TICK_NS", -1)
    monkeypatch.setattr(
        input_hashes, "hash_file", lambda path: read.append(path) or hash_file(path)
    )
    for change, total in (
        (lambda: None, 6),
        (lambda: None, 6),
        (lambda: os.utime(tmp_path / "some images/1.png"), 7),
        (lambda: known.write_bytes(known.read_bytes()[:-1]), 13),
    ):
        change()
        assert hash_of(data, known) == first
        assert len(read) == total


def test_hash_of_archives_and_of_index_files_by_seed(tmp_path):
    assert input_files(DIGITS) == []
    batches, data = cifar10_batches(IMAGES, TWELVE), batches_in(tmp_path)
    write_cifar10(tmp_path, batches)
    packed = hash_of(data)
    (tmp_path / "cifar-10-python.tar.gz").unlink()
    write_files(tmp_path, batches)
    unpacked = hash_of(data)
    (tmp_path / "data_batch_3").write_bytes(batches["data_batch_4"])
    assert len({packed, unpacked, hash_of(data)}) == 3
    data = with_index_files(tmp_path, index_files={"pretrain": "{seed}.npy", "pool": "pool.npy"})
    for name in ("1", "2", "pool"):
        np.save(tmp_path / f"{name}.npy", np.arange(4))
    marks = [mark for mark, _ in index_files(data, [1, 2])]
    assert marks == ["pretrain 1", "pool 1", "pretrain 2", "pool 2"]
    first, second = (hash_files(index_files(data, [seed])) for seed in (1, 2))
    np.save(tmp_path / "1.npy", np.arange(3))
    assert hash_files(index_files(data, [1])) != first
    assert hash_files(index_files(data, [2])) == second


def test_files_that_change_after_the_plan_are_refused(tmp_path):
    write_image_folder(tmp_path)
    data, output = image_folder(tmp_path), tmp_path / "images.safetensors"
    job = job_at(IMAGE_DATA, {"data": data, "contents": hash_of(data)}, "s", None, "")
    run_stage(job, tmp_path, output)
    assert read_job_metadata(output)["config"]["contents"] == hash_of(data)
    assert [tensor.tolist() for tensor in read_tensors(output, "train_labels", "test_labels")] == [
        [0, 1, 0, 1],
        [0, 1],
    ]
    output.unlink()
    (tmp_path / "test.txt").write_text("some images/4.png 1\nsome images/5.png 0\n")
    message = "s: the files have changed since this run was planned; run snakemake again"
    assert refusal(run_stage, job, tmp_path, output) == message
    assert not output.exists()


# The download.


def test_a_download(tmp_path):
    served, folder, content = tmp_path / "archive.tar.gz", tmp_path / "data", bytes(range(256))
    served.write_bytes(content)
    address, checksum = served.as_uri(), hashlib.md5(content).hexdigest()
    assert f"expected MD5 0, got {checksum}" in refusal(fetch, address, "0", folder)
    assert not list(folder.iterdir())
    path = folder / "archive.tar.gz"
    path.write_bytes(b"half")  # it is replaced
    assert fetch(address, checksum, folder) == path
    assert path.read_bytes() == content
    served.unlink()
    assert fetch(address, checksum, folder) == path  # the server is not asked
    path.write_bytes(content[:-1])
    assert f"cannot download {address}" in refusal(fetch, address, checksum, folder)


# The real CIFAR-10.


@pytest.fixture(scope="module")
def cifar10() -> dict[str, torch.Tensor]:
    return read_images(ImageData(format="cifar_parquet", folder=str(CIFAR10)))


@needs_cifar10
def test_cifar10_has_published_counts_mean_and_lists(cifar10):
    assert cifar10["train_labels"].bincount().tolist() == [5000] * 10
    assert cifar10["test_labels"].bincount().tolist() == [1000] * 10
    mean = cifar10["train"][::10].float().mean(dim=(0, 2, 3)) / 255
    assert mean.tolist() == pytest.approx([0.4914, 0.4822, 0.4465], abs=0.005)
    names = {"pretrain": "split{seed}_D_i", "few_shot": "split{seed}_S_b", "pool": "trainIdxList"}
    files = {key: f"sdclr_splits/{name}.npy" for key, name in names.items()}
    data = ImageData(format="cifar_parquet", folder=str(CIFAR10), index_files=files)
    labels = cifar10["train_labels"]
    for seed in range(1, 6):
        split = split_indices(data, labels, 100.0, "long_tailed", "study", seed, 45)
        assert split["counts"][split["class_order"]].tolist() == SDCLR_COUNTS
        assert labels[split["few_shot"]].bincount().tolist() == [45] * 10
        assert len(split["pool"]) == 45000


@needs_cifar10
def test_cifar10_has_no_copy_and_cifar100_those_that_are_allowed(cifar10):
    assert list(copies(cifar10)) == []
    folder = CIFAR10.with_name("cifar100")
    if not folder.is_dir():
        pytest.skip(f"CIFAR-100 is not at {folder}")
    found = read_images(ImageData(format="cifar_parquet", folder=str(folder)))
    assert (len(found["train"]), len(found["test"]), len(list(copies(found)))) == CIFAR_100
