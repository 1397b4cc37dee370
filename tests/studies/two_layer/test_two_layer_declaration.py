"""What the kind declares, what its jobs are told, and how their files come together."""

from pathlib import Path

import pandas as pd
import pytest
from conftest import made_table, make_cells, quick

from rarefeat.errors import RarefeatError
from rarefeat.stages.concat_tables import collect
from rarefeat.studies.two_layer import search
from rarefeat.studies.two_layer.config import Setting, TwoLayer
from rarefeat.studies.two_layer.declaration import KIND, MEASURE, SEARCH
from rarefeat.studies.two_layer.doc_tables import beside_printed
from rarefeat.studies.two_layer.measure import NO_PICTURE, NUMBERS
from rarefeat.studies.two_layer.tables import TWO_LAYER, TWO_LAYER_PICTURES
from rarefeat.workflow.config.section import dump_config
from rarefeat.workflow.files.schema import validate_sorted
from rarefeat.workflow.project import Project, load
from rarefeat.workflow.run.job_inputs import JobInputs
from reference import config_pages, tables_page


def figure_names(project: Project) -> set[str]:
    return {name.removeprefix("two_layer_") for name in project.outputs["two_layer"].figures}


def test_every_setting_of_the_config_is_shown_somewhere():
    project = load("config/config.yaml")
    shown = {
        setting
        for figure in project.outputs["two_layer"].figures.values()
        for setting in figure.sections.get("settings", {})
    }
    assert shown == set(project.sections["two_layer"].settings)


def test_what_needs_a_setting_goes_with_it():
    assert {"accuracy_labels", "tickets", "lower_bounds_parity", "rare_patterns"} <= figure_names(
        quick()
    )
    without = quick(two_layer={"settings": {"rare_0.2": None}})
    assert figure_names(quick()) - figure_names(without) == {"rare_patterns"}
    assert "two_layer" in without.targets["two_layer"][0]


def test_a_setting_that_is_searched_cannot_be_left_out():
    with pytest.raises(
        RarefeatError, match=r"two_layer.*rate_search\.settings: parity not among the settings"
    ):
        quick(two_layer={"settings": {"parity": None}})


def test_job_config_holds_its_setting_and_a_search_no_rates():
    """What a parameter changes is rerun, and nothing else."""
    section = quick().sections["two_layer"]
    changed = quick(two_layer={"settings": {"parity": {"rates": {"ntk": 5.0}}}}).sections[
        "two_layer"
    ]
    differing = [
        name
        for name in section.settings
        if dump_config(section.settings[name]) != dump_config(changed.settings[name])
    ]
    assert differing == ["parity"]
    assert dump_config(section.searched("parity")) == dump_config(changed.searched("parity"))
    assert dump_config(section.emergence) == dump_config(
        quick(two_layer={"rate_search": {"ntk": [1.0]}}).sections["two_layer"].emergence
    )


def test_a_search_trains_what_it_is_about_alone():
    section: TwoLayer = quick().sections["two_layer"]
    assert section.settings["parity"].fixed_features
    for setting in search.candidates(section.settings["parity"], "ntk", section.rate_search.grid):
        assert not setting.fixed_features
        assert not setting.tickets


def small(section: TwoLayer) -> TwoLayer:
    """One setting of the quick study, smaller still."""
    setting = Setting(**dump_config(section.settings["parity"]) | {"n": 200, "n_test": 100, "T": 6})
    return section.model_copy(
        update={"settings": {"parity": setting}, "seeds": 2, "first_seed": 0, "seeds_per_block": 1}
    )


def table_of(section: TwoLayer, name: str, results: Path) -> pd.DataFrame:
    """One of the tables that are made from files of cells."""
    return made_table(results, KIND.build_outputs(section).tables[name])


@pytest.fixture(scope="module")
def results(tmp_path_factory) -> tuple[TwoLayer, Path]:
    """Two blocks of one setting, as the stage writes them."""
    folder, section = tmp_path_factory.mktemp("results"), small(quick().sections["two_layer"])
    make_cells(folder, MEASURE, "emergence", section.emergence)
    return section, folder


def test_blocks_come_together(results):
    section, folder = results
    numbers = table_of(section, "two_layer", folder)
    assert set(numbers["seed"]) == {0, 1}
    kernel = numbers[numbers["quantity"].str.startswith("head_kernel_")].groupby("seed")["value"]
    assert kernel.sum().tolist() == pytest.approx([1, 1])
    assert set(numbers.loc[numbers["quantity"] == "hinge_loss", "arm"]) >= {
        "network",
        "ntk",
        "random_features",
    }
    assert len(table_of(section, "two_layer_pictures", folder)) > 100


def test_a_file_of_another_config_or_code_is_refused(results):
    section, folder = results
    setting = section.settings["parity"].model_copy(update={"m": 21})
    with pytest.raises(RarefeatError, match=r"another config\.setting"):
        table_of(section.model_copy(update={"settings": {"parity": setting}}), "two_layer", folder)
    job = KIND.build_outputs(section).tables["two_layer"].job({})
    old = job.model_copy(update={"code": job.code | {MEASURE.function: "0"}})
    with pytest.raises(RarefeatError, match=r"another code\.studies\.two_layer\.measure"):
        collect(JobInputs(old, folder), old)


def test_search_table_collects_the_configured_searches(tmp_path):
    section = small(quick().sections["two_layer"])
    search = section.rate_search.model_copy(update={"settings": ["parity"], "seeds": 1})
    section = section.model_copy(update={"rate_search": search})
    make_cells(tmp_path, SEARCH, "rate_search", section.search)
    found = table_of(section, "two_layer_search", tmp_path)
    assert set(found["seed"]) == {0}
    assert set(found["ntk"].dropna()) == set(search.ntk)
    other = section.model_copy(update={"rate_search": search.model_copy(update={"ntk": [9.0]})})
    with pytest.raises(RarefeatError, match=r"another config\."):
        table_of(other, "two_layer_search", tmp_path)


def test_an_empty_picture_has_the_columns_of_one():
    assert len(validate_sorted(TWO_LAYER_PICTURES, NO_PICTURE)) == 0


def test_beside_printed_names_the_table_of_each_setting():
    """Each setting has the printed table that it belongs to, and its last step alone."""
    rows = [
        (setting, arm, step, quantity, 0.5 + step / 100, 0.4, 0.6, 10, 1.0)
        for setting in ("parity", "hypercube_1", "rare_0.1")
        for arm in ("network", "ticket-random-4")
        for step in (0, 10)
        for quantity in ("train_accuracy", "test_accuracy", "cosine", "least_coverage", "alive")
    ]
    columns = ["setting", "arm", "step", "quantity", "mean", "ci_low", "ci_high", "n", "printed"]
    found = beside_printed(pd.DataFrame(rows, columns=columns))
    assert dict(zip(found["setting"], found["printed_in"], strict=True)) == {
        "parity": "A.1", "hypercube_1": "A.6", "rare_0.1": "not printed"
    }  # fmt: skip
    assert set(found["arm"]) == {"network"}
    assert set(found["quantity"]) == {"train_accuracy", "test_accuracy", "cosine", "least_coverage"}
    assert set(found["mean"]) == {0.6}


def test_the_reference_pages_have_the_section_and_the_tables():
    assert "## `Problem`" in config_pages()["reference/config_studies/two_layer.md"]
    assert all(
        f"## `{name}.parquet`" in tables_page("two_layer")
        for name in KIND.build_outputs(quick().sections["two_layer"]).tables
    )
    assert list(TWO_LAYER.columns) == NUMBERS
