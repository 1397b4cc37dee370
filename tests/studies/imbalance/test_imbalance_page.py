"""The small tables of the page on imbalance."""

import pandas as pd
import pytest
from scipy.stats import binomtest

from rarefeat.studies.imbalance.doc_tables import fates
from rarefeat.studies.imbalance.findings import describe_bias, pool


def test_pooled_share_counts_every_seed():
    parts = [
        pd.DataFrame({"eps_min": [0.3, 0.5], "share": [0.0, 0.7], "n": 10}),
        pd.DataFrame({"eps_min": [0.5, 0.7], "share": [0.5, 1.0], "n": 30}),
    ]
    pooled = pool(*parts).set_index("eps_min")
    assert pooled["n"].tolist() == [10, 40, 30]
    assert pooled["share"].tolist() == [0, 22 / 40, 1]
    exact = binomtest(22, 40).proportion_ci(method="exact")
    assert pooled.loc[0.5, ["ci_low", "ci_high"]].tolist() == pytest.approx([*exact])


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


def test_describe_bias_needs_a_frequency_of_both_studies():
    free = pd.DataFrame({"eps_min": [0.1, 0.3], "max_alignment": [0.08, 0.7]})
    bound = pd.DataFrame({"eps_min": [0.3, 1.0], "max_alignment": [0.07, 0.99]})
    text = describe_bias(free, bound)
    assert text.endswith(
        "is 0.70 without a bias and 0.07 with one. At 0.1 it is 0.08 without a bias."
    )
    assert describe_bias(free, bound.assign(eps_min=[0.4, 1.0])) == ""
    assert describe_bias(free[1:], bound).endswith("is 0.70 without a bias and 0.07 with one.")
