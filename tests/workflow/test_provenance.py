"""What a result depends on: the traced modules, the metadata of tables and figures, and what verification makes of them."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import matplotlib.pyplot as plt
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import some_damage
from PIL import Image

from rarefeat import metadata
from rarefeat.config import load
from rarefeat.drawing import save
from rarefeat.files import RarefeatError, read_table, write_table
from rarefeat.metadata import made_from, read_origin, write_product
from rarefeat.provenance import Line, products, record, verify
from rarefeat.sources import PACKAGE, sources

ROOT = Path(__file__).parents[1]
CONFIG = load(ROOT / "config/config.yaml", ROOT / "config/quick.yaml")
TABLE = pd.DataFrame({"seed": [100, 101], "value": [0.25, float("nan")], "name": ["a", "\u03b5 (b)"]})


def names(*modules):
    return {str(path.relative_to(PACKAGE)) for path in sources(*modules)}


def test_a_stage_depends_on_what_it_imports_and_on_nothing_else():
    assert {"synthesise.py", "sections.py", "core/sparse_coding.py"} <= names("synthesise")
    assert "pretrain.py" not in names("synthesise")
    assert {"pretrain.py", "core/contrastive.py", "core/pruning.py", "core/neurons.py"} <= names("pretrain")
    # A new study is a change of config.py: it must not make the trainings of the others look stale.
    assert not {"probe.py", "plot.py", "tables.py", "pages.py", "config.py"} & names("pretrain")
    assert not {"probe.py", "tables.py", "config.py", "images/table.py"} & names("images.pretrain")
    assert "plot.py" not in names("aggregate")
    assert names("probe", "synthesise") == names("probe") | names("synthesise")


def test_tracing_agrees_with_what_python_really_imports():
    for stage in ("synthesise", "pretrain", "probe", "aggregate", "alignment_map", "plot", "images.pretrain", "images.table"):
        script = (
            f"import sys, rarefeat.{stage}; print(*[m.__file__ for n, m in sys.modules.items() if n.startswith('rarefeat.')])"
        )
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
        imported = {path for path in done.stdout.split() if not path.endswith("__init__.py")}
        assert imported == {str(path) for path in sources(stage)}, stage


def with_changes(section, **changes):
    return type(section).model_validate(section.model_dump(by_alias=True) | changes)


def test_the_origin_changes_with_config_code_and_seeds_and_not_with_blocks(monkeypatch, tmp_path):
    study = CONFIG.studies["paper"]
    base = made_from("grid", {"paper": study})
    assert base == made_from("grid", {"paper": with_changes(study, seeds_per_block=3)})
    assert base["seeds"] == {"paper": "100-103"}
    assert set(base["code"]) == {"synthesise", "pretrain", "probe", "aggregate"}
    more = made_from("grid", {"paper": with_changes(study, seeds=11)})
    assert more["seeds"] == {"paper": "100-110"}
    assert more["config"] != base["config"]
    changed = tmp_path / "pretrain.py"
    changed.write_text("# another trainer\n")
    monkeypatch.setattr(metadata, "sources", lambda stage: [changed] if stage == "pretrain" else sources(stage))
    metadata.code.cache_clear()
    other = made_from("grid", {"paper": study})["code"]
    metadata.code.cache_clear()
    assert [stage for stage in other if other[stage] != base["code"][stage]] == ["pretrain"]


def test_blocks_of_seeds_are_left_out_at_every_depth():
    claims = CONFIG.claims
    assert "seeds_per_block" in claims.model_dump_json()
    assert "seeds_per_block" not in json.dumps(made_from("claims", {"claims": claims}))


def test_a_table_and_a_figure_carry_their_origin_and_show_damage(tmp_path):
    """And are read as ever: the metadata is in the format's own place."""
    table = tmp_path / "heatmap_grid.parquet"
    write_product(table, TABLE, made_from("grid", {"heatmap": CONFIG.studies["heatmap"]}))
    figure, ax = plt.subplots(figsize=(1, 1))
    ax.plot([1, 2], label="(x)")
    outputs = [tmp_path / f"figure.{suffix}" for suffix in ("png", "pdf")]
    save(figure, outputs, "figure", [table])
    pd.testing.assert_frame_equal(read_table(table).to_pandas(), TABLE)
    texts = [pq.read_schema(table).metadata[b"rarefeat"], Image.open(outputs[0]).text["rarefeat"]]
    for path, text in zip([table, outputs[0]], texts, strict=True):
        assert json.loads(text) == read_origin(path)
    assert b"/Keywords (" in outputs[1].read_bytes()
    assert read_origin(outputs[0]) == read_origin(outputs[1])
    found = read_origin(outputs[1])
    assert found["config"] == read_origin(table)["config"] == {"heatmap": metadata.values(CONFIG.studies["heatmap"])}
    assert found["tables"] == {"heatmap_grid": metadata.file_hash(table)}
    assert set(found["code"]) == {"plot", *metadata.STAGES["grid"]}
    assert {"torch", "rarefeat"} <= set(found["packages"])
    assert set(found["machine"]) == {"system", "processor", "python"}
    for path in (table, *outputs):
        content = path.read_bytes()
        for damaged in some_damage(content, 200):
            path.write_bytes(damaged)
            with pytest.raises(RarefeatError, match="it is damaged"):
                read_origin(path)
        path.write_bytes(content)


def test_written_twice_they_have_the_same_bytes(tmp_path):
    contents = []
    for name in ("a", "b"):
        table = tmp_path / name / "paper_grid.parquet"
        write_product(table, TABLE, made_from("grid", {"paper": CONFIG.studies["paper"]}))
        figure, _ = plt.subplots(figsize=(1, 1))
        outputs = [tmp_path / name / f"figure.{suffix}" for suffix in ("png", "pdf")]
        save(figure, outputs, "figure", [table])
        contents.append([path.read_bytes() for path in (table, *outputs)])
    assert contents[0] == contents[1]


@pytest.fixture(scope="module")
def planted(tmp_path_factory) -> Path:
    """Every product of the quick config, tables of two rows and figures of nothing, claims apart."""
    results = tmp_path_factory.mktemp("planted")
    figure, _ = plt.subplots(figsize=(0.3, 0.3))
    for path, product in products(CONFIG).items():
        if not product.claims:
            tables = [results / f"tables/{name}.parquet" for name in product.tables]
            if path.startswith("tables"):
                write_product(results / path, TABLE, made_from(product.kind, product.parts, tables))
            else:
                save(figure, [results / path], product.kind, tables)
    for page in ("summary.md", "table2.md"):
        (results / page).write_text("# A page\n")
    (results / "provenance.json").write_text(json.dumps(record(results)))
    return results


@pytest.fixture
def results(planted, tmp_path) -> Path:
    """A copy that a test may change."""
    return Path(shutil.copytree(planted, tmp_path / "results"))


def not_current(results: Path, config=CONFIG) -> dict[str, Line]:
    return {line.path: line for line in verify(results, config) if line.state != "current"}


def test_what_the_config_and_code_would_make_is_current(planted):
    lines = verify(planted, CONFIG)
    assert {line.state for line in lines} == {"current"}
    assert {line.path for line in lines} >= {path for path, product in products(CONFIG).items() if not product.claims}
    assert not any(line.why for line in lines)


def test_a_changed_config_key_is_named_for_the_tables_and_figures_of_its_study_alone(results):
    study = CONFIG.studies["neighbour"]
    changed = with_changes(study, training=study.training.model_dump(by_alias=True) | {"eta": 0.2})
    other = CONFIG.model_copy(update={"studies": CONFIG.studies | {"neighbour": changed}})
    found = not_current(results, other)
    assert set(found) == {
        *(f"tables/neighbour_{kind}.parquet" for kind in ("grid", "summary", "trends", "trajectories")),
        "figures/neighbour_regime.pdf",
        "figures/neighbour_regime.png",
    }
    eta = study.training.eta
    assert all(line.why == f"config: neighbour.training.eta {eta}, now 0.2" for line in found.values())


def test_an_edited_module_is_named_by_its_stage(results, monkeypatch, tmp_path):
    """What has gone through the stage is stale, and what is drawn from that."""
    edited = tmp_path / "probe.py"
    edited.write_text("# an edit\n")
    monkeypatch.setattr(metadata, "sources", lambda stage: [edited] if stage == "probe" else sources(stage))
    metadata.code.cache_clear()
    found = not_current(results)
    metadata.code.cache_clear()
    assert {line.why for line in found.values()} == {"code of probe"}
    assert {"tables/paper_grid.parquet", "figures/arms.png", "tables/cross_check.parquet"} <= set(found)
    assert not {"tables/paper_trajectories.parquet", "tables/scaling.parquet", "tables/augmentation.parquet"} & set(found)


def test_a_table_edited_with_its_metadata_left_in_place_is_damaged_and_its_figures_are_stale(results):
    path = results / "tables/lucky_sets.parquet"
    table = read_table(path)
    pq.write_table(table.set_column(0, "seed", pa.array([1, 2])), path)
    found = not_current(results)
    assert found["tables/lucky_sets.parquet"].state == "damaged"
    for other in ("tables/scaling.parquet", "figures/scaling.png"):
        assert found[other] == Line("stale", other, "made from another lucky_sets")
    assert found["provenance.json"] == Line("stale", "provenance.json", "it has other bytes of tables/lucky_sets.parquet")
    with pytest.raises(RarefeatError, match="it is damaged"):
        made_from("figure", {}, [path])


def test_a_table_without_metadata_is_damaged(results):
    write_table(results / "tables/scaling.parquet", pa.Table.from_pandas(TABLE))
    (results / "tables/scaling_exponents.parquet").write_bytes(b"")
    found = not_current(results)
    assert (found["tables/scaling.parquet"].state, found["tables/scaling_exponents.parquet"].state) == ("damaged", "damaged")
    assert found["tables/scaling.parquet"].why.endswith("has no metadata of this workflow")


def test_a_figure_of_older_tables_is_stale(results):
    """The table is what would be made now; the figure is of what it was."""
    path = results / "tables/alignment_heatmap.parquet"
    write_product(path, TABLE.assign(value=1.0), made_from("alignment_heatmap", {"heatmap": CONFIG.studies["heatmap"]}))
    found = not_current(results)
    assert set(found) == {"figures/alignment_heatmap.pdf", "figures/alignment_heatmap.png", "provenance.json"}
    assert found["figures/alignment_heatmap.png"].why == "made from another alignment_heatmap"


def test_missing_and_unknown_files_and_a_changed_page_are_reported(results):
    (results / "figures/scaling.pdf").unlink()
    (results / "tables/notes.csv").write_text("mine\n")
    (results / "summary.md").write_text("# Another page\n")
    found = not_current(results)
    assert {path: line.state for path, line in found.items()} == {
        "figures/scaling.pdf": "missing", "tables/notes.csv": "unknown", "summary.md": "damaged", "provenance.json": "stale",
    }  # fmt: skip


def test_claims_are_missing_only_where_some_were_made(results):
    assert not any("claims" in path for path in not_current(results))
    shutil.copy(results / "tables/scaling.parquet", results / "tables/claims.parquet")
    found = not_current(results)
    assert found["tables/claims.parquet"].state == "stale"
    assert found["figures/claims_pruning.png"].state == found["claims.md"].state == "missing"


def test_other_packages_and_machines_are_told_and_not_stale(planted, monkeypatch):
    monkeypatch.setattr(metadata, "packages", lambda: {"rarefeat": "9.9"})
    lines = {line.path: line for line in verify(planted, CONFIG)}
    line = lines["tables/paper_grid.parquet"]
    assert (line.state, line.why.endswith(", now 9.9")) == ("current", True)


def test_the_command_line_says_what_is_current_in_one_line_each(results, tmp_path):
    def command(*arguments, folder=ROOT):
        words = [sys.executable, "-m", "rarefeat.provenance", *map(str, arguments)]
        return subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)

    quick = "--configfile", "config/quick.yaml"
    done = command("verify", results, *quick)
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert "current  tables/paper_grid.parquet" in lines
    assert lines[-1] == f"{len(lines) - 1} current"
    (results / "figures/arms.png").unlink()
    done = command("verify", results, *quick)
    assert done.returncode == 1
    assert "missing  figures/arms.png" in done.stdout.splitlines()
    shown = command("show", results / "figures/arms.pdf")
    assert json.loads(shown.stdout)["tables"].keys() == {"paper_summary", "direct_summary"}
    (results / "provenance.json").write_text("[1]")
    assert "damaged  provenance.json: TypeError" in command("verify", results, *quick).stdout
    for bad, words in (
        (("verify", tmp_path / "nothing"), f"error: {tmp_path / 'nothing'} is no folder"),
        (("verify", results, "--configfile", "no.yaml"), "error: cannot read config no.yaml"),
        (("show", ROOT / "README.md"), "README.md is neither a table, .parquet, nor a figure, .png or .pdf"),
    ):
        done = command(*bad)
        assert done.returncode == 1
        assert words in done.stderr
        assert len(done.stderr.splitlines()) == 1


def test_the_record_holds_commit_machine_packages_values_and_products(planted):
    found = json.loads((planted / "provenance.json").read_text())
    assert {"commit", "date", "machine", "packages", "config", "products"} <= set(found)
    entry = found["products"]["tables/cross_check.parquet"]
    assert entry["sha256"] == metadata.file_hash(planted / "tables/cross_check.parquet")
    values = {name: found["config"][key] for name, key in entry["config"].items()}
    assert values == read_origin(planted / "tables/cross_check.parquet")["config"]
    assert set(values) == {"paper", "direct"}


@pytest.mark.parametrize("stage", ["synthesise", "pretrain", "probe", "aggregate", "alignment_map", "plot", "provenance"])
def test_every_stage_has_a_command_line(stage):
    done = subprocess.run([sys.executable, "-m", f"rarefeat.{stage}", "--help"], capture_output=True, text=True)
    assert done.returncode == 0
    assert "usage" in done.stdout
