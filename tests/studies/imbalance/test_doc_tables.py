"""The published tables of imbalance, from planted ones."""

import itertools

import pandas as pd
import pytest

from rarefeat.studies.imbalance import GATE
from rarefeat.studies.imbalance.measure import FIGURES, compare_changes
from tables_imbalance import (
    DEVICE_METRICS,
    METRICS,
    compare_attention,
    compare_devices,
    fates,
    page_trends,
)


def grid(seeds: range, **arms: float) -> pd.DataFrame:
    """Grid table of arms with a largest cosine each, which rises with the seed."""
    rows = [
        {
            "eps_min": eps_min,
            "sigma": 0.05,
            "arm": arm,
            "seed": seed,
            "max_alignment": cosine + 0.01 * seed,
            "aligned_neurons": 2.0,
            "majority_alignment": 0.9,
        }
        for (arm, cosine), eps_min, seed in itertools.product(arms.items(), (0.1, 0.5), seeds)
    ]
    return pd.DataFrame(rows)


def test_changes_are_compared_seed_by_seed():
    """Two seeds that gain the feature and one that loses it are counted, and tested exactly."""
    best = [0.9, 0.1, 0.2, 0.3]
    trained = grid(range(4), dense=0.0, pruned_neuron=0.0).assign(max_alignment=best * 4)
    other = grid(range(4), dense=0.0).assign(max_alignment=[0.1, 0.7, 0.8, 0.3] * 2)
    table = compare_changes(trained, *[other] * (len(GATE) - 1)).set_index(["way", "eps_min"])
    counts = ["learned", "n", "gained", "lost", "p_value"]
    assert table.loc[("as_trained", 0.1), counts].tolist() == [1, 4, 0, 0, 1]
    assert table.loc[("pruned", 0.5), counts].tolist() == [1, 4, 0, 0, 1]
    assert table.loc[("no_bias", 0.5), counts].tolist() == pytest.approx([2, 4, 2, 1, 1])


def test_trained_attention_is_beside_fixed_and_beside_decay():
    cosines = {"fixed": 0.6, "trained": 0.2, "trained_without_decay": 0.7, "decayed": 0.3}
    table = compare_attention(*(grid(range(5), dense=cosine) for cosine in cosines.values()))
    rows = table[(table["metric"] == "max_alignment") & (table["eps_min"] == 0.1)]
    changes = rows.set_index(["beside", "way"])["paired_difference"]
    assert changes["fixed"].to_dict() == pytest.approx({k: v - 0.6 for k, v in cosines.items()})
    assert changes["decayed"].to_dict() == pytest.approx({"decayed": 0, "trained": -0.1})


def test_trends_are_rank_correlations_by_seed():
    """One seed rises, one falls, and one does not change."""
    eps = [0.1, 0.5, 1.0]
    curves = {0: [1, 2, 3], 1: [3, 2, 1], 2: [2, 2, 2], 3: [1, 3, 5]}
    rows = [
        {"eps_min": e, "sigma": 0.05, "arm": "dense", "seed": seed} | dict.fromkeys(METRICS, value)
        for seed, values in curves.items()
        for e, value in zip(eps, values, strict=True)
    ]
    table = page_trends(*[pd.DataFrame(rows)] * 3)
    assert len(table) == len(FIGURES)
    assert table["trend"].tolist() == pytest.approx([0.25] * len(FIGURES))
    assert table.loc[0, ["n", "lowest", "at_highest"]].tolist() == [4, 0.1, 2.75]


def test_devices_are_compared_seed_by_seed():
    values = dict.fromkeys(DEVICE_METRICS[1:], 0.4)
    cpu = pd.DataFrame([{"arm": "dense", "seed": seed, **values} for seed in range(5)])
    gpu = cpu.iloc[::-1].copy()
    gpu.loc[gpu["seed"] == 3, "max_alignment"] = 0.9
    table = compare_devices(gpu, cpu).set_index("metric")
    assert table.loc["learned", ["gpu", "cpu", "difference"]].tolist() == pytest.approx(
        [0.2, 0, 0.2]
    )
    assert table.loc["max_alignment", "difference"] == pytest.approx(0.1)
    assert table.loc["final_loss", ["ci_low", "ci_high"]].tolist() == [0, 0]


def test_fates_have_exact_intervals():
    """Check shares at the thresholds, and that agreement of all is no certainty."""
    best = [0.1, 0.3, 0.5, 0.9, 0.95]
    grid = pd.DataFrame(
        {
            "sigma": 0.05,
            "eps_min": [0.2] * 5 + [1.0] * 5,
            "arm": "dense",
            "max_alignment": best + [0.99] * 5,
        }
    )
    found = fates(pd.concat([grid, grid.assign(arm="pruned_neuron", max_alignment=0.0)])).set_index(
        ["eps_min", "fate"]
    )
    shares = {"unaligned": [0.2, 0], "learned": [0.6, 1], "pure": [0.2, 1]}
    assert {name: found["share"].xs(name, level="fate").to_list() for name in shares} == shares
    assert set(found["n"]) == {5}
    # Five of five: the exact interval begins at (0.05 / 2)^(1/5).
    assert found.loc[(1.0, "learned"), "ci_low"] == pytest.approx(0.025**0.2)
    assert found.loc[(1.0, "learned"), "ci_high"] == 1
