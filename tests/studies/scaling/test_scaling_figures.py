"""The figure of the scaling study from planted tables."""

import pytest
import synthetic_tables
from paper_values import check

from rarefeat.studies.scaling.figures import scaling
from rarefeat.workflow.run.job import Job

JOB = Job(stage="studies.scaling.figures")


@pytest.mark.parametrize("ratios", [(1.0,), (1.0, 0.95, 0.9, 0.8, 0.7)], ids=["few", "many"])
@pytest.mark.parametrize("shift", [0.1, -0.1])
def test_exponents_can_be_printed(ratios, shift):
    table = synthetic_tables.exponents(ratios, shift)
    check(lambda: scaling({"scaling_exponents": table}, JOB), twice=len(ratios) == 1)
