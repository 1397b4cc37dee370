"""Train on your folder: the page as it stands, in a copy of the project without results; and the lists that it begins with."""

import re
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from whole_project import ROOT, copy_of_the_project, python, run_blocks

from rarefeat.core.errors import RarefeatError
from rarefeat.images.lists import split
from rarefeat.storage.files import read_table


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """After every block of code of the page."""
    place = copy_of_the_project(tmp_path_factory.mktemp("own"))
    (place / "said").write_text("\n---\n".join(run_blocks(ROOT / "docs/own_images.md", place)), encoding="utf-8")
    return place


def test_a_study_of_one_s_own_has_its_table_and_figure_and_nothing_else_is_made(folder):
    results = folder / "results"
    assert (results / "figures/longtail_mine.pdf").read_bytes().startswith(b"%PDF")
    page = (results / "table_mine.md").read_text(encoding="utf-8")
    assert page.startswith("# Long-tailed images: mine\n")
    assert len(re.findall(r"^\| mine \| 10 \| long-tailed ", page, re.MULTILINE)) == 2
    assert {path.name.split(".")[0] for path in (results / "tables").iterdir()} == {"mine"}
    for kind in ("images", "splits", "encoders", "probes"):
        assert {path.name.split(".")[0] for path in (results / kind).iterdir()} == {"mine"}


def test_the_largest_class_has_as_many_images_as_the_study_says(folder):
    classes = read_table(folder / "results/tables/mine.longtail_classes.parquet").to_pandas()
    assert (classes["count"].max(), classes["count"].min(), classes["class"].nunique()) == (100, 10, 10)


def test_the_lists_say_which_label_is_which_class(folder):
    said = (folder / "said").read_text(encoding="utf-8")
    assert re.search(r"^label 3: digit 3, \d+ training and \d+ test images$", said, re.MULTILINE)
    lines = [(folder / f"data/mine/{part}.txt").read_text(encoding="utf-8").splitlines() for part in ("train", "test")]
    assert sum(map(len, lines)) == 1797
    assert not set(lines[0]) & set(lines[1])
    again = python(folder, "-m", "rarefeat.images.lists", "data/mine")
    assert again.returncode == 1
    assert again.stderr == "error: data/mine/train.txt is there already; delete it to have another one written\n"


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
    assert {part: sum(map(len, classes.values())) for part, classes in parts.items()} == {"train": 4, "test": 2}


@pytest.mark.parametrize(
    ("numbers", "said"),
    [
        ({"a": 5}, "two subfolders with images at least are needed, one for each class, got 1"),
        ({"a": 5, "b": 4}, "the class b has no test image; every class needs some"),
        ({"train/a": 2, "train/b": 2, "test/a": 2, "test/c": 1}, "the class c has no train image; every class needs some"),
    ],
)
def test_folders_without_lists_to_make_are_refused(tmp_path, numbers, said):
    with pytest.raises(RarefeatError) as error:
        split(images(tmp_path, numbers), 5)
    assert str(error.value) == f"{tmp_path}: {said}"
    with pytest.raises(RarefeatError, match="is no folder"):
        split(tmp_path / "absent", 5)
