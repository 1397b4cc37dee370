"""Train on your folder: the page as it stands, in a copy of the project without results; and the lists that it begins with."""

import os
import re
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
from conftest import refusal
from PIL import Image
from whole_project import ROOT, copy_of_the_project, planned, python, run, run_blocks

from rarefeat.core.errors import RarefeatError
from rarefeat.images.formats import entries
from rarefeat.images.list_files import main, split
from rarefeat.storage.sealed_files import read_table

CHANGES = {
    "swapped labels": lambda text: re.sub(
        r" ([01])$", lambda found: f" {1 - int(found[1])}", text, flags=re.MULTILINE
    ),
    "an image less": lambda text: text.partition("\n")[2],
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_changed_list_is_an_input_and_copied_images_are_none(folder, tmp_path, change):
    place = Path(shutil.copytree(folder, tmp_path / "project", symlinks=True))
    mine = {"configs": ("my_images.yaml",)}
    shutil.copytree(place / "data/mine", place / "data/again")
    shutil.rmtree(place / "data/mine")
    (place / "data/again").rename(place / "data/mine")
    assert planned(place, "mine", **mine) == {}
    path = place / "data/mine/test.txt"
    path.write_text(CHANGES[change](path.read_text()))
    jobs = planned(place, "mine", **mine)
    assert jobs["image_data"] == 1
    assert jobs["pretrain_images"] == 4
    shutil.rmtree(place / "data/mine/digit 3")
    done = run(place, "mine", "--dry-run", **mine)
    assert done.returncode == 1
    said = [line for line in (done.stdout + done.stderr).splitlines() if line.startswith("error")]
    assert len(said) == 1
    assert "files are missing, data/mine/digit 3/" in said[0]


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """After every block of code of the page."""
    place = copy_of_the_project(tmp_path_factory.mktemp("own"))
    (place / "said").write_text(
        "\n---\n".join(run_blocks(ROOT / "docs/own_images.md", place)), encoding="utf-8"
    )
    return place


def test_a_study_of_one_s_own_has_its_table_and_figure_and_nothing_else_is_made(folder):
    results = folder / "results"
    assert (results / "figures/longtail_mine.pdf").read_bytes().startswith(b"%PDF")
    page = (results / "long_tail_mine.md").read_text(encoding="utf-8")
    assert page.startswith("# Long-tailed images\n")
    assert "- On mine (" in page
    assert {path.name.split(".")[0] for path in (results / "tables").iterdir()} == {"mine"}
    for kind in ("images", "splits", "encoders", "probes"):
        assert {path.name.split(".")[0] for path in (results / kind).iterdir()} == {"mine"}


def test_the_largest_class_has_as_many_images_as_the_study_says(folder):
    classes = read_table(folder / "results/tables/mine.longtail_classes.parquet").to_pandas()
    assert (classes["count"].max(), classes["count"].min(), classes["class"].nunique()) == (
        100,
        10,
        10,
    )


def test_the_lists_say_which_label_is_which_class(folder):
    said = (folder / "said").read_text(encoding="utf-8")
    assert re.search(r"^label 3: digit 3, \d+ training and \d+ test images$", said, re.MULTILINE)
    lines = [
        (folder / f"data/mine/{part}.txt").read_text(encoding="utf-8").splitlines()
        for part in ("train", "test")
    ]
    assert sum(map(len, lines)) == 1797
    assert not set(lines[0]) & set(lines[1])
    again = python(folder, "-m", "rarefeat.images.list_files", "data/mine")
    assert again.returncode == 1
    assert (
        again.stderr
        == "error: data/mine/train.txt exists already; delete it to have another one written\n"
    )


def images(folder: Path, numbers: dict[str, int]) -> Path:
    for name, number in numbers.items():
        (folder / name).mkdir(parents=True)
        for i in range(number):
            Image.fromarray(np.full((4, 4, 3), i, np.uint8)).save(folder / name / f"{i}.png")
    return folder


def test_every_nth_image_of_a_class_is_a_test_image(tmp_path):
    (images(tmp_path, {"b": 7, "a": 3}) / "a/notes.txt").touch()
    (tmp_path / "empty").mkdir()
    names, parts = split(tmp_path, 3)
    assert names == ["a", "b"]
    assert [path.name for path in parts["test"]["b"]] == ["2.png", "5.png"]
    assert [path.name for path in parts["train"]["a"]] == ["0.png", "1.png"]


def test_folders_train_and_test_are_taken_as_they_are(tmp_path):
    images(tmp_path / "train", {"a": 2, "b": 2})
    images(tmp_path / "test", {"a": 1, "b": 1})
    names, parts = split(tmp_path, 5)
    assert names == ["a", "b"]
    assert {part: sum(map(len, classes.values())) for part, classes in parts.items()} == {
        "train": 4,
        "test": 2,
    }


def planted(folder: Path, *names: str) -> Path:
    for number, name in enumerate(names):
        path = Path(
            os.fsdecode(os.fsencode(folder) + b"/" + name.encode("utf-8", "surrogateescape"))
        )
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.full((4, 4, 3), number, np.uint8)).save(path, "png")
    return folder


def lists(folder: Path, monkeypatch) -> None:
    monkeypatch.setattr(sys, "argv", ["lists", str(folder), "--every", "2"])
    main()


@pytest.mark.parametrize(
    "odd", ["a/\udcff.png", "a/x\ny.png", "a/x\ry.png", " c/0.png", "\ufeff/0.png"]
)
def test_a_name_that_no_list_can_hold_is_refused_and_no_list_is_written(tmp_path, monkeypatch, odd):
    twice = [odd, odd.replace(".png", "2.png")]
    planted(tmp_path, "a/0.png", "a/1.png", "b/0.png", "b/1.png", *twice)
    with pytest.raises(
        RarefeatError, match="cannot stand in a list: it is not UTF-8, begins with a space"
    ):
        lists(tmp_path, monkeypatch)
    assert not list(tmp_path.glob("*.txt"))


def test_odd_names_that_a_list_can_hold_are_read_back(tmp_path, monkeypatch):
    planted(tmp_path, "a 1/x\u2028 7.png", "a 1/y.PNG", "\u00fc/ 0.png", "\u00fc/1 2.png")
    lists(tmp_path, monkeypatch)
    found = [
        entry[1:]
        for part in ("train", "test")
        for entry in entries((tmp_path / f"{part}.txt").read_text("utf-8"), "")
    ]
    assert sorted(found) == [
        ("a 1/x\u2028 7.png", 0),
        ("a 1/y.PNG", 0),
        ("\u00fc/ 0.png", 1),
        ("\u00fc/1 2.png", 1),
    ]


def test_what_is_in_no_list_is_said(tmp_path, monkeypatch, capsys):
    planted(
        tmp_path, "a/0.png", "a/1.png", "b/0.png", "b/1.png", "a/._0.png", "a/x.pdf", "loose.png"
    )
    lists(tmp_path, monkeypatch)
    assert "3 other files are in no list, 'a/._0.png' the first" in capsys.readouterr().out


def test_a_folder_train_without_test_is_no_class_unless_its_images_lie_in_it(tmp_path):
    planted(tmp_path / "1", "train/a/0.png", "train/a/1.png", "val/a/0.png", "val/a/1.png")
    with pytest.raises(
        RarefeatError, match="has a folder train with subfolders, and none named test"
    ):
        split(tmp_path / "1", 2)
    planted(tmp_path / "2", "train/0.png", "train/1.png", "bus/0.png", "bus/1.png")
    assert split(tmp_path / "2", 2)[0] == ["bus", "train"]


@pytest.mark.parametrize(
    ("numbers", "said"),
    [
        ({"a": 5}, "must have two subfolders with images at least, one for each class, got 1"),
        ({"a": 5, "b": 4}, "the class b has no test image; every class needs some"),
        (
            {"train/a": 2, "train/b": 2, "test/a": 2, "test/c": 1},
            "the class c has no train image; every class needs some",
        ),
    ],
)
def test_folders_without_lists_to_make_are_refused(tmp_path, numbers, said):
    assert refusal(split, images(tmp_path, numbers), 5) == f"{tmp_path}: {said}"
    assert "is not a folder" in refusal(split, tmp_path / "absent", 5)
