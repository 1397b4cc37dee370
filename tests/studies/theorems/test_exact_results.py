"""The exact results together: wrong values, seeds of blocks, means, costs and figures."""

import numpy as np
import pandas as pd
import pytest
from conftest import quick

from rarefeat.errors import RarefeatError
from rarefeat.studies.exact_results import STAGES, experiments
from rarefeat.studies.theorems import exact, looped_transformer
from rarefeat.studies.theorems.problems import MachineSpeed
from rarefeat.studies.theorems.results import Row, setting_rows
from rarefeat.workflow.project import Project
from rarefeat.workflow.run.cli_helpers import load_function
from rarefeat.workflow.run.job_inputs import call


def project(**exact_results) -> Project:
    return quick(exact_results=exact_results)


@pytest.mark.parametrize(
    ("part", "message"),
    [
        ({"looped_transformer": {"n": [3]}}, r"looped_transformer.*n must exceed problem\.d = 4"),
        ({"modular_addition": {"tables": {"k2": {"p": 9}}}}, "p must be an odd prime, got 9"),
        ({"task_mixture": {"mixtures": {"rare_0.5": {"s": 4}}}}, "s must be less than r = 4"),
        ({"task_mixture": {"mixtures": {"rare_0.5": {"gamma": [0.1]}}}}, "r = 2 s and equal"),
        ({"nuclear_norm": {"model": ["softmax"]}}, "nuclear_norm"),
    ],
)
def test_a_bad_value_is_named(part, message):
    with pytest.raises(RarefeatError, match=message):
        project(**part)


def test_a_mixture_can_be_left_out_and_a_cell_has_its_own():
    study = project().studies["task_mixture"]
    cells = {cell["mixture"]: study.settings(cell)["problem"] for cell in study.cells()}
    assert "rare_0.1" not in cells
    assert cells["rare_0.5"].weights == [1, 1, 1, 0.5]


@pytest.mark.parametrize("name", STAGES)
def test_a_seed_does_not_depend_on_its_block(name):
    # Few features: the sums of many have long distributions, which take seconds.
    smaller = {"spurious_features": {"problem": {"r": [37, 38], "more": 1.1}}}
    study = project(**({name: smaller[name]} if name in smaller else {})).studies[name]
    cell, measure = study.cells()[0], load_function(STAGES[name].function)
    problem = study.settings(cell)["problem"] if hasattr(study, "settings") else study.problem
    both, alone = (pd.DataFrame(measure(cell.values, seeds, problem)) for seeds in ([0, 1], [1]))
    both = both[both["seed"] == 1].reset_index(drop=True)
    pd.testing.assert_frame_equal(both, alone, check_exact=True)


def test_means_have_what_is_stated_and_what_is_printed():
    study = project().studies["looped_transformer"]
    rows = looped_transformer.measure({"n": 16}, [0, 1, 2, 3], study.problem)
    table = exact.summarise({"looped_transformer": pd.DataFrame(rows)})
    at = table.set_index(["quantity", "at"])
    assert at.loc[("kappa", 0.0), "printed"] == looped_transformer.KAPPA[16]
    assert at.loc[("log_error", 20.0), "mean"] < at.loc[("log_error", 20.0), "stated"] < 0
    assert set(table["n"]) == {4}


def test_means_pool_instances_over_a_drawn_axis():
    rows = [Row(0, "alpha", 0.1, 0.2, 40), Row(1, "alpha", 0.3, 0.4, 50)]
    table = pd.DataFrame(setting_rows(rows, {"factor": 1.0}))
    found = exact.summarise({"spurious_features": table})
    assert found[["at", "mean", "stated", "n"]].to_numpy().tolist() == [
        [0.0, pytest.approx(0.2), pytest.approx(0.3), 2]
    ]


def test_costs_are_operations_over_speed():
    slow, fast = (
        exact.costs(experiments(), MachineSpeed(cores=speed, gpu=1e14)) for speed in (1e11, 2e11)
    )
    assert (slow["hours_cores"] / fast["hours_cores"]).tolist() == pytest.approx([2] * len(slow))
    hours = slow["operations"] / 3600 / 1e11
    assert slow["hours_cores"].tolist() == pytest.approx(hours.tolist())
    assert slow["experiment"].is_unique
    assert slow["operations"].min() > 0


SHOWN = {
    "low_rank_attention": [("signal=3", rank, "loss") for rank in (3, 4)],
    "digit_neurons": [
        ("sigma=0.1", step, name) for step in (0, 9) for name in ("silhouette", "median_cosine")
    ],
    "nuclear_norm": [("model=logits/n=20", penalty, "ood_accuracy") for penalty in (0.0, 0.01)],
    "spurious_features": [("factor=1.0", 40, "ood_accuracy")],
    "task_mixture": [
        (f"mixture={name}", task, "private_weight")
        for name in ("even_1", "even_2", "rare_0.5")
        for task in (1, 2)
    ],
}


@pytest.mark.parametrize("name", SHOWN)
def test_figures_hold_what_the_tables_hold(name):
    rows = [
        (setting, seed, float(at), quantity, 0.4 + 0.1 * seed, 0.5)
        for setting, at, quantity in SHOWN[name]
        for seed in range(3)
    ]
    columns = ["setting", "seed", "at", "quantity", "value", "stated"]
    job = project().figure_job(name)
    drawn = call(load_function(job.stage), {name: pd.DataFrame(rows, columns=columns)}, job)
    lines = [line for ax in drawn.axes for line in ax.get_lines()]
    shown = [data for line in lines for data in (line.get_xdata(), line.get_ydata())]
    assert any(abs(y - 0.5) < 1e-9 for ys in shown for y in np.asarray(ys, float))
