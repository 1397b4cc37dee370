"""What the kind declares, what its jobs are told, and how their files come together."""

import json
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pytest
import yaml

from rarefeat.config.cells import cell, path_of
from rarefeat.config.section import told
from rarefeat.core.errors import RarefeatError
from rarefeat.project import Project, load, merged, parse
from rarefeat.report.reference import config_studies_page, tables_page
from rarefeat.run.job import Job, job
from rarefeat.storage.files import write_table
from rarefeat.storage.origin import KEY
from rarefeat.storage.schema import ordered
from rarefeat.studies.two_layer import aggregate, rates, search, summarise
from rarefeat.studies.two_layer.config import Setting, TwoLayer
from rarefeat.studies.two_layer.kind import MEASURED
from rarefeat.studies.two_layer.measure import NO_PICTURE, NUMBERS, measure
from rarefeat.studies.two_layer.tables import TWO_LAYER, TWO_LAYER_PICTURES, TWO_LAYER_SUMMARY

CONFIG = Path(__file__).parents[3] / "config"


def project(two_layer: dict | None = None) -> Project:
    raw = merged(yaml.safe_load((CONFIG / "config.yaml").read_text()), yaml.safe_load((CONFIG / "quick.yaml").read_text()))
    return parse(raw | ({"two_layer": two_layer} if two_layer else {}), CONFIG / "studies")


def drawn(of: Project) -> set[str]:
    return {name.removeprefix("two_layer_") for name in of.made["two_layer"].figures}


def test_every_setting_of_the_config_is_shown_somewhere():
    of = load(CONFIG / "config.yaml")
    shown = {setting for figure in of.made["two_layer"].figures.values() for setting in figure.parts.get("settings", {})}
    assert shown == set(of.sections["two_layer"].settings)


def test_what_needs_a_setting_goes_with_it():
    assert {"accuracy_labels", "tickets", "lower_bounds_parity", "rare_patterns"} <= drawn(project())
    without = project({"settings": {"rare_0.2": None}})
    assert drawn(project()) - drawn(without) == {"rare_patterns"}
    assert "two_layer" in without.targets["two_layer"][0]


def test_a_setting_that_is_searched_cannot_be_left_out():
    with pytest.raises(RarefeatError, match=r"two_layer.*rate_search\.settings: parity not among the settings"):
        project({"settings": {"parity": None}})


def test_a_job_is_told_its_own_setting_and_a_search_no_rates():
    """What a parameter changes is rerun, and nothing else."""
    section = project().sections["two_layer"]
    changed = project({"settings": {"parity": {"rates": {"ntk": 5.0}}}}).sections["two_layer"]
    differing = [name for name in section.settings if told(section.settings[name]) != told(changed.settings[name])]
    assert differing == ["parity"]
    assert told(section.searched("parity")) == told(changed.searched("parity"))
    assert told(section.emergence) == told(project({"rate_search": {"ntk": [1.0]}}).sections["two_layer"].emergence)


def test_a_search_trains_what_it_is_about_alone():
    section: TwoLayer = project().sections["two_layer"]
    assert section.settings["parity"].fixed_features
    for setting in search.candidates(section.settings["parity"], "ntk", section.rate_search.grid):
        assert not setting.fixed_features
        assert not setting.tickets


def small(section: TwoLayer) -> TwoLayer:
    """One setting of the quick study, smaller still."""
    setting = Setting(**told(section.settings["parity"]) | {"n": 200, "n_test": 100, "T": 6})
    return section.model_copy(update={"settings": {"parity": setting}, "seeds": 2, "first_seed": 0, "seeds_per_block": 1})


@pytest.fixture(scope="module")
def results(tmp_path_factory) -> tuple[TwoLayer, Job, Path]:
    """Two blocks of one setting, as the stage writes them; the job that gathers them."""
    folder, section = tmp_path_factory.mktemp("results"), small(project().sections["two_layer"])
    study = section.emergence
    for block, seeds in study.blocks().items():
        (at,) = study.cells()
        setting = study.settings["parity"]
        told_of_it = job("studies.two_layer.measure", (), {"setting": setting, "pictured": 0}, "emergence", at, block)
        tables = measure("parity", told_of_it.part("setting", Setting), seeds, 0)
        for kind, table in zip(("probes", "pictures"), tables, strict=True):
            path = folder / path_of(kind, "emergence", at, block, "parquet")
            write_table(path, pa.Table.from_pandas(table, preserve_index=False), {KEY: told_of_it.text})
    gather = job("studies.two_layer.aggregate", ("studies.two_layer.measure",), {"emergence": study}, "emergence")
    return section, gather, folder


def test_blocks_come_together(results):
    section, gather, folder = results
    numbers = ordered(TWO_LAYER, aggregate.gathered("probes", gather, section.emergence, folder))
    assert set(numbers["seed"]) == {0, 1}
    kernel = numbers[numbers["quantity"].str.startswith("head_kernel_")].groupby("seed")["value"]
    assert kernel.sum().tolist() == pytest.approx([1, 1])
    assert set(numbers.loc[numbers["quantity"] == "hinge_loss", "arm"]) >= {"network", "ntk", "random_features"}
    pictures = ordered(TWO_LAYER_PICTURES, aggregate.gathered("pictures", gather, section.emergence, folder))
    assert len(pictures) > 100


def test_a_file_of_another_config_or_code_is_refused(results):
    section, gather, folder = results
    other = section.emergence.model_copy(
        update={"settings": {"parity": section.settings["parity"].model_copy(update={"m": 21})}}
    )
    with pytest.raises(RarefeatError, match=r"another config\.setting"):
        aggregate.gathered("probes", gather, other, folder)
    old = gather.model_copy(update={"code": gather.code | {"studies.two_layer.measure": "0"}})
    with pytest.raises(RarefeatError, match=r"another code\.studies\.two_layer\.measure"):
        aggregate.gathered("probes", old, section.emergence, folder)


def test_rates_are_gathered_from_the_searches_that_the_config_has(tmp_path):
    section = small(project().sections["two_layer"])
    grid = section.rate_search.grid
    declared = section.rate_search, {"parity": section.searched("parity")}, {"parity": section.settings["parity"].rates}
    config = dict(zip(("rate_search", "searched", "rates"), declared, strict=True))
    gather = job("studies.two_layer.rates", ("studies.two_layer.search",), config, "rate_search")
    at = cell(setting="parity")
    own = {"setting": section.searched("parity"), "candidates": grid}
    searched = job("studies.two_layer.search", (), own, "rate_search", at, "0-0")
    table = search.measure(searched.part("setting", Setting), "parity", grid, searched.seed_list)
    path = tmp_path / path_of("probes", "rate_search", at, "0-0", "parquet")
    write_table(path, pa.Table.from_pandas(table, preserve_index=False), {KEY: searched.text})
    pd.testing.assert_frame_equal(rates.gathered(gather, tmp_path), table)
    another = json.loads(searched.text)
    another["config"]["candidates"]["ntk"] = [9.0]
    write_table(path, pa.Table.from_pandas(table, preserve_index=False), {KEY: json.dumps(another)})
    with pytest.raises(RarefeatError, match=r"another config\.candidates"):
        rates.gathered(gather, tmp_path)


def test_an_empty_picture_has_the_columns_of_one():
    assert len(ordered(TWO_LAYER_PICTURES, NO_PICTURE)) == 0


def test_the_page_has_what_is_printed_beside_what_is_measured():
    rows = [
        ("parity", "network", 600, "test_accuracy", 0.75, 0.7, 0.8, 10, 1.0),
        ("parity", "network", 600, "train_accuracy", 0.76, 0.7, 0.8, 10, 1.0),
        ("parity", "network", 2, "head_kernel_1", 0.9, 0.8, 1.0, 10, None),
        ("parity", "network", 2, "head_kernel_2", 0.0001, 0.00005, 0.00015, 10, None),
        ("parity", "network-printed", 600, "test_accuracy", 0.6, float("nan"), float("nan"), 1, None),
        ("parity", "network-printed", 600, "train_accuracy", 0.6, float("nan"), float("nan"), 1, None),
        ("mine", "network", 600, "test_accuracy", 0.5, 0.4, 0.6, 10, None),
        ("mine", "network", 600, "train_accuracy", 0.5, 0.4, 0.6, 10, None),
    ]
    summary = ordered(TWO_LAYER_SUMMARY, pd.DataFrame(rows, columns=list(TWO_LAYER_SUMMARY.columns)))
    forms = pd.DataFrame(columns=["table", "row", "column", "printed", "quantity", "value"])
    chosen = pd.DataFrame([("parity", "ntk", 2.0, 4.0)], columns=["setting", "rate", "configured", "chosen"])
    text = summarise.page(summary, forms, chosen)
    assert "| parity | network | Network | 0.760 [0.700, 0.800] | 1.000 | 0.750 [0.700, 0.800] | 1.000 |" in text
    assert "| parity | network-printed |  | 0.600 |  | 0.600 |  |" in text
    assert "| parity | network | 0.9 [0.8, 1]; 0.0001 [5e-05, 0.00015] |" in text
    assert "| mine | network |  | 0.500 [0.400, 0.600] |  |" in text
    assert "| parity | ntk | 2 | 4 |" in text
    assert "rare relevant" not in text
    assert "Table A.2" not in text


def test_the_reference_pages_have_the_section_and_the_tables():
    assert "`two_layer`, `Problem`" in config_studies_page()
    assert all(f"## `{name}.parquet`" in tables_page("two_layer") for name in MEASURED)
    assert list(TWO_LAYER.columns) == NUMBERS
