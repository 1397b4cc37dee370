"""The tables against scipy, written out by hand, and their schemas."""

import numpy as np
import pyarrow as pa
import pytest
import scipy.stats

from rarefeat.errors import RarefeatError
from rarefeat.stages.aggregate import grid_table, summary_table, trends_table
from rarefeat.stages.tables import ARM, KEYS, METRICS
from rarefeat.workflow.project import load

STUDY = load("config/config.yaml", "config/quick.yaml").sections["imbalance"].studies["paper"]
SEEDS = range(5)


@pytest.fixture
def rows():
    """Random metrics for every cell of the quick grid, as the probe writes them."""
    rng = np.random.default_rng(0)
    parts = []
    for cell, arm in ((at, arm) for at in STUDY.cells() for arm in at.arms):
        keys = {
            **cell.values,
            "nsr": cell["sigma"] ** 2 * 60,
            "simulator": "direct",
            **arm.model_dump(),
        }
        for seed in SEEDS:
            metrics = dict(zip(METRICS, rng.uniform(0, 1, len(METRICS)), strict=True))
            metrics["mask_minority_overlap"] = (
                None if arm.arm == "dense" else metrics["mask_minority_overlap"]
            )
            parts.append(pa.Table.from_pylist([keys | {"seed": seed} | metrics]).to_pandas())
    return parts


def test_grid_rows_are_unique_sorted_and_ordered(rows):
    grid = grid_table(list(reversed(rows)))
    assert len(grid) == sum(len(cell.arms) for cell in STUDY.cells()) * len(SEEDS)
    assert list(grid.columns)[:9] == ["eps_min", "sigma", "nsr", *ARM, "simulator", "seed"]
    assert grid.equals(grid.sort_values([*KEYS, "seed"], ignore_index=True))
    with pytest.raises(RarefeatError, match=r"table \{study\}_grid"):
        grid_table([*rows, rows[0]])


def test_summary_and_paired_difference_by_hand(rows):
    grid = grid_table(rows)
    summary = summary_table(grid).set_index([*KEYS, "metric"])
    eps_min, sigma = grid["eps_min"].min(), 0.05
    at = grid[(grid["eps_min"] == eps_min) & (grid["sigma"] == sigma)]
    pruned = at[at["arm"] == "pruned_neuron"].set_index("seed")["max_alignment"]
    dense = at[at["arm"] == "dense"].set_index("seed")["max_alignment"]
    row = summary.loc[(eps_min, sigma, "pruned_neuron", 0.1, 0, "unmasked", "max_alignment")]
    difference = pruned - dense
    expected = scipy.stats.t.interval(0.95, 4, difference.mean(), scipy.stats.sem(difference))
    np.testing.assert_allclose((row["mean"], row["sd"]), (pruned.mean(), pruned.std()))
    np.testing.assert_allclose(row[["paired_ci_low", "paired_ci_high"]].astype(float), expected)
    assert summary.xs("dense", level="arm")["paired_difference"].isna().all()
    assert (
        summary.loc[(eps_min, sigma, "dense", 0.0, 0, "unmasked", "mask_minority_overlap"), "n"]
        == 0
    )


def test_trends_recover_planted_slope(rows):
    grid = grid_table(rows)
    per_seed = 0.1 * grid["seed"] + np.where(grid["arm"] == "dense", 0.0, 0.05)
    grid["max_alignment"] = 0.2 + 0.3 * grid["eps_min"] + 0.01 * per_seed
    trends = trends_table(grid, STUDY)
    trends = trends[trends["metric"] == "max_alignment"]
    np.testing.assert_allclose(trends["slope"], 0.3)
    pruned = trends[trends["arm"] == "pruned_neuron"]
    np.testing.assert_allclose(pruned["paired_difference"], 0.0005)
    assert set(trends["grid"]) == set(STUDY.grid)
