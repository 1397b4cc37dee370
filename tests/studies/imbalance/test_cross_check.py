"""Tests of the table that compares the two simulators."""

import numpy as np
import pandas as pd
import pytest

from rarefeat.stages.tables import METRICS
from rarefeat.studies.imbalance.measure import LEVEL, compare, compare_grids
from rarefeat.workflow.config.model import Arm


def grid(
    n: int, seed: int, shift: dict[str, float] | None = None, arms=("dense", "pruned_neuron")
) -> pd.DataFrame:
    """Return a grid table of random metrics, one eps_min and two arms.

    `shift` moves a metric of the pruned arm.
    """
    draws = np.random.default_rng(seed)
    rows = []
    for arm in arms:
        alpha = 0.1 if arm == "pruned_neuron" else 0.0
        for replica in range(n):
            values = {name: draws.normal(0.5, 0.1) for name in METRICS}
            values["mask_minority_overlap"] = values["mask_minority_overlap"] if alpha else np.nan
            if alpha:
                values = {
                    name: value + (shift or {}).get(name, 0.0) for name, value in values.items()
                }
            keys = {
                "eps_min": 0.5,
                "sigma": 0.05,
                **Arm(arm=arm, alpha=alpha).model_dump(),
                "seed": replica,
            }
            rows.append(keys | values)
    return pd.DataFrame(rows)


def test_compare_constants():
    assert compare(np.zeros(50), np.zeros(10)) == (0.0, 0.0, 0.0, 1.0)
    *interval, p_value = compare(np.ones(50), np.zeros(10))
    assert interval == [1.0, 1.0, 1.0]
    assert p_value < 1e-10


def test_compare_interval_is_of_reduced_minus_direct():
    difference, low, high, _ = compare(np.array([3.0, 4.0, 5.0, 4.0]), np.array([1.0, 2.0, 3.0]))
    assert difference == pytest.approx(2.0)
    assert low < difference < high


def test_cross_check_finds_a_shifted_metric():
    table = compare_grids(grid(50, 0), grid(10, 1))
    assert table["agrees"].all()
    shifted = compare_grids(grid(50, 0), grid(10, 1, {"max_alignment": 0.4}))
    rejected = shifted[~shifted["agrees"]]
    assert list(zip(rejected["arm"], rejected["metric"], strict=True)) == [
        ("pruned_neuron", "max_alignment")
    ]
    assert rejected["adjusted_p_value"].item() < LEVEL
    assert rejected["difference"].item() == pytest.approx(-0.4, abs=0.15)


def test_cross_check_compares_common_cells_and_metrics():
    table = compare_grids(grid(50, 0), grid(10, 1, arms=("dense",)))
    assert set(table["arm"]) == {"dense"}
    # The floor of the loss is the test set's alone, and nothing is pruned in the dense arm.
    assert set(METRICS) - set(table["metric"]) == {"loss_floor", "mask_minority_overlap"}
