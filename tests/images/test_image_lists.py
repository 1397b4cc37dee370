"""Wrong lists of an image folder: each is one line that names the file, its line or the key."""

import re
from pathlib import Path

import numpy as np
import pytest
from conftest import refusal
from PIL import Image

from rarefeat.images.datasets import read_images
from rarefeat.images.input_hashes import check_lists
from rarefeat.workflow.config.images import ImageData
from rarefeat.workflow.project import load

TRAIN, TEST = "0.png 0\n1.png 1\n2.png 0\n3.png 1\n", "4.png 0\n5.png 1\n"
COPY = "...the same image as images/0.png (train.txt, line 1)...or say data.copies: true..."
BAD_LABEL = "expected `path label` with a label of 0 or more, got"


@pytest.fixture
def images(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("images").mkdir()
    draw = np.random.default_rng(0)
    for i in range(6):
        Image.fromarray(draw.integers(0, 256, (8, 8, 3), dtype=np.uint8)).save(f"images/{i}.png")
    Path("images/train.txt").write_text(TRAIN, encoding="utf-8")
    Path("images/test.txt").write_text(TEST, encoding="utf-8")
    return Path("images")


def read(**changes) -> dict:
    lists = {"train_list": "train.txt", "test_list": "test.txt"}
    return read_images(
        ImageData(**{"format": "image_folder", "folder": "images", "size": 8} | lists | changes)
    )


@pytest.mark.parametrize("encoded", ["\ufeff4.png 0\r\n5.png 1\r\n", "4.png 0\r5.png 1\r"])
def test_lists_of_other_systems_are_read(images, encoded):
    (images / "test.txt").write_bytes(encoded.encode())
    assert read()["test_labels"].tolist() == [0, 1]
    (images / "test.txt").write_bytes(encoded.encode("utf-16"))
    assert "'utf-8' codec can't decode byte 0xff" in refusal(read)


@pytest.mark.parametrize(
    ("name", "text", "line"),
    [
        ("test", None, "cannot read images/test.txt: No such file or directory; ..."),
        ("test", "4.png 0\n5.png\n", f"images/test.txt, line 2: {BAD_LABEL} '5.png'"),
        ("test", "4.png 0\n5.png 7\n", "images/test.txt: test label 7 is none of the training..."),
        ("test", "4.png 0\n9.png 1\n", "data.folder: 1 of 6 files are missing, images/9.png..."),
        ("train", "0.png 0 5\n1.png 1 5\n", "...0 to K - 1 without a gap, and the last word of..."),
        ("test", "4.png 0\n", "...no test image has label 1; every training label needs some"),
        ("train", "0.png 1\n1.png 2\n", "images/train.txt: no training image has label 0; ..."),
        ("train", "0.png 0\n1.png 0\n", "...training images must have two classes at least, got 1"),
        ("train", TRAIN + "./0.png 0\n", COPY),
        ("test", "4.png 0\n5.png -1\n", f"images/test.txt, line 2: {BAD_LABEL} '5.png -1'"),
    ],
)
def test_wrong_list_is_one_line(images, name, text, line):
    path = images / f"{name}.txt"
    path.unlink() if text is None else path.write_text(text, encoding="utf-8")
    assert re.fullmatch(".*".join(map(re.escape, line.split("..."))), refusal(read))


def test_index_files_of_a_folder_are_refused_with_what_to_write(images):
    with pytest.raises(ValueError, match="its few-shot list is train_list"):
        read(index_files={"pretrain": "long.npy"})


def test_unknown_class_is_one_line(images):
    assert "no training image has label 7" in refusal(read, classes=[0, 7])


def test_lists_that_do_not_fit_the_keys_are_told_without_decoding(images):
    data = {"format": "image_folder", "folder": "images", "size": 8}
    lists = {"train_list": "train.txt", "test_list": "test.txt"}
    study = load("config/config.yaml").studies["digits"]

    def check(rho=1.0, **probe):
        probe = study.probe.model_copy(update={"few_shot": 1, "neighbours": 2} | probe)
        changes = {"data": ImageData(**data, **lists), "rho": [rho], "probe": probe}
        check_lists(study.model_copy(update=changes))

    check()
    (images / "0.png").write_bytes(b"")
    check()
    assert "rho: must be at most 2, so that" in refusal(check, rho=3.0)
    assert "probe.few_shot: must be at most 2, the images of class 0, got 3" in refusal(
        check, few_shot=3
    )
    assert "probe.neighbours: must be at most 4, the images" in refusal(check, neighbours=5)
    lists["pretrain_list"] = "pretrain.txt"
    (images / "pretrain.txt").write_text("0.png 0\n2.png 0\n1.png 1\n", encoding="utf-8")
    assert "rho: must be that of the classes of pretrain.txt, 2 / 1 = 2, got 1" in refusal(check)


def test_images_that_cannot_be_read_are_told_at_once(images):
    for name in ("1.png", "3.png", "4.png"):
        (images / name).write_bytes(b"no image")
    told = refusal(read)
    assert all(f"images/{name} (" in told for name in ("1.png", "3.png", "4.png"))
