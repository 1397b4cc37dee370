"""Tests of the comparison of oversampling and re-weighting with pruning."""

import itertools

import pandas as pd
import pytest

from rarefeat.studies.imbalance.doc_tables import compare_baselines


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


def test_baselines_are_paired_over_common_seeds():
    paper = grid(range(10), dense=0.2, pruned_neuron=0.1)
    table = compare_baselines(paper, grid(range(5), dense=0.89), grid(range(2, 6), dense=0.3))
    assert set(table["n"]) == {3}
    rows = table[(table["metric"] == "max_alignment") & (table["eps_min"] == 0.1)].set_index("way")
    changes = {"dense": 0.0, "pruned_neuron": -0.1, "oversampled": 0.69, "reweighted": 0.1}
    assert rows["paired_difference"].to_dict() == pytest.approx(changes)
    assert rows["learned"].to_dict() == changes | dict.fromkeys(changes, 0) | {"oversampled": 3}
