"""Figures hold what the tables hold; comparisons are right on tables made by hand."""

import math

import numpy as np
import pandas as pd
import pytest

from rarefeat.studies.two_layer import compare, figures, measure
from rarefeat.studies.two_layer.config import Setting, TwoLayer
from rarefeat.studies.two_layer.paper_values import PRINTED
from rarefeat.workflow.config.section import dump_config
from rarefeat.workflow.project import load
from rarefeat.workflow.run.job import Job

RATES = {"network_head": 0.3, "network_first": 0.003, "head": 3.0, "momentum": 0.95, "ntk": 2.0}
ARMS = [
    {"method": "network"},
    {"method": "network", "schedule": "printed"},
    {"method": "network", "structure": False},
    {"method": "ntk"},
    {"method": "random_features"},
    {"method": "one_step"},
    {"method": "two_step"},
    {"method": "two_step", "weights": True},
]


@pytest.fixture(scope="module")
def study() -> tuple[TwoLayer, pd.DataFrame, pd.DataFrame]:
    """A small study with the settings' names of the real one, its numbers and its pictures."""
    base = {
        "n": 600,
        "n_test": 300,
        "m": 20,
        "T": 30,
        "batch": 50,
        "rates": RATES,
        "arms": ARMS,
        "neurons": [0, 1, 2],
    }
    base |= {"tickets": {"sizes": [4, 6], "random_draws": 2}, "fixed_features": [5, 20]}
    parity = {"labels": "parity", "d": 30, "D": 20, "k": 3, "negatives": 0.5}
    rare = {"labels": "majority", "d": 30, "D": 20, "k": 3, "frequency": [1, 1, 0.2]}
    settings = {
        "parity": Setting(problem=parity, **base),
        "rare_0.2": Setting(problem=rare, **base),
    }
    search = {
        "settings": ["parity"],
        "seeds": 1,
        "network_head": [1],
        "network_first": [1],
        "head": [1],
        "ntk": [1],
    }
    section = TwoLayer(
        seeds=2, first_seed=0, seeds_per_block=1, rate_search=search, settings=settings
    )
    blocks = [
        measure.measure(name, settings[name], [seed], 0) for name in settings for seed in range(2)
    ]
    numbers, pictures = (pd.concat(parts, ignore_index=True) for parts in zip(*blocks, strict=True))
    return section, numbers, pictures


def test_a_seed_does_not_depend_on_its_block(study):
    section, rows, pictures = study
    together = measure.measure("parity", section.settings["parity"], [0, 1], 0)
    alone = rows[rows["setting"] == "parity"]
    pd.testing.assert_frame_equal(together.numbers, alone.reset_index(drop=True))
    assert len(together.pictures) == (pictures["setting"] == "parity").sum()


@pytest.mark.parametrize(
    ("problem", "kinds"),
    [
        (
            {"labels": "codes", "d": 12, "D": 10, "k": 4, "codes": 3, "negatives": 0.5},
            {"target", "opposite"},
        ),
        (
            {"labels": "hypercube", "d": 10, "D": 10, "k": 2, "sigma_r": 0.5},
            {"positive", "negative"},
        ),
    ],
)
def test_other_laws_have_their_targets(problem: dict, kinds: set[str]):
    cube = problem["labels"] == "hypercube"
    arms = [{"method": "network", "schedule": "plain"}] if cube else [{"method": "network"}]
    setting = Setting(
        problem=problem,
        n=400,
        n_test=100,
        m=10,
        T=10,
        batch=50,
        rates=RATES,
        arms=arms,
        neurons=[0, 2],
    )
    pictures = measure.measure("one", setting, [0], 0).pictures
    assert set(pictures["kind"]) == kinds | {"neuron"}
    assert (pictures["kind"] != "neuron").sum() == 2 * (4 if cube else 2)
    assert pictures[["x", "y"]].notna().all().all()


def job(**settings: Setting) -> Job:
    """Of a figure of some settings."""
    return Job(stage="figures", config={"settings": dump_config(settings)})


def test_curves_are_the_means_over_seeds(study):
    section, rows, _ = study
    figure = figures.accuracy_over_steps(
        {"two_layer": rows}, job(parity=section.settings["parity"])
    )
    part = rows[
        (rows["setting"] == "parity") & (rows["arm"] == "network") & (rows["quantity"] == "curve")
    ]
    expected = part.groupby("step")["value"].mean()
    colour = figures.OF_ARM["network"].colour
    line = next(line for line in figure.axes[0].lines if line.get_color() == colour)
    assert line.get_xdata().tolist() == expected.index.tolist()
    assert line.get_ydata() == pytest.approx(expected.to_numpy())


def test_every_seed_is_on_the_staircase(study):
    section, rows, _ = study
    figure = figures.staircase({"two_layer": rows}, job(parity=section.settings["parity"]))
    curves = [line for ax in figure.axes for line in ax.lines if len(line.get_xdata()) > 2]
    assert len(curves) == 2 * 2  # seeds and arms
    assert figures.stairs_of(section.settings["parity"].problem)[1] == pytest.approx(13 / 16)
    assert figures.stairs_of(section.settings["rare_0.2"].problem) == {}


def test_pictures_show_the_neurons_that_have_a_direction(study):
    section, _, pictures = study
    figure = figures.neurons(
        {"two_layer_pictures": pictures}, job(parity=section.settings["parity"])
    )
    assert len(figure.axes) == 2 * 3  # with structure and without, by three steps
    assert (
        pictures.query(
            "setting == 'parity' and arm == 'network' and step == 0 and kind == 'neuron'"
        ).shape[0]
        == 40
    )
    assert (
        0
        < pictures.query(
            "setting == 'parity' and arm == 'network' and step == 2 and kind == 'neuron'"
        ).shape[0]
        < 40
    )
    assert set(pictures["kind"]) == {"neuron", "target", "opposite"}


@pytest.mark.parametrize("draw", ["tickets", "lower_bounds", "rare_patterns"])
def test_the_other_figures_have_points_in_every_panel(study, draw: str):
    section, rows, _ = study
    name = "rare_0.2" if draw == "rare_patterns" else "parity"
    figure = getattr(figures, draw)({"two_layer": rows}, job(**{name: section.settings[name]}))
    for ax in figure.axes:
        assert any(np.isfinite(np.asarray(line.get_ydata(), float)).any() for line in ax.lines)
    figure.savefig("/dev/null", format="png")


def test_printed_numbers_stand_beside_their_means():
    rows = pd.DataFrame(
        [
            {
                "setting": p.setting,
                "seed": seed,
                "arm": p.arm,
                "step": 600,
                "quantity": p.quantity,
                "value": 0.5 + seed / 10,
            }
            for p in PRINTED
            for seed in (0, 1)
        ]
    )
    found = compare.summary(rows)
    assert found["printed"].notna().sum() == sum(not math.isnan(p.value) for p in PRINTED)
    both = compare.compared(found)
    assert len(both) == len(PRINTED)
    accuracy = both[both["quantity"] == "test_accuracy"]
    assert accuracy["mean"].to_numpy() == pytest.approx(0.55)
    assert both[both["quantity"] == "cosine"]["mean"].to_numpy() == pytest.approx(0.55)
    assert both.query("table == 'A.1' and column == 'NTK' and quantity == 'test_accuracy'")[
        "printed"
    ].item() == pytest.approx(0.864)
    figures.printed_beside_measured({"two_layer_summary": found}, job())


def test_closed_forms_stand_beside_the_printed_cosines():
    section = load().sections["two_layer"]
    initial = compare.initial_cosines(section).set_index(["table", "row"])
    # Table A.4's are those of d = 100, although its text has d = 500.
    imbalanced = initial.loc["A.4"]
    assert (imbalanced["printed"] - imbalanced["closed_form_at_100"]).abs().max() < 0.02
    assert (imbalanced["printed"] / imbalanced["closed_form"]).min() > 2
    assert (
        (initial.drop("A.4")["printed"] / initial.drop("A.4")["closed_form"])
        .between(0.8, 1.4)
        .all()
    )
    found = compare.residues(section).set_index(["table", "row"])
    by_dimension = found.loc[["A.1", "A.3"], "residue"]
    assert by_dimension.max() / by_dimension.min() < 1.3
    assert (found["erased"].dropna() > 0.98).all()
    # At d = 100 the rows of Table A.4 have about the residue of the others.
    assert (
        (found.loc["A.4", "residue_at_100"] / found.loc[("A.3", "d = 100"), "residue"])
        .between(0.8, 1.4)
        .all()
    )
    assert (found.loc["A.4", "residue"] / found.loc[("A.3", "d = 100"), "residue"]).max() < 0.6
