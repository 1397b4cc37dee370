"""What the kind declares, how its files come together, what its page and figures show."""

import importlib

import numpy as np
import pandas as pd
import pytest
from conftest import made_table, make_cells, quick

from rarefeat.errors import RarefeatError
from rarefeat.studies.exact_results import (
    figures,
    out_of_reach,
    summary,
    tables,
)
from rarefeat.studies.exact_results.config import MachineSpeed
from rarefeat.studies.exact_results.declaration import STAGES, experiments
from rarefeat.studies.exact_results.paper_values import KAPPA
from rarefeat.studies.exact_results.result_rows import ResultRow, rows_to_table
from rarefeat.workflow.config.section import dump_config
from rarefeat.workflow.project import Project, load
from rarefeat.workflow.registry import kinds
from rarefeat.workflow.study_kind import collected_table
from reference import config_pages, tables_page


def project(**exact_results) -> Project:
    return quick(exact_results=exact_results)


def test_every_result_has_a_study_a_table_and_a_figure():
    """Every result is a study with a stage of its own, a table and a figure."""
    full = load("config/config.yaml")
    outputs, studies = full.outputs["exact_results"], full.sections["exact_results"].studies()
    assert list(studies) == list(tables.QUANTITIES) == list(outputs.figures)
    assert set(studies) < set(outputs.tables)
    for name, study in studies.items():
        assert len({cell.path for cell in study.cells()}) == len(study.cells()) > 0
        assert any(f"tables/{name}.parquet" == path for path in full.targets[name])
    assert not kinds()["exact_results"].by_default


def test_a_mixture_can_be_left_out_and_a_bad_value_is_named():
    names = [cell["mixture"] for cell in project().studies["task_mixture"].cells()]
    assert "rare_0.1" not in names
    assert "rare_0.5" in names
    for part, message in (
        ({"looped_transformer": {"n": [3]}}, r"looped_transformer.*n must exceed problem\.d = 4"),
        ({"modular_addition": {"tables": {"k2": {"p": 9}}}}, "p must be an odd prime, got 9"),
        ({"task_mixture": {"mixtures": {"rare_0.5": {"s": 4}}}}, "s must be less than r = 4"),
        (
            {"task_mixture": {"mixtures": {"rare_0.5": {"gamma": [0.1]}}}},
            "r = 2 s and equal weights",
        ),
        ({"nuclear_norm": {"model": ["softmax"]}}, "nuclear_norm"),
    ):
        with pytest.raises(RarefeatError, match=message):
            project(**part)


def test_job_parameters_depend_on_their_cell_alone():
    study, more = (
        of.studies["task_mixture"] for of in (project(), project(task_mixture={"seeds": 9}))
    )
    for at in study.cells():
        assert dump_config(study.parameters(at)) == dump_config(more.parameters(at))
    other = project(task_mixture={"mixtures": {"even_2": {"samples": 700}}}).studies["task_mixture"]
    changed = [
        at["mixture"]
        for at in study.cells()
        if dump_config(study.parameters(at)) != dump_config(other.parameters(at))
    ]
    assert changed == ["even_2"]


@pytest.mark.parametrize("name", STAGES)
def test_a_seed_does_not_depend_on_its_block(name):
    # Few features: the sums of many have long distributions, which take seconds.
    smaller = {"spurious_features": {"problem": {"r": [37, 38], "more": 1.1}}}
    study = project(**({name: smaller[name]} if name in smaller else {})).studies[name]
    module = importlib.import_module(f"rarefeat.studies.exact_results.{name}")
    at = study.cells()[0]
    both, alone = (
        rows_to_table(module.rows(study.parameters(at), at, "here", seeds), at)
        for seeds in ([0, 1], [1])
    )
    pd.testing.assert_frame_equal(
        both[both["seed"] == 1].reset_index(drop=True), alone, check_exact=True
    )


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """The folder with the blocks of the quick looped transformer as its stage writes them."""
    folder = tmp_path_factory.mktemp("results")
    make_cells(
        folder,
        STAGES["looped_transformer"],
        "looped_transformer",
        project().studies["looped_transformer"],
    )
    return folder


def gathered(results, **changes):
    """Its table."""
    study = project().studies["looped_transformer"]
    study = study.model_copy(update={"problem": study.problem.model_copy(update=changes)})
    stage = STAGES["looped_transformer"], "probes", "looped_transformer", study
    return made_table(
        results, collected_table("studies.exact_results.tables:LOOPED_TRANSFORMER", *stage)
    )


def test_table_collects_blocks_and_rejects_another_config(written):
    found = gathered(written)
    assert set(found["setting"]) == {"n=16", "n=32"}
    assert found["seed"].nunique() == 4
    with pytest.raises(RarefeatError, match=r"another config\.parameters"):
        gathered(written, T=21)


def test_the_summary_has_what_is_stated_and_what_is_printed(written):
    table = summary.summary({"looped_transformer": gathered(written)})
    at = table.set_index(["setting", "quantity", "at"])
    assert at.loc[("n=16", "kappa", 0.0), "printed"] == KAPPA[16]
    assert (
        at.loc[("n=16", "log_error", 20.0), "mean"]
        < at.loc[("n=16", "log_error", 20.0), "stated"]
        < 0
    )
    assert set(table["n"]) == {4}


def test_summary_pools_instances_over_a_drawn_axis():
    """Seeds that draw their own place on the axis are averaged over all places."""
    rows = [ResultRow(0, 40, "alpha", 0.1, 0.2), ResultRow(1, 50, "alpha", 0.3, 0.4)]
    found = summary.summary(
        {
            "spurious_features": rows_to_table(
                rows, project().studies["spurious_features"].cells()[0]
            )
        }
    )
    assert found[["at", "mean", "stated", "n"]].to_numpy().tolist() == [
        [0.0, pytest.approx(0.2), pytest.approx(0.3), 2]
    ]


def test_costs_are_operations_over_speed():
    slow, fast = (
        out_of_reach.costs(experiments(), MachineSpeed(cores=speed, gpu=1e14))
        for speed in (1e11, 2e11)
    )
    assert (slow["hours_cores"] / fast["hours_cores"]).tolist() == pytest.approx([2] * len(slow))
    assert (slow["hours_cores"] * 3600 * 1e11 / slow["operations"]).tolist() == pytest.approx(
        [1] * len(slow)
    )
    # Rows of the inventory that no study has: none is left out, none is here twice.
    assert slow["experiment"].is_unique
    assert slow["operations"].min() > 0


SMALL = {
    "low_rank_attention": [
        ("signal=3", rank, quantity)
        for rank in (3, 4)
        for quantity in ("loss", "increment", "pretraining_loss")
    ],
    "modular_addition": [
        ("table=k2", step, name)
        for step in (1, 10, 100)
        for name in ("margin_ratio", "one_frequency", "phase")
    ],
    "digit_neurons": [
        ("sigma=0.1", step, name)
        for step in (0, 9)
        for name in ("clusters", "silhouette", "median_cosine")
    ],
    "nuclear_norm": [
        ("model=logits/n=20", penalty, name)
        for penalty in (0.0, 0.01)
        for name in ("slope", "id_accuracy", "ood_accuracy")
    ],
    "spurious_features": [
        ("factor=1.0", 40, name) for name in ("alpha", "alpha_over_beta", "ood_accuracy")
    ],
    "task_mixture": [
        (f"mixture={name}", at, quantity)
        for name in ("even_1", "even_2", "rare_0.5")
        for at, quantity in (
            (1, "private_weight"),
            (2, "private_weight"),
            (0.2, "tuned_root_weight"),
            (2, "risk_first"),
            (2, "risk_last"),
        )
    ],
}


@pytest.mark.parametrize("name", list(SMALL))
def test_figures_hold_what_the_tables_hold(name):
    rows = [
        (setting, seed, at, quantity, 0.4 + 0.1 * seed, 0.5)
        for setting, at, quantity in SMALL[name]
        for seed in range(3)
    ]
    found = pd.DataFrame(
        rows, columns=["setting", "seed", "at", "quantity", "value", "stated"]
    ).astype({"at": float})
    drawn = getattr(figures, name)({name: found}, project().figure_job(name))
    lines = [line for ax in drawn.axes for line in ax.get_lines()]
    shown = [data for line in lines for data in (line.get_xdata(), line.get_ydata())]
    assert any(abs(y - 0.5) < 1e-9 for ys in shown for y in np.asarray(ys, float))


def test_the_reference_pages_have_the_section_and_the_tables():
    assert "## `Mixture`" in config_pages()["reference/config_studies/exact_results.md"]
    text = tables_page("exact_results")
    assert all(
        f"## `{name}.parquet`" in text
        for name in [*tables.QUANTITIES, "exact_results", "out_of_reach"]
    )
