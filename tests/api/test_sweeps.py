"""Sweeps: the numbers of the workflow, kept trainings, and estimates of one setting each."""

import contextlib
import shutil
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import numpy as np
import pandas as pd
import pytest
import torch
from conftest import refusal
from hypothesis import given, settings
from hypothesis import strategies as st
from session_code import define

import rarefeat
from rarefeat.api import plots, sweeps
from rarefeat.figures.labels import add_series_column
from rarefeat.stages.tables import ARM, METRICS, POINT
from rarefeat.workflow.config.model import Arm

SMALL = {"T": 8, "N": 256, "d1": 60, "progress": False}
TWO = {"eps_min": [0.2, 1.0], "seed": [3, 5, 6]}
TEXT = "def small(context):\n    return mask_smallest(context.norms, context.alpha)\n"
RULES = """
from rarefeat.model.pruning import mask_smallest
from helpers import twice

def small(context):
    return mask_smallest({times} * twice(context.norms), context.alpha)

def half(context):
    return 0.5 * context.norms
"""


@pytest.fixture(autouse=True)
def empty_session():
    sweeps.SESSION_CACHE.clear()


@pytest.fixture
def write_rules(tmp_path, monkeypatch):
    """Write the files of a user's rules."""
    monkeypatch.chdir(tmp_path)

    def write(times: int = 1, helper: str = "2 * x") -> None:
        Path("helpers.py").write_text(f"def twice(x):\n    return {helper}\n")
        Path("my_rules.py").write_text(RULES.format(times=times))

    write()
    return write


@pytest.fixture
def trained(monkeypatch) -> list[str]:
    """List the arms that are trained from now on."""
    names: list[str] = []
    pretrain = sweeps.pretrain

    def count(*arguments):
        names.extend(arm.arm for arm in arguments[4])
        return pretrain(*arguments)

    monkeypatch.setattr(sweeps, "pretrain", count)
    return names


def test_sweep_equals_workflow(results, quick_project):
    """All arms and seeds of its grid at once, and in another order."""
    study = quick_project.studies["paper"]
    points = {axis: sorted({cell[axis] for cell in study.cells()}) for axis in ("eps_min", "sigma")}
    arms = [arm.label for arm in study.arms if arm.trained and "weight" not in arm.arm]
    runs = rarefeat.sweep(
        **points,
        arm=[*arms, "ideal", "initial"],
        seed=[103, 100, 102, 101],
        config=quick_project,
        progress=False,
    )
    grid = rarefeat.read_table(results, "paper_grid")
    both = grid[["eps_min", "sigma", "arm", "seed"]].merge(runs.table)[list(grid)]
    assert len(both) == len(grid)
    pd.testing.assert_frame_equal(both, grid, check_exact=True)


def test_sweep_equals_train():
    """Of a rule that draws from its generators, alone and beside others."""
    coin = define(
        "def coin(context):\n"
        "    m = context.norms.shape[1]\n"
        "    return torch.stack([torch.rand(m, generator=g) < 0.5 for g in context.generators])\n",
        "coin",
    )
    alone = rarefeat.train(arm=coin, seed=5, alpha=0, **SMALL)
    runs = rarefeat.sweep(arm=["dense", coin], seed=[4, 5], alpha=0, **SMALL)
    row = runs.select(arm=coin, seed=5).table
    assert row["max_alignment"].item() == alone.metrics["max_alignment"]


def test_own_rules_equal_the_rules_that_they_copy(write_rules):
    expected = rarefeat.train(arm="pruned_neuron", **SMALL)
    for arm in (define(TEXT, "small"), "my_rules:small", {"arm": "my_rules:small", "alpha": 0.1}):
        encoder = rarefeat.train(arm=arm, **SMALL)
        assert torch.equal(encoder.weights, expected.weights)
        assert encoder.arm.alpha == 0.1
    biased = rarefeat.train(bias={"rule": "my_rules:half"}, **SMALL)
    assert torch.allclose(biased.bias, 0.5 * biased.weights.norm(dim=-1))
    half = define("def half(context):\n    return 0.5 * context.norms", "half")
    assert torch.equal(rarefeat.train(bias={"rule": half}, **SMALL).weights, biased.weights)


def test_sweep_trains_again_where_a_rule_is_edited(write_rules, trained):
    arms = ["dense", "my_rules:small"]
    first = rarefeat.sweep(arm=arms, cache="kept", **TWO, **SMALL)
    trained.clear()
    for folder in ("kept", "kept", "copied"):
        sweeps.SESSION_CACHE.clear()
        if folder == "copied":
            shutil.copytree("kept", "copied")
        again = rarefeat.sweep(arm=arms, cache=folder, **TWO, **SMALL)
        assert again.table.equals(first.table)
        assert again.trajectories.equals(first.trajectories)
    assert trained == []
    write_rules(times=2)
    rarefeat.sweep(arm=arms, cache="kept", **TWO, **SMALL)
    write_rules(times=2, helper="3 * x")
    rarefeat.sweep(arm=arms, cache="kept", **TWO, **SMALL)
    assert set(trained) == {"my_rules:small"}
    assert len(list(Path("kept").glob("*.json"))) == 24


def test_session_rule_runs_as_it_is_now(tmp_path, trained):
    """Whatever it reaches, and whatever a cache kept: it is trained at each call."""
    text = "def rule(context):\n    return mask_smallest(context.norms, Share.value)\n"
    rule = define(text, "rule", Share=SimpleNamespace(value=0.1))
    keys = {"arm": ["dense", rule], "seed": [1], "cache": tmp_path} | SMALL
    first, again = (rarefeat.sweep(**keys).select(arm=rule).trajectories for _ in range(2))
    rule.__globals__["Share"].value = 0.5
    edited = rarefeat.sweep(**keys).select(arm=rule).trajectories
    assert first.equals(again)
    assert not edited.equals(first)
    assert trained == ["dense", "rule", "rule", "rule"]
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: text[:-1],
        lambda text: text.replace("0.5", "0.6", 1),
    ],
)
def test_damaged_cache_entry_is_trained_again(tmp_path, trained, damage):
    first = rarefeat.sweep(seed=[1], cache=tmp_path, **SMALL)
    (path,) = tmp_path.iterdir()
    text = path.read_text()
    path.write_text(damage(text))
    sweeps.SESSION_CACHE.clear()
    assert rarefeat.sweep(seed=[1], cache=tmp_path, **SMALL).table.equals(first.table)
    assert trained == ["dense"] * 2
    assert path.read_text() == text


@pytest.mark.parametrize("name", ["packages", "machine"])
def test_cache_key_has_packages_and_machine(monkeypatch, trained, name):
    rarefeat.sweep(seed=[1], **SMALL)
    monkeypatch.setattr(sweeps, name, lambda: {"torch": "another"})
    rarefeat.sweep(seed=[1], **SMALL)
    assert trained == ["dense"] * 2


def test_sweep_refuses_a_rule_that_is_edited_while_it_trains(write_rules, monkeypatch):
    probe = sweeps.probe

    def edit(*arguments):
        write_rules(times=2)
        return probe(*arguments)

    monkeypatch.setattr(sweeps, "probe", edit)
    line = refusal(rarefeat.sweep, arm="my_rules:small", seed=[1], **SMALL)
    assert "my_rules:small-alpha=0.1: the file of a rule was edited while it trained" in line
    assert not sweeps.SESSION_CACHE


def test_stopped_sweep_goes_on_from_there(monkeypatch):
    train_and_probe, done = sweeps.SweepPlan.train_and_probe, []

    def once(*arguments):
        if done:
            raise KeyboardInterrupt
        done.append(train_and_probe(*arguments))

    with monkeypatch.context() as patch:
        patch.setattr(sweeps.SweepPlan, "train_and_probe", once)
        with pytest.raises(KeyboardInterrupt):
            rarefeat.sweep(**TWO, **SMALL)
    assert len(sweeps.SESSION_CACHE) == 3
    assert len(rarefeat.sweep(**TWO, **SMALL).table) == 6


def test_seeds_are_by_default_those_of_the_workflow():
    study = rarefeat.load_config().studies["paper"]
    plan = mock.patch.object(sweeps, "run_plans", side_effect=InterruptedError)
    with plan as run, pytest.raises(InterruptedError):
        rarefeat.sweep(**SMALL)
    (planned,) = run.call_args[0][0]
    assert planned.seeds == [study.first_seed + i for i in range(10)]
    assert planned.study.draws == study.draws == "paper"


@pytest.mark.parametrize(
    ("keys", "line"),
    [
        ({"history": True}, "history: has no effect"),
        ({"seed": {1, "2"}}, "sweep: seed: must be a whole number, got '2'"),
        ({"seed": []}, "sweep: seed: must be a value or several, got none"),
        ({"arm": {"alpha": 0.3}}, "sweep: arm: must be a name, a function, or a mapping as"),
        ({"arm": ["dense", {"arm": "dense"}]}, "sweep: values must be distinct, got ['dense',"),
        ({"seed": [1, np.int64(1)]}, "sweep: seed: values must be distinct, got [1, 1]"),
        ({"lambda_": [0.05, 0.050000001]}, "sweep: lambda_: values must be distinct, to six digit"),
        ({"T": [[1], [2, 3]]}, "sweep: T: Input should be a valid integer, got [1]"),
    ],
)
def test_sweep_refuses_in_one_line(keys, line):
    assert line in refusal(rarefeat.sweep, **{"T": 2, "N": 128, "progress": False} | keys)


def test_sweep_refuses_two_rules_of_one_name():
    line = "sweep: two rules are called small; give each a name of its own"
    rules = [define(TEXT, "small"), define(TEXT, "small")]
    assert line in refusal(rarefeat.sweep, arm=rules, **SMALL)
    assert line in refusal(rarefeat.sweep, arm=rules[0], bias={"rule": rules[1]}, **SMALL)
    biases = [{"rule": rule} for rule in rules]
    assert line in refusal(rarefeat.sweep, bias=biases, **SMALL)


def fake_training(plan, cell, arms, seeds) -> None:
    """Store a record that depends on nothing but the seed."""
    for arm in arms:
        for seed in seeds:
            keys = {**cell.values, "nsr": 0.1, "simulator": plan.study.simulator}
            keys |= {**arm.model_dump(), "seed": seed}
            row = keys | dict.fromkeys(METRICS, 0.5) | {"max_alignment": 0.1 + seed % 7 / 10}
            row |= {"diverged": 0.0}
            own = {name: keys[name] for name in (*Arm.model_fields, "seed")}
            steps = [
                own | {"step": step, "metric": "max_alignment", "value": 0.5} for step in (0, 1)
            ]
            plan.store(cell, arm, seed, (row, steps))


def subset(*values):
    """Draw one value, or a list of distinct ones."""
    some = st.lists(st.sampled_from(values), min_size=1, max_size=3, unique_by=str)
    return st.sampled_from(values) | some


AXES = {
    "eps_min": subset(0.2, 0.5, 1.0),
    "sigma": subset(0.01, 0.05),
    "arm": subset("dense", "pruned_neuron", "ideal", {"arm": "oracle_all", "onset": 3}),
    "seed": st.lists(st.integers(0, 30), min_size=1, max_size=4, unique=True),
    "alpha": subset(0.1, 0.2),
    "lambda_": subset(0.02, 0.05),
    "bias": subset({"share": 0}, {"share": 0.2}, {"rule": "gradient"}),
    "minority": st.sampled_from([[1.0], [[1.0], [1.0, 0.5]]]),
}
SWEEPS = st.fixed_dictionaries(
    {name: AXES[name] for name in ("eps_min", "arm", "seed")},
    optional={name: AXES[name] for name in ("sigma", "alpha", "lambda_", "bias", "minority")},
)
COLUMNS = st.sampled_from([None, "arm", "eps_min", "sigma", "alpha", "lambda", "bias", "minority"])


@pytest.fixture(scope="module")
def config():
    return rarefeat.load_config()


def run_fake_sweep(config, keys) -> rarefeat.Sweep:
    """Return a sweep of some keys whose trainings are not computed."""
    sweeps.SESSION_CACHE.clear()
    with mock.patch.object(sweeps.SweepPlan, "train_and_probe", fake_training):
        return rarefeat.sweep(**keys, config=config, T=5, progress=False)


def is_possible(keys) -> bool:
    """Return whether the ratio, if there is one, is for an arm that can have it."""
    arms = keys["arm"] if isinstance(keys["arm"], list) else [keys["arm"]]
    has_ratio = "pruned_neuron" in arms
    return "alpha" not in keys or (has_ratio and len(arms) > 1) or arms == ["pruned_neuron"]


@settings(max_examples=20)
@given(keys=SWEEPS.filter(is_possible), metric=st.sampled_from(["max_alignment", "final_loss"]))
def test_n_is_the_number_of_seeds(config, keys, metric):
    runs = run_fake_sweep(config, keys)
    n = len(keys["seed"])
    by_setting = runs.table.groupby([*runs.axes, *POINT, *ARM])["seed"]
    assert (by_setting.size() == n).all()
    assert (by_setting.nunique() == n).all()
    summary = runs.summary()
    assert set(summary.loc[summary["metric"] == metric, "n"]) == {n}
    diverged = summary[summary["metric"] == "diverged"]
    assert (diverged["ci_high"] - diverged["ci_low"] > 0.1).all()
    assert not runs.table[list(runs.axes)].isna().any(axis=None)


@settings(max_examples=50)
@given(keys=SWEEPS.filter(is_possible), hue=COLUMNS, col=COLUMNS, x=COLUMNS | st.just("step"))
def test_plot_pools_nothing_but_seeds(config, keys, hue, col, x):
    """It draws if rows of one x, hue and col are those of the seeds, and refuses otherwise."""
    runs = run_fake_sweep(config, keys)
    separate = [name for name in (x or "eps_min", hue, col) if name]
    table = add_series_column(runs.trajectories if x == "step" else runs.table)
    counts = None
    with (
        mock.patch.object(plots, "draw_lines", side_effect=lambda ax, rows, *rest: len(rows)),
        contextlib.suppress(rarefeat.RarefeatError),
    ):
        counts = runs.plot(x=x or "eps_min", hue=hue, col=col)
    plots.plt.close("all")
    if not set(separate) <= set(table):
        assert counts is None
        return
    groups = table.groupby(["series" if name == "arm" else name for name in separate])
    pools_nothing = (groups.size() == len(keys["seed"])).all()
    assert (counts is not None) == pools_nothing
    if counts is not None:
        assert np.sum(counts) == len(table)


def test_plot_names_the_columns_that_it_would_pool(config):
    keys = {"eps_min": [0.2, 1.0], "sigma": [0.01, 0.05], "arm": ["dense", "pruned_neuron"]}
    runs = run_fake_sweep(config, keys | {"lambda_": [0.02, 0.05], "seed": [1, 2]})
    assert refusal(runs.plot) == (
        "plot: max_alignment would be averaged over lambda and sigma; give hue='lambda' or"
        " col='sigma', or choose a value: .select(lambda_=0.02)"
    )
    one_lambda = runs.select(lambda_=0.02)
    first, _ = one_lambda.plot(col="sigma")
    axes = one_lambda.select(sigma=0.01).plot()
    assert len({float(x) for line in axes.get_lines() for x in line.get_xdata()}) == 4
    assert "no such metric (did you mean 'max_alignment'" in refusal(runs.plot, "max_alignmnt")
    assert "plot: lamda: no such column of settings (did you" in refusal(runs.plot, hue="lamda")
    assert "leave ax out" in refusal(one_lambda.plot, col="sigma", ax=first)


def test_paired_plot_draws_the_difference_of_the_summary():
    arms = ["dense", "pruned_neuron", "random_neuron"]
    runs = rarefeat.sweep(eps_min=[0.2, 1.0], arm=arms, alpha=0.3, seed=[3, 5, 6], **SMALL)
    ax = runs.plot(paired=True)
    assert "minus dense" in ax.get_ylabel()
    summary = runs.summary().query("metric == 'max_alignment'").set_index(["arm", "eps_min"])
    lines = [line.get_ydata() for line in ax.get_lines() if len(line.get_xdata()) == 2][:4:2]
    for arm, drawn in zip(arms[1:], lines, strict=True):
        np.testing.assert_allclose(
            np.asarray(drawn, float), summary.loc[arm, "paired_difference"].astype(float)
        )
    assert len(runs.select(eps_min=1.0).plot(x="step", paired=True).get_lines()) >= 2
    for arm in ("dense", "pruned_neuron"):
        line = refusal(runs.select(arm=arm).plot, paired=True)
        assert line == "plot: paired: needs the arm dense at each setting, and another arm"


def test_select_takes_values_as_they_were_given(config):
    biases = [{"share": 0}, {"share": 0.2, "cap": 2.0}]
    runs = run_fake_sweep(config, {"bias": biases, "seed": [1, 2], "lambda_": [0.02, 0.05]})
    assert set(runs.table["bias"]) == {"share=0", "share=0.2, cap=2.0"}
    assert list(runs.table.columns[:3]) == ["bias", "lambda", "eps_min"]
    for bias in biases:
        assert len(runs.select(bias=bias, lambda_=0.02).table) == 2
    assert len(runs.select(bias="share=0", **{"lambda": 0.05}).trajectories) == 4
    assert "select: lambda_: no row has 1; there are 0.02, 0.05" in refusal(runs.select, lambda_=1)
    assert "select: lamda: no such column (did you mean" in refusal(runs.select, lamda=1)
