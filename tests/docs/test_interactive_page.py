"""The interactive page: its data are those of the published tables, and its law was tested."""

import json
import re
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch
from conftest import of_size

from explorer import LATE
from formatting import select_rows
from rarefeat.statistics import fraction_interval
from recorded_runs import SETTINGS, neuron_positions, record_runs
from tables_imbalance import EXPLORED

ROOT = Path(__file__).parents[2]
TABLES = ROOT / "docs/tables"


@pytest.fixture(scope="module")
def text():
    return (ROOT / "docs/play.html").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def data(text):
    return json.loads(re.search(r"^const DATA = (.*);$", text, re.MULTILINE)[1])


def test_page_asks_nothing_of_a_network(text):
    assert not re.search(r"https?://(?!www\.w3\.org)|@import|fetch\(|src=", text)


def test_page_has_a_law_only_where_it_was_tested(data):
    study = {"N": data["begin"]["N"], "delay": 0}
    for regime in data["regimes"]:
        inside = 0.1 <= regime["share"] <= 0.9
        own = all(regime[name] == value for name, value in study.items())
        assert bool(regime.get("law")) <= (inside and own)
    begin = {name: data["begin"][name] for name in ("share", "lambda", "N", "delay")}
    (law,) = (item["law"] for item in data["regimes"] if begin.items() <= item.items())
    frequencies, shares = zip(*law["curve"], strict=True)
    assert np.interp(law["half"], frequencies, shares) == pytest.approx(0.5, abs=0.01)


def test_points_of_one_setting_share_one_config():
    """Pooled studies differ in what the page shows, and in their length."""
    project = of_size("full")
    late = project.sections["fate"].studies
    shown = {"T": True, "lambda_": True, "bias": {"share", "delay"}}
    pooled = [
        (study.data.model_dump(exclude={"N"}), study.training.model_dump(exclude=shown))
        for study in (*map(project.studies.get, EXPLORED), *map(late.get, LATE))
    ]
    assert all(config == pooled[0] for config in pooled)


def test_page_counts_one_definition_of_learned(data):
    counts = pd.read_csv(TABLES / "learned_by_step.csv")
    last = select_rows(counts, study="confirmation", eps_min=0.5).iloc[-1]
    begin = {name: data["begin"][name] for name in ("share", "lambda", "N", "delay")}
    (points,) = (item["points"] for item in data["regimes"] if begin.items() <= item.items())
    point = next(point for point in points if point["eps"] == 0.5 and point["n"] == last["n"])
    outcomes = np.repeat([1, 0], [last["learned"], last["n"] - last["learned"]])
    expected = [last["step"], outcomes.mean(), *fraction_interval(outcomes)]
    assert point["course"][-1] == pytest.approx(expected, abs=1e-3)
    # It is that of the grid's table.
    fates = pd.read_csv(TABLES / "confirmation_fates.csv")
    fates = select_rows(fates, sigma=last["sigma"], eps_min=0.5).set_index("fate")["share"]
    assert fates["learned"] == pytest.approx(outcomes.mean(), abs=1e-6)


def test_recorded_runs_close_their_gates_when_told():
    with_bias = (0.5, 0.2, 0.05, 512)
    settings = (*with_bias, 0, 80), (*with_bias, 10, 80), (0.5, 0.0, 0.05, 0, 0, 3)
    runs, neurons = record_runs(settings)
    first, later, never = runs["closes"]
    assert 0 < first < later == first + 10
    assert never == -1
    assert runs["gate"].tolist() == pytest.approx([runs["gate"][0]] * 2 + [0])
    np.testing.assert_allclose(runs[SETTINGS], settings)
    assert neurons["cosine"].between(0, 1).all()
    assert (neurons["rare"] <= neurons["cosine"]).all()


def test_neuron_positions_point_at_their_features():
    d = 4
    history = torch.zeros(1, 3, d + 2)
    history[0, 0, d - 1] = history[0, 1, 0] = -2.0
    history[0, 2, :d] = torch.tensor([1.0, 1.0, 0.1, 0.0])
    history[..., d] = 2.0
    encoder = SimpleNamespace(
        data=SimpleNamespace(d=d), training=SimpleNamespace(m=3), steps=[7], history=history
    )
    table = neuron_positions(encoder)
    assert table["angle"].tolist() == pytest.approx([0, 90, 135], abs=1)
    assert table["cosine"].tolist() == [1, 1, 0.5]
    assert table["rare"].tolist() == [1, 0, 0]
    assert set(table["step"]) == {7}
