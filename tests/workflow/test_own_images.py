"""The page on a user's own images as it stands, in a copy of the project without results."""

import re
import shutil
from pathlib import Path

import pytest
from whole_project import ROOT, copy_project, planned_jobs, run, run_module, run_page

from rarefeat.workflow.files.sealed_files import read_table

CONFIGS = {"configs": ("my_images.yaml",)}
FOLDERS = ("images", "splits", "encoders", "probes", "tables")


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """The copy after every code block of the page."""
    folder = copy_project(tmp_path_factory.mktemp("images"))
    outputs = run_page(ROOT / "docs/own_images.md", folder)
    (folder / "output").write_text("\n".join(outputs), encoding="utf-8")
    return folder


def test_page_makes_lists_table_figure_and_nothing_else(folder):
    text = (folder / "output").read_text(encoding="utf-8")
    assert re.search(r"^label 3: digit 3, \d+ training and \d+ test images$", text, re.MULTILINE)
    parts = [
        (folder / f"data/mine/{name}.txt").read_text().splitlines() for name in ("train", "test")
    ]
    assert sum(map(len, parts)) == 1797
    assert not set(parts[0]) & set(parts[1])
    again = run_module(folder, "rarefeat.workflow.cli", "images", "data/mine")
    assert again.returncode == 1
    assert again.stderr.startswith("Error: data/mine/train.txt")
    results = folder / "results"
    assert (results / "figures/longtail_mine.pdf").read_bytes().startswith(b"%PDF")
    page = (results / "long_tail_mine.md").read_text(encoding="utf-8")
    assert page.startswith("# Long-tailed images: mine\n")
    for name in FOLDERS:
        assert {path.name.split(".")[0] for path in (results / name).glob("[!.]*")} == {"mine"}
    classes = read_table(results / "tables/mine.longtail_classes.parquet").to_pandas()
    assert (classes["count"].max(), classes["count"].min()) == (100, 10)
    assert classes["class"].nunique() == 10


def test_changed_list_reruns_and_copied_images_do_not(folder):
    images = folder / "data/mine"
    shutil.copytree(images, folder / "data/again")
    shutil.rmtree(images)
    (folder / "data/again").rename(images)
    assert planned_jobs(folder, "mine", **CONFIGS) == {}
    path = images / "test.txt"
    swapped = {" 0": " 1", " 1": " 0"}
    path.write_text(re.sub(" [01]$", lambda match: swapped[match[0]], path.read_text(), flags=re.M))
    jobs = planned_jobs(folder, "mine", **CONFIGS)
    assert (jobs["image_data"], jobs["pretrain_images"]) == (1, 4)
    shutil.rmtree(images / "digit 3")
    process = run(folder, "mine", "--dry-run", **CONFIGS)
    lines = (process.stdout + process.stderr).splitlines()
    assert process.returncode == 1
    assert sum("files are missing, data/mine/digit 3/" in line for line in lines) == 1
