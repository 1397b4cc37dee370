"""Metadata of tables, figures and pages, and what readers make of them."""

import json
import shutil
from pathlib import Path

import matplotlib.pyplot as plt
import pandas as pd
import pyarrow.parquet as pq
import pytest
from conftest import some_damage
from PIL import Image
from whole_project import ROOT

from rarefeat.errors import RarefeatError
from rarefeat.figures.save import save
from rarefeat.workflow.files.origin import KEY
from rarefeat.workflow.files.sealed_files import read_table
from rarefeat.workflow.project import load
from rarefeat.workflow.run.metadata import (
    build_origin,
    machine,
    read_origin,
    read_product,
    write_page,
    write_product,
)

PROJECT = load(ROOT / "config/config.yaml", ROOT / "config/quick.yaml")
TABLE = pd.DataFrame(
    {"seed": [100, 101], "value": [0.25, float("nan")], "name": ["a", "\u03b5 (b)"]}
)


def write_files(folder: Path) -> list[Path]:
    paths = [
        folder / name for name in ("heatmap_grid.parquet", "fate.png", "fate.pdf", "imbalance.md")
    ]
    write_product(paths[0], TABLE, build_origin(PROJECT.table_job("heatmap_grid")))
    figure, ax = plt.subplots(figsize=(1, 1))
    ax.plot([1, 2], label="(x)")
    save(figure, paths[1:3], PROJECT.figure_job("fate"), paths[:1])
    write_page(paths[3], "# A page\n\n<!-- of mine -->\n", PROJECT.page_job("imbalance"))
    return paths


def test_metadata_of_table_and_figure(tmp_path):
    table, png, pdf, _ = write_files(tmp_path)
    job, drawn = PROJECT.table_job("heatmap_grid"), PROJECT.figure_job("fate")
    pd.testing.assert_frame_equal(read_table(table).to_pandas(), TABLE)
    assert json.loads(pq.read_schema(table).metadata[KEY.encode()]) == read_origin(table)
    assert json.loads(Image.open(png).text[KEY]) == read_origin(png) == read_origin(pdf)
    found = read_origin(pdf)
    assert (found["name"], found["stage"], found["job"]) == ("fate", drawn.stage, drawn.identity)
    assert found["tables"] == drawn.tables
    assert found["seeds"] == read_origin(table)["seeds"] == {"heatmap": "100-103"}
    assert {"torch", "rarefeat"} <= set(found["packages"])
    assert read_origin(table)["job"] == job.identity


def test_page_carries_one_short_comment(tmp_path):
    path, job = write_files(tmp_path)[3], PROJECT.page_job("imbalance")
    *text, comment = path.read_text().splitlines()
    assert text == ["# A page", "", "<!-- of mine -->", ""]
    assert len(comment) < 400
    assert read_origin(path)["job"] == job.identity
    write_page(path, "x", job.model_copy(update={"stage": "a--b"}))
    assert "--" not in path.read_text().splitlines()[-1][4:-3]
    assert read_origin(path)["stage"] == "a--b"


def test_files_have_the_same_bytes_when_written_again(tmp_path):
    first, second = ([path.read_bytes() for path in write_files(tmp_path / name)] for name in "ab")
    assert first == second


@pytest.mark.parametrize(
    ("study", "data", "training", "kernel"),
    [
        ({}, {}, {}, "native"),
        ({}, {}, {"kernel": "torch"}, "torch"),
        ({"simulator": "direct"}, {}, {}, "torch"),
        ({}, {"d1": 20}, {}, "torch"),
    ],
)
def test_origin_names_the_kernel_that_trains(study, data, training, kernel):
    paper = PROJECT.table_job("paper_grid").config["paper"]
    data = paper["data"] | {"d1": 500} | data
    section = paper | study | {"data": data, "training": paper["training"] | training}
    job = PROJECT.table_job("paper_grid").model_copy(update={"config": {"paper": section}})
    assert build_origin(job)["kernels"] == [kernel]


def test_origin_changes_with_config_and_code_not_blocks():
    job = PROJECT.table_job("paper_grid")
    paper, origin = job.config["paper"], build_origin(job)

    def changed(**values):
        return build_origin(job.model_copy(update={"config": {"paper": paper | values}}))

    assert paper["seeds_per_block"] != 1
    assert changed(seeds_per_block=1) == origin
    assert changed(training=paper["training"] | {"kernel": "torch"})["job"] == origin["job"]
    assert (origin["seeds"], changed(seeds=5)["seeds"]) == (
        {"paper": "100-103"},
        {"paper": "100-104"},
    )
    assert changed(seeds=5)["config"] != origin["config"]
    other = build_origin(job.model_copy(update={"code": job.code | {"stages.pretrain:stage": "0"}}))
    assert other["job"] != origin["job"]
    assert other["config"] == origin["config"]


def test_damage_is_refused(tmp_path):
    for path in write_files(tmp_path):
        content = path.read_bytes()
        for damaged in some_damage(content, 80):
            path.write_bytes(damaged)
            with pytest.raises(RarefeatError, match=r"it is damaged|has no metadata"):
                read_origin(path)
        path.write_bytes(content)
        read_origin(path)


def test_reader_refuses_another_table_in_its_place(tmp_path):
    job, path = PROJECT.table_job("scaling_exponents"), tmp_path / "lucky_sets.parquet"
    write_product(path, TABLE, build_origin(PROJECT.table_job("lucky_sets")))
    assert read_product(path, job.tables).equals(TABLE)
    shutil.copy(path, tmp_path / "scaling.parquet")
    with pytest.raises(
        RarefeatError, match="is not the table that its name says: it is lucky_sets"
    ):
        read_product(tmp_path / "scaling.parquet", job.tables)
    with pytest.raises(RarefeatError, match="is of another config, or of other code"):
        read_product(path, {})
    write_product(path, TABLE, build_origin(PROJECT.table_job("paper_grid")))
    with pytest.raises(RarefeatError, match="is of another config, or of other code"):
        read_product(path, job.tables)


def test_variables_that_change_digits_stand_in_the_origin(monkeypatch):
    monkeypatch.setenv("OPENBLAS_CORETYPE", "Haswell")
    assert machine.__wrapped__()["OPENBLAS_CORETYPE"] == "Haswell"
