"""Results of the quick grid: schemas, intervals, references, pages, and the stages by hand."""

import re
import sys

import compare_references
import pandas as pd
import pytest
from whole_project import RESULTS, ROOT, execute, planned_jobs, run, run_module, succeed

from rarefeat.stages.probe import probe
from rarefeat.stages.synthesise import synthesise
from rarefeat.training.pretraining import pretrain
from rarefeat.workflow.files.schema import validate
from rarefeat.workflow.files.sealed_files import read_table
from rarefeat.workflow.project import load
from rarefeat.workflow.run.cli_helpers import load_function

QUICK = load(ROOT / "config/config.yaml", ROOT / "config/quick.yaml")
DEFAULT = set(QUICK.default)


@pytest.fixture
def results(finished):
    return finished / RESULTS


def test_outputs_are_complete_and_keep_their_schemas(results):
    names = [name for name in QUICK.tables if f"tables/{name}.parquet" in DEFAULT]
    assert {"paper_grid", "alignment_heatmap", "scaling", "augmentation"} <= set(names)
    for name in names:
        table = read_table(results / f"tables/{name}.parquet")
        schema = load_function(QUICK.tables[name].schema)
        assert table.num_rows
        assert list(table.column_names) == list(schema.columns)
        validate(schema, table.to_pandas())
    assert read_table(results / "tables/alignment_heatmap.parquet").num_rows == 2 * 4 * 30 * 9
    both = read_table(results / "tables/cross_check.parquet").to_pandas()
    assert len(both.drop_duplicates(["eps_min", "arm"])) == 8
    assert (both[["n_reduced", "n_direct"]] == [4, 3]).all(axis=None)
    figures = [path for path in DEFAULT if path.startswith("figures/")]
    assert {"figures/fate.png", "figures/trajectories.pdf"} <= set(figures)
    for path in figures:
        content = (results / path).read_bytes()
        assert content.startswith(b"%PDF" if path.endswith(".pdf") else b"\x89PNG")
        assert len(content) > 5000


def test_tables_agree_with_the_committed_references(finished):
    """What `make check` compares; and the comparison sees a change."""
    command = sys.executable, ROOT / "tests/compare_references.py", ROOT / "tests/reference"
    text = succeed(execute(finished, *command, "--configfile", "config/quick.yaml"))
    paths = sorted((ROOT / "tests/reference").glob("*.csv"))
    assert len(text.splitlines()) == len(paths) >= 5
    for path in paths:
        reference = pd.read_csv(path)
        *_, value, n = reference.columns
        row = reference[value].abs().idxmax()
        assert not compare_references.list_differences(reference, reference)
        larger = reference[value].where(reference.index != row, 1.05 * reference[value] + 1)
        for other in (
            reference.assign(**{value: larger}),
            reference.assign(**{n: reference[n] + 1}),
            reference.drop(index=row),
        ):
            assert compare_references.list_differences(reference, other)


def test_results_are_whole_and_a_second_run_does_nothing(finished):
    succeed(run_module(finished, "rarefeat.workflow.cli", "verify", RESULTS))
    assert planned_jobs(finished) == {}


def test_table_agrees_with_the_stages_called_by_hand(results):
    """No stage sees other arguments than the keys of the table say."""
    study = QUICK.studies["paper"]
    cell = next(cell for cell in study.cells() if cell["eps_min"] == 0.2)
    (arm,) = (arm for arm in cell.arms if arm.arm == "pruned_neuron")
    latents = synthesise(study.draws, study.data, 0.2, [101])
    shared = study.draws, study.simulator, study.data, study.training, [arm], cell["sigma"], [101]
    encoders, _ = pretrain(*shared, latents["train"])
    networks = {
        name: (encoder.weights, encoder.bias, encoder.loss) for name, encoder in encoders.items()
    }
    (expected,) = probe(*shared, latents, networks)
    grid = read_table(results / "tables/paper_grid.parquet").to_pandas()
    keys = arm.model_dump()
    row = grid[
        (grid["eps_min"] == 0.2)
        & (grid["sigma"] == cell["sigma"])
        & (grid["arm"] == "pruned_neuron")
        & (grid["seed"] == 101)
    ].iloc[0]
    assert dict(row[list(keys)]) == keys == {name: expected.pop(name) for name in keys}
    for name, value in expected.items():
        assert row[name] == pytest.approx(value, rel=1e-6, nan_ok=True), name


def test_claims_need_no_study_that_is_made_on_request(finished):
    text = succeed(run(finished, "--dry-run", "all_claims"))
    for name in ("claims_imbalance_and_pruning", "claims_wen_li_feature_decoupling"):
        assert name in text
    assert not re.search("(two_layer|selection|exact_results)_measured", text)
