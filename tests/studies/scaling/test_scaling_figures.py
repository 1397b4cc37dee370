"""The figure of the scaling study from planted tables."""

import pytest
import synthetic_tables
from paper_values import check

from rarefeat.studies.scaling.figures import scaling
from rarefeat.workflow.run.job import Job

JOB = Job(stage="studies.scaling.figures")


@pytest.mark.parametrize("ratios", [(1.0,), (1.0, 0.95, 0.9, 0.8, 0.7)], ids=["few", "many"])
@pytest.mark.parametrize(("shift", "agree"), [(0.1, True), (-0.1, False)])
def test_title_counts_the_bounds_that_hold(ratios, shift, agree):
    table = synthetic_tables.exponents(ratios, shift)
    figure = check(lambda: scaling({"scaling_exponents": table}, JOB), twice=len(ratios) == 1)
    count = 3 * len(ratios)
    title = f"as printed: {count if agree else 0} of {count} agree"
    assert figure.axes[0].get_title() == title
