"""Image data sets in the forms they are distributed in, lists of images, and the download."""

import hashlib
import io
import os
import pickle
import pickletools
import re
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
from rarefeat.images.formats import _decode, colours, index_files, input_files, pixel_values
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
from rarefeat.workflow.config.images import ImageData
from rarefeat.workflow.files.tensors import read_tensors
from rarefeat.workflow.study_kind import IMAGE_DATA

CIFAR10 = Path(__file__).parents[3] / "shared/data/cifar10"
needs_cifar10 = pytest.mark.skipif(not CIFAR10.is_dir(), reason=f"CIFAR-10 is not at {CIFAR10}")
SDCLR_COUNTS = [4500, 2697, 1617, 969, 581, 348, 208, 125, 75, 45]
DIGITS = ImageData(format="digits")
LABELS = torch.arange(3).repeat(20)
RANDOM = np.random.default_rng(0).integers(0, 256, (12, 3, 32, 32), dtype=np.uint8)
TWELVE = [0, 1] * 6


@pytest.mark.parametrize(
    ("classes", "n_max", "totals", "smallest"),
    [
        (10, 5000, [20431, 13996, 12406, 10844], [500, 100, 50, 19]),
        (10, 4500, [18388, 12596, 11165, 9758], [450, 90, 45, 17]),
        (100, 500, [19573, 12608, 10847, 9098], [50, 10, 5, 1]),
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
    first = long_tailed(LABELS, 5, "study", 1)
    others = [long_tailed(LABELS, 5, *key) for key in (("study", 2), ("other", 1))]
    assert torch.equal(long_tailed(LABELS, 5, "study", 1), first)
    assert not any(torch.equal(first, other) for other in others)
    assert len({tuple(class_order("study", seed, 6)) for seed in range(20)}) > 10


def test_drawn_splits():
    tail, even, equal, fewer = (
        split_indices(data, LABELS, rho, split, "study", 7, 2)
        for data, rho, split in (
            (DIGITS, 4.0, "long_tailed"),
            (DIGITS, 4.0, "balanced"),
            (DIGITS, 1.0, "long_tailed"),
            (ImageData(format="digits", n_max=8), 4.0, "long_tailed"),
        )
    )
    assert tail["pool"].tolist() == list(range(60))
    assert torch.equal(tail["pretrain"], long_tailed(LABELS, 4.0, "study", 7))
    assert torch.equal(even["pretrain"], balanced(LABELS, 35, "study", 7))
    assert torch.equal(tail["few_shot"], few_shot(LABELS, 2, "study", 7))
    assert tail["class_order"].tolist() == class_order("study", 7, 3)
    assert tail["counts"][tail["class_order"]].tolist() == [20, 10, 5]
    assert even["counts"].tolist() == [11, 11, 11]
    assert equal["class_order"].tolist() == [0, 1, 2]
    assert sorted(fewer["counts"].tolist()) == [2, 4, 8]
    assert set(fewer["pretrain"].tolist()) <= set(tail["pretrain"].tolist())
    said = "data.n_max: must be at most 20, the images of class 0, "
    assert refusal(long_tailed, LABELS, 4, "study", 1, 21).startswith(said)


def test_splits_from_index_files(tmp_path):
    """Their rho is that which their counts were rounded from, or that of the counts."""
    labels, names = torch.arange(2).repeat(450), {"pretrain": "{seed}.npy", "pool": "pool.npy"}
    drawn = long_tailed(labels, 100, "study", 1).numpy()
    np.save(tmp_path / "1.npy", drawn[::-1])
    np.save(tmp_path / "pool.npy", np.arange(900))
    data = ImageData(format="cifar_batches", folder=str(tmp_path), index_files=names)
    at = labels, 112.5, "long_tailed", "s", 1, 1
    split = split_indices(data, *at)
    assert split["pretrain"].tolist() == drawn.tolist()
    assert sorted(split["counts"].tolist()) == [4, 450]
    assert split_indices(data, labels, 100.0, *at[2:])["pool"].tolist() == list(range(900))
    assert "450 / 4 = 112.5, got 50" in refusal(split_indices, data, labels, 50.0, *at[2:])
    np.save(tmp_path / "pool.npy", np.delete(np.arange(900), drawn[:1]))
    assert "1.npy: indices must be in data.index_files.pool" in refusal(split_indices, data, *at)
    np.save(tmp_path / "1.npy", drawn[1:2])
    assert "has no image" in refusal(split_indices, data, *at)


@pytest.mark.parametrize("first_of_each_class", [False, True])
@pytest.mark.parametrize(("n_classes", "size"), [(4, 200), (100, 200)])
def test_index_files_of_another_order_of_the_images(tmp_path, n_classes, size, first_of_each_class):
    by_class = torch.arange(n_classes).repeat_interleave(size)
    original = by_class[torch.randperm(len(by_class), generator=torch.Generator().manual_seed(0))]
    tail, few = long_tailed(original, 50, "s", 1), few_shot(original, 20, "s", 1)
    if first_of_each_class:
        parts = [(original == k).nonzero()[:n] for k, n in enumerate(original[tail].bincount())]
        tail = torch.cat(parts).squeeze()
    np.save(tmp_path / "long.npy", tail.numpy())
    np.save(tmp_path / "few.npy", few.numpy())
    names = {"pretrain": "long.npy", "few_shot": "few.npy"}
    data = ImageData(format="cifar_parquet", folder=str(tmp_path), index_files=names)
    at = "long_tailed", "s", 1, 1
    assert torch.equal(split_indices(data, original, 50.0, *at)["few_shot"], few)
    message = refusal(split_indices, data, by_class, 50.0, *at)
    assert re.match(r".*long\.npy.* the list may be made for another order", message)


@pytest.mark.parametrize(
    ("array", "said"),
    [
        (np.array([0, 5]), "indices must be 0 to 4, those of the training images, got 5"),
        (np.array([3, 1, 3]), "indices must be distinct, got 3 twice"),
        (np.array([[0, 1]]), "got int64 of shape (1, 2)"),
        (np.array([{}]), "it is no whole .npy file"),
    ],
)
def test_wrong_index_file_is_one_line(tmp_path, array, said):
    np.save(tmp_path / "list.npy", array)
    assert said in refusal(read_indices, tmp_path / "list.npy", 5)


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


def write_cifar(folder: Path, names: list[str], key: bytes, size: int, **changes: bytes) -> None:
    archive = "cifar-10" if key == b"labels" else "cifar-100"
    with tarfile.open(folder / f"{archive}-python.tar.gz", "w:gz") as file:
        for name, i in zip(names, range(0, 12, size), strict=True):
            pixels = RANDOM[i : i + size].reshape(-1, 3072)
            batch = python2_pickle({b"data": pixels, key: TWELVE[i : i + size]})
            member = tarfile.TarInfo(f"{archive}-batches-py/{name}")
            member.size = len(content := changes.get(name, batch))
            file.addfile(member, io.BytesIO(content))


CIFAR10_FORM = [*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"], b"labels", 2
CIFAR100_FORM = ["train", "test"], b"fine_labels", 6


def read_folder(folder: Path, form: str = "cifar_batches", **keys) -> dict[str, torch.Tensor]:
    return read_images(ImageData(format=form, folder=str(folder), **keys))


@pytest.mark.parametrize("form", [CIFAR10_FORM, CIFAR100_FORM])
@pytest.mark.parametrize("packed", [True, False])
def test_cifar_batches(tmp_path, form, packed):
    write_cifar(tmp_path, *form)
    (archive,) = tmp_path.iterdir()
    if not packed:
        with tarfile.open(archive) as file:
            for member in file:
                (tmp_path / Path(member.name).name).write_bytes(file.extractfile(member).read())
        archive.unlink()
    tensors = read_folder(tmp_path)
    assert np.array_equal(torch.cat([tensors["train"], tensors["test"]]), RANDOM)
    assert len(tensors["test"]) == form[2]
    assert tensors["train_labels"].tolist() + tensors["test_labels"].tolist() == TWELVE


class Malicious:
    def __init__(self, victim: Path):
        self.victim = victim

    def __reduce__(self):
        return os.mkdir, (str(self.victim),)


def test_damaged_batches_and_those_that_would_run_code(tmp_path):
    victim, one = tmp_path / "made_by_the_pickle", {b"data": RANDOM[:1].reshape(1, -1)}
    for content, said in (
        (python2_pickle({b"data": RANDOM[:1, 0], b"labels": [0]}), "data_batch_2: cannot reshape"),
        (python2_pickle(one | {b"labels": [0, 1]}), "data_batch_2: cannot reshape array of size"),
        (pickle.dumps({b"data": Malicious(victim)}), "it asks for posix.mkdir, which is refused"),
    ):
        write_cifar(tmp_path, *CIFAR10_FORM, data_batch_2=content)
        assert said in refusal(read_folder, tmp_path)
    assert not victim.exists()
    write_cifar(tmp_path, *CIFAR100_FORM)
    assert "holds both CIFAR-10 and CIFAR-100" in refusal(read_folder, tmp_path)


def encoded(pixels: np.ndarray, kind: str = "png") -> bytes:
    file = io.BytesIO()
    Image.fromarray(np.ascontiguousarray(pixels.transpose(1, 2, 0))).save(file, kind)
    return file.getvalue()


def write_parquet(folder: Path, contents: list[bytes], image: str = "img") -> None:
    kind = pa.struct({"bytes": pa.binary(), "path": pa.string()})
    parts = {"train-0": slice(1), "train-1": slice(1, -2), "test-0": slice(-2, None)}
    for name, part in parts.items():
        images = pa.array([{"bytes": content, "path": None} for content in contents[part]], kind)
        table = pa.table({image: images, "fine_label": TWELVE[: len(contents)][part]})
        pq.write_table(table, folder / f"{name}.parquet")


def test_cifar_parquet(tmp_path):
    contents = [encoded(pixels) for pixels in RANDOM]
    write_parquet(tmp_path, contents)
    tensors = read_folder(tmp_path, "cifar_parquet")
    assert np.array_equal(torch.cat([tensors["train"], tensors["test"]]), RANDOM)
    assert tensors["train_labels"].tolist() == TWELVE[:10]
    for third, said in (
        (contents[2][:60], "row 1: cannot be decoded as an image"),
        (encoded(RANDOM[2], "EPS"), "row 1: cannot be decoded as an image"),  # by Ghostscript
        (encoded(RANDOM[2, :, :16, :16]), "row 1: 16 x 16 pixels, but the first image has"),
    ):
        write_parquet(tmp_path, [*contents[:2], third, *contents[3:]])
        assert said in refusal(read_folder, tmp_path, "cifar_parquet")
    write_parquet(tmp_path, contents, image="picture")
    said = "the columns are picture, fine_label; img or image"
    assert said in refusal(read_folder, tmp_path, "cifar_parquet")


@pytest.mark.parametrize("form", ["cifar_batches", "cifar_parquet"])
def test_a_damaged_data_set_is_refused_or_read_as_it_was(tmp_path, form):
    """gzip keeps a checksum of its own; what has none needs data.sha256."""
    write_cifar(tmp_path, *CIFAR10_FORM)
    write_parquet(tmp_path, [encoded(pixels) for pixels in RANDOM])
    whole, refusals = read_folder(tmp_path, form), []
    keys = {"sha256": content_hash(whole)} if form == "cifar_parquet" else {}
    path = tmp_path / ("train-1.parquet" if keys else "cifar-10-python.tar.gz")
    for damaged in some_damage(path.read_bytes(), 60):
        path.write_bytes(damaged)
        try:
            found = read_folder(tmp_path, form, **keys)
        except RarefeatError as error:
            refusals.append(str(error))
        else:
            assert all(torch.equal(found[key], tensor) for key, tensor in whole.items())
    assert len(refusals) > 20
    assert all(str(tmp_path) in said and "\n" not in said for said in refusals)


def image_folder(folder: Path, **changes) -> ImageData:
    keys = {"size": 8, "train_list": "train.txt", "test_list": "test.txt"}
    return ImageData(format="image_folder", folder=str(folder), **keys | changes)


@pytest.fixture
def pixels(tmp_path) -> np.ndarray:
    """Six images of a folder: four for training, one of them wide, and two for the test."""
    pixels = RANDOM[:6, :, :8, :8].copy()
    wide = np.pad(pixels[2], ((0, 0), (0, 0), (2, 2)))
    for i in range(6):
        (tmp_path / f"{i} .png").write_bytes(encoded(wide if i == 2 else pixels[i]))
    (tmp_path / "train.txt").write_text("".join(f"{i} .png {i % 2}\n" for i in range(4)))
    (tmp_path / "test.txt").write_text(f"\n4 .png 0\n{tmp_path}/5 .png\t1\n\n")
    (tmp_path / "long.txt").write_text("3 .png 1\n0 .png 0\n2 .png 0\n")
    return pixels


def test_an_image_folder(tmp_path, pixels):
    tensors = read_images(image_folder(tmp_path))
    assert np.array_equal(torch.cat([tensors["train"], tensors["test"]]), pixels)
    assert tensors["train_labels"].tolist() == [0, 1, 0, 1]
    small = read_images(image_folder(tmp_path, size=4))["train"][1]
    expected = Image.open(tmp_path / "1 .png").resize((4, 4), Image.Resampling.BICUBIC)
    assert np.array_equal(small, np.asarray(expected).transpose(2, 0, 1))


def test_pretrain_list_is_used_whole_and_not_for_probes(tmp_path, pixels):
    data = image_folder(tmp_path, pretrain_list="long.txt")
    tensors = read_images(data)
    assert np.array_equal(tensors["train"], pixels[[0, 1, 2, 3, 3, 0, 2]])
    at = 2, "long_tailed", "study", 1, 1
    split = split_indices(data, tensors["train_labels"], *at, listed=int(tensors["listed"]))
    assert split["pool"].tolist() == [0, 1, 2, 3]
    assert split["pretrain"].tolist() == [4, 5, 6]
    assert set(split["few_shot"].tolist()) < {0, 1, 2, 3}


@pytest.mark.parametrize(
    ("name", "line", "said"),
    [
        ("test", "./1 .png 1", "the same image as"),
        ("test", "again.bmp 0", "0 .png (train.txt, line 1); 1 of 7"),
        ("train", "0 .png 1", "0 .png (train.txt, line 1); 1 of 7"),
        ("long", "4 .png 0", "4 .png (long.txt, line 4); 1 of 10"),
    ],
)
def test_copies_are_refused_unless_allowed(tmp_path, pixels, name, line, said):
    Image.open(tmp_path / "0 .png").save(tmp_path / "again.bmp")
    with (tmp_path / f"{name}.txt").open("a") as list_:
        list_.write(f"{line}\n")
    data = image_folder(tmp_path, **({"pretrain_list": "long.txt"} if name == "long" else {}))
    assert said in refusal(read_images, data)
    read_images(data.model_copy(update={"copies": True}))


RAMP = np.arange(256, dtype=np.uint8).reshape(16, 16)
GREY, COLOUR = Image.fromarray(RAMP), Image.fromarray(np.stack([RAMP, RAMP.T, 255 - RAMP], -1))
WIDE = RAMP.astype(np.uint16) * 257
CLEAR = GREY.convert("LA")
CLEAR.putalpha(254)


@pytest.mark.parametrize(
    ("image", "meant"),
    [
        (GREY.convert("P"), GREY),
        (GREY.convert("LA"), GREY),
        (COLOUR.convert("RGBA"), COLOUR),
        (COLOUR.convert("CMYK"), COLOUR),
        (Image.fromarray(WIDE), GREY),
        (Image.frombytes("I;16B", (16, 16), WIDE.astype(">u2").tobytes()), GREY),
        (CLEAR, "transparent in places"),
        (Image.fromarray(WIDE.astype(np.int32)), "mode I have no sure meaning in 8 bits"),
    ],
)
def test_a_ramp_reads_as_its_mode_means_it(image, meant):
    if isinstance(meant, str):
        assert meant in refusal(pixel_values, image)
    else:
        assert np.array_equal(colours(pixel_values(image)), meant.convert("RGB"))


@pytest.mark.parametrize("largest", [1, 255, 4095])
def test_white_of_a_darker_range_must_be_said(tmp_path, pixels, largest, capsys):
    dtype = np.uint8 if largest == 1 else np.uint16
    grey = np.random.default_rng(0).integers(0, largest, (6, 8, 8), endpoint=True)
    grey[0, 0, 0] = largest
    for i, image in enumerate(grey):
        Image.fromarray(image.astype(dtype)).save(tmp_path / f"{i} .png")
    top = np.iinfo(dtype).max
    told = f"the largest value of the images of {8 * dtype().itemsize} bits is {largest} of {top}"
    assert f"{told}; say white: {largest} under data" in refusal(
        read_images, image_folder(tmp_path)
    )
    images = read_images(image_folder(tmp_path, white=largest))
    assert told in capsys.readouterr().err
    scaled = torch.cat([images["train"], images["test"]])[:, 0].numpy()
    assert np.abs(scaled - grey * 255 / largest).max() <= 0.5
    assert read_images(image_folder(tmp_path, white=top, copies=True))["train"].max() < 128
    said = f"data.white: must be {largest} to {top}"
    assert said in refusal(read_images, image_folder(tmp_path, white=largest - 1 or 256))


def test_an_image_is_read_as_a_viewer_shows_it(tmp_path):
    exif, path = Image.Exif(), tmp_path / "turned.png"
    for turned in range(1, 9):
        exif[0x0112] = turned
        COLOUR.save(path, exif=exif)
        expected = np.asarray(ImageOps.exif_transpose(Image.open(path)))
        images, _ = _decode([("turned", str(path))])
        assert np.array_equal(images[0].transpose(1, 2, 0), expected)
    COLOUR.save(path, format="GIF", save_all=True, append_images=[COLOUR.rotate(90)])
    assert "it holds 2 images, of which one is wanted" in refusal(_decode, [("a", str(path))])


@pytest.mark.parametrize("change", ["renamed", "reordered", "one byte and the old date"])
def test_hash_depends_on_content_not_on_names_or_times(tmp_path, pixels, change, monkeypatch):
    """Whatever is remembered of files that were read before."""
    monkeypatch.setattr(input_hashes, "CLOCK_TICK_NS", -1)
    test, known = tmp_path / "test.txt", tmp_path / "known.json"
    image, files = tmp_path / "4 .png", input_files(image_folder(tmp_path))
    before, date = hash_files(files, known), image.stat().st_mtime_ns
    match change:
        case "renamed":
            image.rename(image.with_name("four.png"))
            test.write_text(test.read_text().replace("4 .png", "four.png"))
        case "reordered":
            test.write_text("\n".join(reversed(test.read_text().split("\n"))))
        case _:
            image.write_bytes(image.read_bytes()[:-1] + b"?")
            os.utime(image, ns=(date, date))
    files = input_files(image_folder(tmp_path))
    assert (hash_files(files, known) == before) == (change == "renamed")
    known.write_bytes(known.read_bytes()[:-1])
    assert hash_files(files, known) == hash_files(files)


def test_hash_of_index_files_is_that_of_their_seed(tmp_path):
    names = {"pretrain": "{seed}.npy", "pool": "pool.npy"}
    data = ImageData(format="cifar_batches", folder=str(tmp_path), index_files=names)
    for name in ("1", "2", "pool"):
        np.save(tmp_path / f"{name}.npy", np.arange(4))
    first, second = (hash_files(index_files(data, [seed])) for seed in (1, 2))
    np.save(tmp_path / "1.npy", np.arange(3))
    assert hash_files(index_files(data, [1])) != first
    assert hash_files(index_files(data, [2])) == second


def test_files_that_change_after_the_plan_are_refused(tmp_path, pixels):
    data, output = image_folder(tmp_path), tmp_path / "images.safetensors"
    config = {"data": data, "contents": hash_files(input_files(data))}
    job = job_at(IMAGE_DATA, config, "s", None, "")
    run_stage(job, tmp_path, output)
    assert read_tensors(output, "test_labels")[0].tolist() == [0, 1]
    output.unlink()
    (tmp_path / "test.txt").write_text("4 .png 1\n5 .png 0\n")
    message = "s: the files have changed since this run was planned; run snakemake again"
    assert refusal(run_stage, job, tmp_path, output) == message
    assert not output.exists()


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


def test_digits():
    every, some = (read_images(ImageData(format="digits", classes=k)) for k in ([], [7, 2]))
    labels, test_labels = every["train_labels"], every["test_labels"]
    assert torch.equal(test_labels.bincount(), (labels.bincount() + test_labels.bincount()) // 3)
    assert torch.equal(some["train"][some["train_labels"] == 0], every["train"][labels == 7])


@needs_cifar10
def test_cifar_is_as_published():
    cifar10 = read_folder(CIFAR10, "cifar_parquet")
    labels = cifar10["train_labels"]
    assert labels.bincount().tolist() == [5000] * 10
    mean = cifar10["train"][::10].float().mean(dim=(0, 2, 3)) / 255
    assert mean.tolist() == pytest.approx([0.4914, 0.4822, 0.4465], abs=0.005)
    names = {"pretrain": "split{seed}_D_i", "few_shot": "split{seed}_S_b", "pool": "trainIdxList"}
    files = {key: f"sdclr_splits/{name}.npy" for key, name in names.items()}
    data = ImageData(format="cifar_parquet", folder=str(CIFAR10), index_files=files)
    for seed in range(1, 6):
        split = split_indices(data, labels, 100.0, "long_tailed", "study", seed, 45)
        assert split["counts"][split["class_order"]].tolist() == SDCLR_COUNTS
        assert labels[split["few_shot"]].bincount().tolist() == [45] * 10
        assert len(split["pool"]) == 45000
    assert list(copies(cifar10)) == []
    if (folder := CIFAR10.with_name("cifar100")).is_dir():
        found = read_folder(folder, "cifar_parquet")
        assert (len(found["train"]), len(found["test"]), len(list(copies(found)))) == CIFAR_100
