"""The figure of the scaling study from planted tables."""

import pytest
import synthetic_tables
from paper_values import check

from rarefeat.run.job import Job
from rarefeat.studies.scaling.figures import scaling

FEW = {"ratios": (1.0, 0.9), "ds": (9, 12), "trained_d": (4, 5), "powers": (2,), "seeds": 2}


@pytest.mark.parametrize(
    "size", [FEW, {"ratios": (1.0, 0.95, 0.9, 0.8, 0.7), "seeds": 3}], ids=["few", "many"]
)
def test_figure(size):
    # Five ratios, each at two sizes of C_m: the legend names the colours and the markers, which are
    # seven.
    check(
        lambda: scaling(synthetic_tables.sizes(**size), Job(stage="studies.scaling.figures")),
        size["seeds"],
        twice=size is FEW,
        most=10,
    )
