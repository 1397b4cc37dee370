"""Draws from ranges."""

import pytest
import torch

from rarefeat.model.randomness import generator
from rarefeat.workflow.config.ranges import Range, latin_hypercube


@pytest.mark.parametrize("count", [1, 2, 40, 300])
def test_a_hypercube_without_torch_is_that_of_torch(count):
    ranges = {"N": Range(low=1e3, high=1e6, log=True), "share": Range(low=0.1, high=0.9)}
    for seed in range(20):
        drawn = latin_hypercube("fate/hypercube", seed, count, ranges)
        for name, interval in ranges.items():
            random = generator("fate/hypercube", seed, name)
            strata = torch.randperm(count, generator=random)
            within = torch.rand(count, generator=random, dtype=torch.float64)
            shares = ((strata + within) / count).tolist()
            assert drawn[name] == list(map(interval.point, shares))
