"""The figures of the study of imbalance from planted tables."""

import numpy as np
import pandas as pd
import pytest
import synthetic_tables
from paper_values import check, texts

from rarefeat.studies.imbalance import figures

FEW = {"eps_mins": (0.2, 1.0), "seeds": 2}
WITH_UNTRAINED = ("dense", "pruned_neuron", "initial", "ideal")
TRAINED = ("dense", "pruned_neuron", "oracle_all")


@pytest.mark.parametrize("name", ["figure1_aligned_neurons", "figure3_cosine_similarity"])
def test_user_arm_is_compared_with_dense(name):
    given = {"": synthetic_tables.grid(arms=(*WITH_UNTRAINED, "a_new_arm"), sigmas=(0.05,), **FEW)}
    drawn = texts(check(lambda: getattr(figures, name)(given)))
    for arm in ("pruned by neuron", "a new arm"):
        assert sum(text == f"{arm}\n\N{MINUS SIGN} no mask" for text in drawn) == 1


def test_change_stands_at_its_frequency_if_an_arm_has_one_alone():
    size = {"sigmas": (0.05, 0.1), "seeds": 2}
    dense = synthetic_tables.grid((0.3, 0.5, 0.7), arms=("dense",), **size)
    arm = synthetic_tables.grid((0.7,), arms=("a_new_arm",), **size)
    table = pd.concat([dense, arm], ignore_index=True)
    figure = check(lambda: figures.figure2_max_alignment({"a": table}), 2)
    places = [line.get_xdata() for line in figure.axes[1].lines if line.get_label()[0] != "_"]
    assert np.ravel(places) == pytest.approx(0.7, abs=0.03)


def test_intervals_of_alignments_stay_within_their_range():
    table = synthetic_tables.grid(eps_mins=(0.9, 1.0), seeds=3).assign(
        max_alignment=lambda rows: np.where(rows["seed"] == 100, 0.8, 1.0)
    )
    figure = check(lambda: figures.figure2_max_alignment({"a": table}))
    ends = np.concatenate([line.get_ydata() for line in figure.axes[0].lines]).astype(float)
    segments = [
        path.vertices[:, 1]
        for container in figure.axes[0].containers
        for bar in container[2]
        for path in bar.get_paths()
    ]
    assert np.nanmax([ends.max(), *map(np.max, segments)]) <= 1


def test_trajectories_have_the_median_of_dense():
    table = synthetic_tables.trajectories(eps_mins=(0.2, 1.0), seeds=5)
    figure = check(lambda: figures.trajectories({"a": table}), 5)
    rows = table[(table["arm"] == "dense") & (table["metric"] == "max_alignment")]
    last = rows[(rows["eps_min"] == 0.2) & (rows["step"] == rows["step"].max())]["value"].median()
    assert figure.axes[0].lines[0].get_ydata()[-1] == pytest.approx(last)


def test_figure1_has_the_sign_of_the_gain():
    table = synthetic_tables.grid(seeds=7)
    table.loc[table["arm"] == "pruned_neuron", "aligned_neurons"] = (
        table.loc[table["arm"] == "dense", "aligned_neurons"].to_numpy() + 2
    )
    figure = check(lambda: figures.figure1_aligned_neurons({"a": table}))
    (means,) = [
        line.get_ydata() for line in figure.axes[1].lines if not line.get_label().startswith("_")
    ]
    assert np.allclose(means, 2)


def test_fate_shows_every_replica():
    """Means of replicas that learn and of those that do not would be of none of them."""
    given = {
        "a": synthetic_tables.grid(arms=TRAINED, seeds=7),
        "b": synthetic_tables.grid(arms=("dense",), seeds=7),
    }
    (ax,) = check(lambda: figures.fate(given), 7).axes
    dense = given["a"][given["a"]["arm"] == "dense"]
    every = next(line for line in ax.lines if len(line.get_ydata()) == len(dense))
    assert sorted(every.get_ydata()) == sorted(dense["max_alignment"])
