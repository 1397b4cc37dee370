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
    names, images = split(tmp_path, 3)
    assert names == ["a", "b"]
    assert [path.name for path in images["test"]["b"]] == ["2.png", "5.png"]
    assert [path.name for path in images["train"]["a"]] == ["0.png", "1.png"]


def test_split_keeps_folders_train_and_test(tmp_path):
    numbered(tmp_path, {"train/a": 2, "train/b": 2, "test/a": 1, "test/b": 1})
    names, images = split(tmp_path, 5)
    assert names == ["a", "b"]
    assert {name: sum(map(len, images[name].values())) for name in images} == {
        "train": 4,
        "test": 2,
    }


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


def test_long_tail_and_a_small_test_set_are_told(tmp_path):
    *_, tail, few = write_lists(numbered(tmp_path, {"a": 60, "b": 10}), 5)
    assert "6 times the training images" in tail
    assert "pretrain_list: train.txt, rho: [6]" in tail
    assert few == "with 14 test images an accuracy has a standard error of up to 13.4 points"


def test_folder_train_without_test_is_a_class_or_refused(tmp_path):
    names = "train/a/0.png", "train/a/1.png", "val/a/0.png", "val/a/1.png"
    message = refusal(split, write_images(tmp_path / "1", *names), 2)
    assert "has a folder train with subfolders, and none named test" in message
    names = "train/0.png", "train/1.png", "bus/0.png", "bus/1.png"
    assert split(write_images(tmp_path / "2", *names), 2)[0] == ["bus", "train"]


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
