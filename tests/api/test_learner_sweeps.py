"""Sweeps of learners, and the frequency from which each learns the rare feature."""

import numpy as np
import pandas as pd
import pytest
from conftest import refusal

import rarefeat
from rarefeat.api import learner_sweeps, sweeps

SMALL = {"T": 8, "N": 256, "d1": 20, "K": 16, "progress": False}


def square(f_x, f_y):
    return (f_x - f_y).square().mean() - f_x.square().mean()


@pytest.fixture(autouse=True)
def empty_session():
    sweeps.SESSION_CACHE.clear()


@pytest.fixture
def trained(monkeypatch) -> list[str]:
    """List the losses that are trained from now on."""
    names: list[str] = []
    train = learner_sweeps.LearnerPlan.train

    def count(plan, *arguments):
        names.append(plan.learner.loss)
        return train(plan, *arguments)

    monkeypatch.setattr(learner_sweeps.LearnerPlan, "train", count)
    return names


def test_sweep_equals_training_and_is_kept(tmp_path, trained):
    keys = {"loss": ["spectral", square], "seed": [4, 5], "cache": tmp_path} | SMALL
    runs = rarefeat.sweep_learners([0.0, 1.0], **keys)
    alone = rarefeat.train_learners(0.0, loss="spectral", seed=[5], **SMALL).table
    row = runs.select(loss="spectral", eps_min=0.0, seed=5).table.iloc[0]
    is_rare = alone["feature"] == 8
    for name, source in (("", "r2"), ("_untrained", "r2_untrained")):
        assert row[f"r2_rare{name}"] == pytest.approx(alone.loc[is_rare, source].item())
        assert row[f"r2_frequent{name}"] == pytest.approx(alone.loc[~is_rare, source].mean())
    assert row["given"] == alone["given"][0]
    trained.clear()
    sweeps.SESSION_CACHE.clear()
    again = rarefeat.sweep_learners([0.0, 1.0], **keys)
    pd.testing.assert_frame_equal(again.table, runs.table)
    pd.testing.assert_frame_equal(again.trajectories, runs.trajectories)
    assert trained == [square, square], "a function of the session is trained at each call"


def test_differences_are_to_the_first_learner():
    learners = {"slow": {"eta": 0.01}, "fast": {"loss": "spectral", "eta": 0.1}}
    runs = rarefeat.sweep_learners(learners=learners, seed=[4, 5, 6], **SMALL)
    summary = runs.summary().set_index(["learner", "metric"])["paired_difference"]
    r2 = runs.table.pivot(index="seed", columns="learner", values="r2_rare")
    assert summary["fast", "r2_rare"] == pytest.approx((r2["fast"] - r2["slow"]).mean())
    assert np.isnan(summary["slow", "r2_rare"])
    assert "minus slow" in runs.plot(paired=True).get_ylabel()
    assert runs.plot("batch_loss", x="step").texts
    assert "needs several learners" in refusal(
        rarefeat.sweep_learners(seed=[4], **SMALL).plot, paired=True
    )


@pytest.mark.parametrize(
    ("keys", "line"),
    [
        ({"lose": 1}, "sweep_learners: lose: unknown key (did you mean 'loss'"),
        ({"learners": {"a": {"lr": 1}}}, "sweep_learners: lr: unknown key (it is called 'eta'"),
        ({"learners": {"a": {"T": 1}}, "T": [1, 2]}, "learners: a: T: given as a list, too"),
        ({"loss": ["spectral", "spectral"]}, "sweep_learners: loss: values must be distinct"),
        ({"eps_min": -1.0}, "eps_min: Input should be greater than 0"),
    ],
)
def test_sweep_refuses_in_one_line(keys, line):
    assert line in refusal(rarefeat.sweep_learners, **SMALL | keys)


def planted(crossing: float):
    """Return a training whose replica of seed s learns from a frequency around the crossing."""

    def train(plan, cell, seeds):
        rows = []
        for seed in seeds:
            knows = cell["eps_min"] >= crossing + 0.02 * (seed % 2)
            for feature in range(9):
                r2 = 0.8 if feature < 8 or knows else 0.1
                row = {"seed": seed, "feature": feature, "r2": r2, "r2_untrained": 0.7}
                rows.append(row | {"cosine": r2, "cosine_untrained": 0.2})
        table = pd.DataFrame(rows).assign(r2_shuffled=0, norm=1, rank=1, loss=1, diverged=0.0)
        return type("Result", (), {"trajectory": []}), table.assign(given="nothing"), {}

    return train


@pytest.mark.parametrize(
    ("crossing", "ends", "bound"),
    [(0.45, (0.4, 0.6), ""), (0.1, (0.2, 0.2), "at most"), (2.0, (1.0, 1.0), "above")],
)
def test_interval_of_a_critical_frequency_includes_the_grid(
    crossing, ends, bound, monkeypatch, capsys
):
    monkeypatch.setattr(learner_sweeps.LearnerPlan, "train", planted(crossing))
    grid = [0.2, 0.4, 0.6, 0.8, 1.0]
    for measure in ("readout", "cosine"):
        (row,) = rarefeat.critical_frequency(
            grid, seed=range(6), measure=measure, loss=square, **SMALL
        ).to_dict("records")
        assert (row["ci_low"], row["ci_high"]) == ends
        assert row["bound"] == bound
        assert ends[0] <= row["frequency"] <= ends[1]
        assert row["n"] == 6
        assert (row["kept"], row["kept_low"]) == pytest.approx((0.1 / 0.7, 0.1 / 0.7))
    assert "1 learners, 6 frequencies, 6 seeds: about" in capsys.readouterr().err
    assert "measure: must be readout or" in refusal(rarefeat.critical_frequency, measure="r2")
    assert "eps_min: must have a" in refusal(rarefeat.critical_frequency, [0])
