"""What a result depends on: the traced modules, and the hashes in a table's metadata."""

import json
import subprocess
import sys

import pytest

from rarefeat import provenance
from rarefeat.config import load
from rarefeat.provenance import PACKAGE, sources, table_metadata


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


def test_metadata_changes_with_config_code_and_seeds_and_not_with_blocks(monkeypatch, tmp_path):
    study = load("config/config.yaml").studies["paper"]
    base = table_metadata(study, "pretrain")
    assert base == table_metadata(study, "pretrain")
    assert base == table_metadata(study.model_copy(update={"seeds_per_block": 3}), "pretrain")
    more = table_metadata(study.model_copy(update={"seeds": 11}), "pretrain")
    assert more["rarefeat.seeds"] == "100-110"
    assert more["rarefeat.config_sha256"] != base["rarefeat.config_sha256"]
    assert table_metadata(study, "probe")["rarefeat.code_sha256"] != base["rarefeat.code_sha256"]
    changed = tmp_path / "pretrain.py"
    changed.write_text("# another trainer\n")
    monkeypatch.setattr(provenance, "sources", lambda *modules: [changed])
    assert table_metadata(study, "pretrain")["rarefeat.code_sha256"] != base["rarefeat.code_sha256"]


def test_the_record_names_commit_machine_packages_and_products(tmp_path):
    product = tmp_path / "table.parquet"
    product.write_bytes(b"x")
    record = provenance.record([product])
    assert {"commit", "date", "machine", "packages", "products"} <= set(record)
    assert len(record["products"][str(product)]) == 64
    json.dumps(record)


@pytest.mark.parametrize("stage", ["synthesise", "pretrain", "probe", "aggregate", "alignment_map", "plot", "provenance"])
def test_every_stage_has_a_command_line(stage):
    done = subprocess.run([sys.executable, "-m", f"rarefeat.{stage}", "--help"], capture_output=True, text=True)
    assert done.returncode == 0
    assert "usage" in done.stdout
