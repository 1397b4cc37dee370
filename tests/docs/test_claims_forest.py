"""The forest of claims: its axis agrees with the verdicts, and each dot leads to a row."""

import math
import re

import pandas as pd
import pytest

from claims_forest import bound_distance, claims_forest, place
from rarefeat.workflow.files.published import FOLDER, PublishedTables

ROW = {
    "estimate": 0.5, "decided_low": 0.4, "decided_high": 0.6, "required_low": 0.0,
    "required_high": math.inf, "least": 0.0, "verdict": "supported",
}  # fmt: skip


@pytest.mark.parametrize(
    ("change", "distance"),
    [
        ({}, 5),
        ({"required_low": 0.4}, 1),
        ({"required_low": 0.6}, -1),
        ({"required_low": -math.inf, "required_high": 0.8}, 3),
        ({"required_low": 0.45, "required_high": 0.9}, 0.5),
        ({"verdict": "contradicted", "least": 0.7}, -2),
        ({"required_low": 0.9, "decided_high": 0.5}, -math.inf),
    ],
)
def test_distance_is_one_where_the_interval_ends_at_the_bound(change, distance):
    assert bound_distance(pd.Series(ROW | change)) == pytest.approx(distance)


def test_dots_of_published_claims_lie_where_their_verdicts_say():
    drawing = claims_forest(PublishedTables(FOLDER))
    dots = re.findall(r'<a href="#[\w-]+"><circle cx="([\d.]+)".*?<title>(.*?)</title>', drawing)
    assert len(dots) > 100
    for x, words in dots:
        if "): contradicted" in words:
            assert float(x) <= place(-1) + 0.1
        if "): supported" in words:
            assert float(x) >= place(1) - 0.1
        if "): inconclusive" in words:
            assert place(-1) < float(x) < place(1)
