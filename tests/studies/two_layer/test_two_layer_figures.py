"""Figures hold what the tables hold; comparisons are right on tables made by hand."""

import math

import numpy as np
import pandas as pd
import pytest

from rarefeat.studies.two_layer import figures, printed
from rarefeat.studies.two_layer.config import Setting
from rarefeat.studies.two_layer.measure import measure_two_layer
from rarefeat.studies.two_layer.printed import PRINTED

RATES = {"network_head": 0.3, "network_first": 0.003, "head": 3.0, "momentum": 0.95, "ntk": 2.0}
BASE = {"n": 600, "n_test": 300, "m": 20, "T": 30, "batch": 50, "rates": RATES}
ARMS = [
    {"method": "network"},
    {"method": "network", "structure": False},
    {"method": "ntk"},
    {"method": "random_features"},
    {"method": "two_step"},
    {"method": "two_step", "weights": True},
]
PARITY = {"labels": "parity", "d": 30, "D": 20, "k": 3, "negatives": 0.5}
RARE = {"labels": "majority", "d": 30, "D": 20, "k": 3, "frequency": [1, 1, 0.2]}
MEASURED = {
    "arms": ARMS,
    "neurons": [0, 1, 2],
    "tickets": {"sizes": [4, 6], "random_draws": 2},
    "fixed_features": [5, 20],
}
SETTINGS = {
    "parity": Setting(problem=PARITY, **BASE, **MEASURED),
    "rare_0.2": Setting(problem=RARE, **BASE, **MEASURED),
}


def measure(name: str, setting: Setting, seeds: list[int]) -> tuple[pd.DataFrame, pd.DataFrame]:
    numbers, pictures = measure_two_layer({"setting": name}, seeds, setting, 0)
    return pd.DataFrame(numbers), pictures


@pytest.fixture(scope="module")
def tables() -> dict[str, pd.DataFrame]:
    """The tables of two settings and two seeds, each measured alone."""
    blocks = [measure(name, item, [seed]) for name, item in SETTINGS.items() for seed in (0, 1)]
    numbers, pictures = (pd.concat(parts, ignore_index=True) for parts in zip(*blocks, strict=True))
    return {"two_layer": numbers, "two_layer_pictures": pictures}


def test_a_seed_does_not_depend_on_its_block(tables):
    together, pictures = measure("parity", SETTINGS["parity"], [0, 1])
    alone, of_first = (table[table["setting"] == "parity"] for table in tables.values())
    pd.testing.assert_frame_equal(together, alone.reset_index(drop=True))
    assert len(pictures) == len(of_first) > 0


@pytest.mark.parametrize(
    ("problem", "kinds"),
    [
        ({"labels": "codes", "d": 12, "D": 10, "k": 4, "codes": 3}, {"target", "opposite"}),
        ({"labels": "hypercube", "d": 9, "D": 9, "k": 2, "sigma_r": 1}, {"positive", "negative"}),
    ],
)
def test_other_laws_have_their_targets(problem: dict, kinds: set[str]):
    cube = problem["labels"] == "hypercube"
    arms = [{"method": "network", "schedule": "plain" if cube else "chosen"}]
    _, pictures = measure("one", Setting(problem=problem, **BASE, arms=arms, neurons=[0, 2]), [0])
    assert set(pictures["kind"]) == kinds | {"neuron"}
    assert (pictures["kind"] != "neuron").sum() == 2 * (4 if cube else 2)
    assert pictures[["x", "y"]].notna().all().all()


def test_curves_are_the_means_over_seeds(tables):
    figure = figures.accuracy_over_steps(tables, {"parity": SETTINGS["parity"]})
    rows = tables["two_layer"]
    rows = rows.query("setting == 'parity' and arm == 'network' and quantity == 'curve'")
    expected = rows.groupby("step")["value"].mean()
    colour = figures.OF_ARM["network"].colour
    line = next(line for line in figure.axes[0].lines if line.get_color() == colour)
    assert line.get_xdata().tolist() == expected.index.tolist()
    assert line.get_ydata() == pytest.approx(expected.to_numpy())


def test_stairs_are_marked_where_there_is_structure(tables):
    figure = figures.accuracy_over_steps(tables, {"parity": SETTINGS["parity"]})
    heights = [set(np.round(line.get_ydata(), 6)) for ax in figure.axes for line in ax.lines]
    assert heights.count({round(13 / 16, 6)}) == 1


def test_pictures_show_the_neurons_that_have_a_direction(tables):
    figure = figures.neurons(tables, {"parity": SETTINGS["parity"]})
    assert len(figure.axes) == 2 * 3  # with structure and without, by three steps
    shown = tables["two_layer_pictures"].query("setting == 'parity' and kind == 'neuron'")
    counts = shown[shown["arm"] == "network"]["step"].value_counts()
    assert counts[0] == 40
    assert 0 < counts[2] < 40


@pytest.mark.parametrize("draw", ["tickets", "lower_bounds"])
def test_the_other_figures_have_points_in_every_panel(tables, draw: str):
    figure = getattr(figures, draw)(tables, {"parity": SETTINGS["parity"]})
    for ax in figure.axes:
        assert any(np.isfinite(np.asarray(line.get_ydata(), float)).any() for line in ax.lines)
    figure.savefig("/dev/null", format="png")


def test_printed_numbers_stand_beside_their_means():
    rows = pd.DataFrame(PRINTED).assign(step=600)
    rows = pd.concat([rows.assign(seed=seed, value=0.5 + seed / 10) for seed in (0, 1)])
    found = printed.two_layer_summary({"two_layer": rows})
    assert found["printed"].notna().sum() == sum(not math.isnan(p.printed) for p in PRINTED)
    assert found["mean"].to_numpy() == pytest.approx(0.55)
    ntk = found.query("setting == 'parity' and arm == 'ntk' and quantity == 'test_accuracy'")
    assert ntk["printed"].item() == pytest.approx(0.864)
    # The t quantile of one degree of freedom; a share ends at 1.
    assert (ntk["ci_low"].item(), ntk["ci_high"].item()) == pytest.approx((0, 1))
    cosine = found[found["quantity"] == "cosine"]
    assert cosine["ci_low"].to_numpy() == pytest.approx(0.55 - 12.7062 * 0.05, abs=1e-4)
    figure = figures.printed_beside_measured({"two_layer_summary": found})
    far = found.query("quantity == 'test_accuracy' and abs(mean - printed) > @figures.FAR")
    labels = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    assert sum("," in label for label in labels) == len(far) > 0
