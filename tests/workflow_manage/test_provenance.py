"""What a file says of itself, and which of a folder of results are damaged or misplaced."""

import os
import shutil
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pytest
import torch
from whole_project import ROOT

from rarefeat.errors import RarefeatError
from rarefeat.workflow.files.origin import KEY
from rarefeat.workflow.files.sealed_files import write_table
from rarefeat.workflow.files.tensors import write_tensors
from rarefeat.workflow.project import load, write_merged
from rarefeat.workflow.provenance import verify
from rarefeat.workflow.run.job import Job
from rarefeat.workflow.run.metadata import build_origin, write_page, write_product

PROJECT = load(ROOT / "config/config.yaml", ROOT / "config/quick.yaml")
JOB = Job(
    stage="stages.pretrain:stage", study="s", cell={"eps_min": 0.5, "sigma": 0.1}, seeds="1-2"
)
TABLES, PAGE = ("tables/lucky_sets.parquet", "tables/neighbour.arms_grid.parquet"), "imbalance.md"
PATHS = ("s/eps_min=0.5/sigma=0.1/seeds=1-2", "s/sigma=0.1/eps_min=0.5/seeds=1-2")
ENCODERS, PROBES = f"encoders/{PATHS[0]}.safetensors", f"probes/{PATHS[0]}.parquet"


@pytest.fixture
def results(tmp_path) -> Path:
    """Tables, a page, intermediate files with axes in any order, and files of a user."""
    for path in TABLES:
        name = Path(path).stem
        write_product(
            tmp_path / path, pd.DataFrame({"seed": [1]}), build_origin(PROJECT.table_job(name))
        )
    write_page(tmp_path / PAGE, "# A page\n", PROJECT.page_job("imbalance"))
    for path in PATHS:
        write_tensors(tmp_path / f"encoders/{path}.safetensors", {"w": torch.ones(9)}, JOB.to_json)
        write_table(
            tmp_path / f"probes/{path}.parquet", pa.table({"a": [1, 2]}), {KEY: JOB.to_json}
        )
    for path in ("README.md", "mine.png", "tables/.hidden.parquet", "images/.mine.json"):
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text("mine, of rarefeat\n")
    return tmp_path


def test_sound_results_give_no_line(results):
    assert verify(results) == ([], [])
    with pytest.raises(RarefeatError, match="nowhere is not a folder"):
        verify(results / "nowhere")


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize("path", [TABLES[0], ENCODERS, PROBES, PAGE])
@pytest.mark.parametrize("damage", [flip, lambda path: path.write_bytes(path.read_bytes()[:-4])])
def test_damaged_file_is_listed(results, path, damage):
    damage(results / path)
    ((line,), _) = verify(results)
    assert str(results / path) in line


@pytest.mark.parametrize(
    ("path", "place", "name"),
    [
        (TABLES[0], "tables/scaling.parquet", "lucky_sets"),
        (PAGE, "scaling.md", "imbalance"),
        (ENCODERS, "encoders/s/eps_min=0.5/sigma=0.2/seeds=1-2.safetensors", PATHS[0]),
        (ENCODERS, "encoders/s/eps_min=0.5/seeds=1-2.safetensors", PATHS[0]),
        (PROBES, "probes/t/eps_min=0.5/sigma=0.1/seeds=1-2.parquet", PATHS[0]),
        (PROBES, "probes/s/eps_min=0.5/sigma=0.1/seeds=1-2 (1).parquet", PATHS[0]),
    ],
)
def test_misplaced_file_is_listed(results, path, place, name):
    (results / place).parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(results / path, results / place)
    ((line,), _) = verify(results)
    assert line.startswith(f"{results / place} is not the file that its name says: it is {name};")


@pytest.mark.parametrize(
    ("path", "damage", "words"),
    [
        ("imbalance.md", lambda path: path.write_bytes(b""), "it is damaged"),
        ("pages/imbalance.html", lambda path: os.truncate(path, 2000), "it is damaged"),
        ("pages/imbalance.html", Path.unlink, "is missing beside"),
        ("imbalance.md", lambda path: path.rename(path.with_name("other.md")), "other.md is not"),
        ("tables/lucky_sets.parquet", None, "of another config, or of other code"),
    ],
)
def test_planned_file_is_looked_for_by_its_name(results, path, damage, words):
    """And what is there is of today's job."""
    write_merged(replace(PROJECT, results=str(results)))
    pages = results / "imbalance.md", results / "pages/imbalance.html"
    for page in pages:
        write_page(page, "# A page\n" * 1000, PROJECT.page_job("imbalance"))
    assert verify(results)[0] == []
    assert str(results / "figures/alignment_heatmap.png") in map(str, verify(results)[1])
    if damage:
        damage(results / path)
    else:
        other = build_origin(PROJECT.table_job("lucky_sets")) | {"job": "0" * 16}
        write_product(results / path, pd.DataFrame({"seed": [1]}), other)
    assert any(words in line for line in verify(results)[0])
