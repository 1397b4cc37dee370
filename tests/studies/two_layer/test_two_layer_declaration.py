"""What the kind declares, what its jobs are told, and how their files come together."""

from pathlib import Path

import pandas as pd
import pytest
from conftest import made_table, make_cells, quick

from rarefeat.errors import RarefeatError
from rarefeat.studies.two_layer import KIND, MEASURE, SEARCH
from rarefeat.studies.two_layer.config import Setting, TwoLayer
from rarefeat.workflow.config.section import dump_config
from rarefeat.workflow.project import Project, load
from tables_two_layer import beside_printed


def figure_names(project: Project) -> set[str]:
    return {name.removeprefix("two_layer_") for name in project.outputs["two_layer"].figures}


def test_every_setting_of_the_config_is_shown_somewhere():
    project = load("config/config.yaml")
    shown = {
        setting
        for figure in project.outputs["two_layer"].figures.values()
        for setting in figure.sections.get("settings", {})
    }
    assert shown == set(project.sections["two_layer"].by_name)


def test_what_needs_a_setting_goes_with_it():
    names = figure_names(quick())
    assert {"accuracy_labels", "tickets", "lower_bounds_parity"} <= names
    without = quick(two_layer={"settings": {"parity": {"fixed_features": []}}})
    assert names - figure_names(without) == {"lower_bounds_parity"}


def test_a_setting_that_is_searched_cannot_be_left_out():
    said = r"two_layer.*rate_search\.settings: parity not among the settings"
    with pytest.raises(RarefeatError, match=said):
        quick(two_layer={"settings": {"parity": None}})


def test_a_rate_reruns_its_setting_and_no_search():
    section = quick().sections["two_layer"]
    changed = quick(two_layer={"settings": {"parity": {"rates": {"ntk": 5.0}}}})
    changed = changed.sections["two_layer"]
    differing = [
        cell["setting"]
        for cell in section.cells()
        if MEASURE.config_of(section, cell) != MEASURE.config_of(changed, cell)
    ]
    assert differing == ["parity"]
    assert dump_config(section.search) == dump_config(changed.search)
    for setting in section.search.by_name.values():
        assert not any((setting.fixed_features, setting.tickets, setting.neurons))


def small(section: TwoLayer) -> TwoLayer:
    """One setting of the quick study, smaller still, in two blocks."""
    smaller = {"n": 200, "n_test": 100, "T": 6}
    setting = Setting(**dump_config(section.by_name["parity"]) | smaller)
    sizes = {"seeds": 2, "first_seed": 0, "seeds_per_block": 1}
    return section.model_copy(update={"by_name": {"parity": setting}, **sizes})


def table_of(section: TwoLayer, name: str, results: Path) -> pd.DataFrame:
    """One of the tables that are made from files of cells."""
    return made_table(results, KIND.build_outputs(section).tables[name])


def test_blocks_come_together_and_those_of_another_config_are_refused(tmp_path):
    section = small(quick().sections["two_layer"])
    make_cells(tmp_path, MEASURE, "emergence", section)
    numbers = table_of(section, "two_layer", tmp_path)
    assert set(numbers["seed"]) == {0, 1}
    kernel = numbers[numbers["quantity"].str.startswith("head_kernel_")].groupby("seed")["value"]
    assert kernel.sum().tolist() == pytest.approx([1, 1])
    # The second block has no picture, as it has not the first seed.
    assert len(table_of(section, "two_layer_pictures", tmp_path)) > 100
    setting = section.by_name["parity"].model_copy(update={"m": 21})
    other = section.model_copy(update={"by_name": {"parity": setting}})
    with pytest.raises(RarefeatError, match=r"another config\.setting"):
        table_of(other, "two_layer", tmp_path)


def test_search_table_collects_the_configured_searches(tmp_path):
    section = small(quick().sections["two_layer"])
    make_cells(tmp_path, SEARCH, "rate_search", section.search)
    found = table_of(section, "two_layer_search", tmp_path)
    assert set(found["seed"]) == {0}
    assert set(found["ntk"].dropna()) == set(section.rate_search.ntk)


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
