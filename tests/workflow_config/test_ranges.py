"""Draws from ranges."""

import pytest

from rarefeat.studies.selection import regimes
from rarefeat.workflow.config.ranges import Range, latin_hypercube


@pytest.mark.parametrize("count", [1, 2, 40, 300])
def test_a_hypercube_without_torch_is_that_of_torch(count):
    ranges = {"N": Range(low=1e3, high=1e6, log=True), "share": Range(low=0.1, high=0.9)}
    for seed in range(20):
        drawn = "fate/hypercube", seed, count, ranges
        assert latin_hypercube(*drawn) == regimes.hypercube(*drawn)
