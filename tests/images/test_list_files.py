"""Lists that are written for a folder of images."""

import os
from pathlib import Path

import numpy as np
import pytest
from conftest import refusal
from PIL import Image

from rarefeat.images.formats import entries
from rarefeat.images.list_files import split, write_lists


def write_images(folder: Path, *names: str) -> Path:
    for number, name in enumerate(names):
        path = os.fsencode(folder) + b"/" + name.encode("utf-8", "surrogateescape")
        path = Path(os.fsdecode(path))
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.full((4, 4, 3), number, np.uint8)).save(path, "png")
    return folder


def numbered(folder: Path, numbers: dict[str, int]) -> Path:
    names = [f"{name}/{i}.png" for name, number in numbers.items() for i in range(number)]
    return write_images(folder, *names)


def test_split_tests_every_nth_image_of_a_class(tmp_path):
    (numbered(tmp_path, {"b": 7, "a": 3}) / "a/notes.txt").touch()
    (tmp_path / "empty").mkdir()
    names, images, others = split(tmp_path, 3)
    assert names == ["a", "b"]
    assert [path.name for path in images["test"]["b"]] == ["2.png", "5.png"]
    assert [path.name for path in images["train"]["a"]] == ["0.png", "1.png"]
    assert {path.name for path in others} == {"notes.txt", "empty"}


@pytest.mark.parametrize(
    ("train", "test"), [("train", "test"), ("Training", "TESTING"), ("1_train-set", "Test images")]
)
def test_split_keeps_folders_train_and_test(tmp_path, train, test):
    numbered(tmp_path, {f"{train}/a": 2, f"{train}/b": 2, f"{test}/a": 1, f"{test}/b": 1})
    numbered(tmp_path, {"val/a": 2})
    names, images, others = split(tmp_path, 5)
    assert others.pop(tmp_path / "val") == "no part"
    assert set(others.values()) == {"in no folder of a class"}
    assert names == ["a", "b"]
    assert [sum(map(len, images[name].values())) for name in ("train", "test")] == [4, 2]


@pytest.mark.parametrize(
    "odd", ["a/\udcff.png", "a/x\ny.png", "a/x\ry.png", " c/0.png", "\ufeff/0.png"]
)
def test_name_that_no_list_can_hold_is_refused(tmp_path, odd):
    names = ["a/0.png", "a/1.png", "b/0.png", "b/1.png", odd, odd.replace(".png", "2.png")]
    message = refusal(write_lists, write_images(tmp_path, *names), 2)
    assert "is not UTF-8, begins with a space" in message
    assert not list(tmp_path.glob("*.txt"))


def test_odd_names_are_read_back(tmp_path):
    names = ["a 1/x\u2028 7.png", "a 1/y.PNG", "\u00fc/ 0.png", "\u00fc/1 2.png"]
    write_lists(write_images(tmp_path, *names), 2)
    rows = [
        row[1:]
        for name in ("train", "test")
        for row in entries((tmp_path / f"{name}.txt").read_text("utf-8"), "")
    ]
    assert sorted(rows) == [(name, int(i > 1)) for i, name in enumerate(names)]


@pytest.mark.parametrize(
    ("numbers", "named"),
    [
        ({"train/a": 2, "train/b": 2, "Validation/a": 2}, "Validation, train"),
        ({"first/a": 2, "first/b": 2, "second/x/a": 2, "second/x/b": 2}, "first, second"),
        ({"a/train": 2, "a/test": 2, "b/train": 2, "b/test": 2}, "a, b"),
        ({"train": 2, "TEST": 2}, "TEST, train"),
        ({"train/a": 2, "Train/a": 2, "test/a": 2}, "Train, test, train"),
    ],
)
def test_folders_that_may_be_parts_or_classes_are_refused(tmp_path, numbers, named):
    message = refusal(split, numbered(tmp_path, numbers), 2)
    assert message.startswith(f"{tmp_path}: {named} may be parts of a data set or classes; ")


def test_folders_that_are_classes(tmp_path):
    numbered(tmp_path, {"train": 2, "bus/small": 2, "bus/large": 2, "valley": 2, "car/small": 2})
    assert split(tmp_path, 2)[0] == ["bus", "car", "train", "valley"]


def test_what_is_in_no_list_is_named(tmp_path):
    folder = write_images(tmp_path / "all", "a/0.png", "a/1.png", "b/0.png", "b/1.png", "x.png")
    write_images(tmp_path, "away/2.png", "away/3.png")
    for name in ("a/0.txt", "a/.1.png", "c/0.avif"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).touch()
    for name, target in (("d", tmp_path / "away"), ("a/2.png", "gone"), ("b/up", folder)):
        (folder / name).symlink_to(target)
    lines = write_lists(folder, 2)
    classes = [line.split(",")[0] for line in lines if line.startswith("label")]
    assert classes == ["label 0: a", "label 1: b", "label 2: d"]
    unlisted = [line.rpartition(": ")[2] for line in lines if line.startswith("in no list, ")]
    assert unlisted == list(map(repr, (
        "a/.1.png", "a/0.txt", "a/2.png", "b/up", "c", "c/0.avif", "x.png",
    )))  # fmt: skip


@pytest.mark.parametrize(
    ("numbers", "text"),
    [
        ({"a": 5}, "must have two subfolders with images at least, one for each class, got 1"),
        ({"a": 5, "b": 4}, "the class b has no test image; every class needs some"),
        (
            {"train/a": 2, "train/b": 2, "test/a": 2, "test/c": 1},
            "the class c has no train image; every class needs some",
        ),
    ],
)
def test_folders_without_classes_are_refused(tmp_path, numbers, text):
    assert refusal(split, numbered(tmp_path, numbers), 5) == f"{tmp_path}: {text}"
    assert "is not a folder" in refusal(split, tmp_path / "absent", 5)
