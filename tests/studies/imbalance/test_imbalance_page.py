"""The small tables of the page on imbalance."""

import pandas as pd
import pytest

from rarefeat.studies.imbalance.found import without_and_with
from rarefeat.studies.imbalance.page import fates


def test_every_replica_has_one_fate_and_agreement_is_no_certainty():
    best = [0.1, 0.2, 0.3, 0.9, 0.95]
    grid = pd.DataFrame({"sigma": 0.05, "eps_min": [0.2] * 5 + [1.0] * 5, "arm": "dense", "max_alignment": best + [0.99] * 5})
    found = fates(pd.concat([grid, grid.assign(arm="pruned_neuron", max_alignment=0.0)])).set_index(["eps_min", "fate"])
    assert found["share"].to_list() == [0.4, 0.4, 0.2, 0, 0, 1]
    assert set(found["n"]) == {5}
    # Five of five: the exact interval begins at (0.05 / 2)^(1/5).
    assert found.loc[(1.0, "learned"), "ci_low"] == pytest.approx(0.025**0.2)
    assert found.loc[(1.0, "learned"), "ci_high"] == 1


def test_nothing_is_said_of_a_bias_at_frequencies_that_the_two_studies_do_not_share():
    free = pd.DataFrame({"eps_min": [0.1, 0.3], "max_alignment": [0.08, 0.7]})
    bound = pd.DataFrame({"eps_min": [0.3, 1.0], "max_alignment": [0.07, 0.99]})
    said = without_and_with(free, bound)
    assert said.startswith(
        "The bias shuts it out: at 0.3 times the others' frequency its best neuron ends with a cosine of 0.70"
    )
    assert said.endswith("At 0.1 times it is not learned without one either (0.08).")
    assert without_and_with(free, bound.assign(eps_min=[0.4, 1.0])) == ""
