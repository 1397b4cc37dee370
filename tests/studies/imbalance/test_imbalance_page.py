"""The small tables of the page on imbalance."""

import pandas as pd
import pytest

from rarefeat.studies.imbalance.doc_tables import fates


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
